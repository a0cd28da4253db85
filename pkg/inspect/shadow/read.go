package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// selector selects the Service of the chart's shadow, and port is its port.
	selector, port = "app.kubernetes.io/component=shadow", "10269"
	// maxReportBytes is more than maxWorkloads need.
	maxReportBytes = 4 << 20
	readTimeout    = 30 * time.Second
)

// Request says which report is read.
type Request struct {
	// Service is NAMESPACE/NAME of the shadow's Service; empty finds it by the chart's label.
	Service string
	// Namespace is that of the pods; empty is all.
	Namespace string
	Hours     int
}

// Read returns the report of the shadow that runs in the cluster. It reads it through the API server.
func Read(ctx context.Context, c *cluster.Connection, r Request) (*Report, error) {
	namespace, name, err := r.find(ctx, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := c.Client.CoreV1().Services(namespace).ProxyGet("http", name, port, Path,
		map[string]string{"hours": strconv.Itoa(r.Hours)}).Stream(ctx)
	if err != nil {
		err = fmt.Errorf("read the report of Service %s/%s: %w", namespace, name, text.ExcerptError(err))
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; to grant access: %s", err, c.Grant(ctx, "get", "", "services/proxy"))
		}
		return nil, err
	}
	defer func() { _ = body.Close() }() // it has been read
	report := &Report{}
	if err := json.NewDecoder(source.BoundBody(body, maxReportBytes)).Decode(report); err != nil {
		return nil, fmt.Errorf("read the report of Service %s/%s: %w", namespace, name, err)
	}
	if r.Namespace != "" {
		report.keep(r.Namespace)
	}
	return report, nil
}

// find returns the namespace and the name of the shadow's Service.
func (r *Request) find(ctx context.Context, c *cluster.Connection) (namespace, name string, err error) {
	if r.Service != "" {
		service, err := text.ParseName(r.Service, "the shadow's Service")
		if err != nil {
			return "", "", cluster.OptionErrorf("--service: %w", err)
		}
		return service.Namespace, service.Name, nil
	}
	services, err := c.Client.CoreV1().Services(corev1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		err = fmt.Errorf("look for the shadow's Service: %w; write --service NAMESPACE/NAME", err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; or grant the permission: %s", err, c.Grant(ctx, "list", "", "services"))
		}
		return "", "", err
	}
	names := text.Each(services.Items, func(s corev1.Service) string { return s.Namespace + "/" + s.Name })
	switch len(names) {
	case 0:
		return "", "", fmt.Errorf("no shadow was found: no Service has the label %s; install it with the chart's value shadow.enabled, "+
			"or write --service NAMESPACE/NAME", selector)
	case 1:
		return services.Items[0].Namespace, services.Items[0].Name, nil
	}
	return "", "", fmt.Errorf("several shadows run: %s; choose one with --service", text.FirstN(names))
}

// keep drops the workloads of other namespaces.
func (r *Report) keep(namespace string) {
	workloads := r.Workloads
	r.Workloads, r.Total = []WorkloadCounts{}, Counts{}
	for _, w := range workloads {
		if w.Namespace == namespace {
			r.Workloads = append(r.Workloads, w)
			r.Total.add(&w.Counts)
		}
	}
}
