package shadow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

type shadowOptions struct {
	cluster *kubectl.Flags
	output  output.Flags
	request Request
	since   time.Duration
}

// Command returns the command shadow.
func Command() *cobra.Command {
	o := &shadowOptions{cluster: kubectl.NewFlags()}
	command := &cobra.Command{
		Use:   cluster.ShadowCommand,
		Short: "Show what Plimsoll would have decided for another scheduler's pods",
		Long: `Shows how many pods of another scheduler Plimsoll would have placed elsewhere, and the hot minutes of both
choices. The shadow in the cluster counts them; the chart's value shadow.enabled installs it.

A hot minute is a minute in a pod's first hour in which its node is above 80 % of CPU. For Plimsoll's choice it is
predicted: the node's measured load and the pod's expected usage.`,
		Example: `  # The last six hours
  kubectl plimsoll shadow --since 6h

  # One namespace, for a script
  kubectl plimsoll shadow -n shop -o json`,
		Args: kubectl.NoArgs,
		RunE: o.run,
	}
	flags := command.Flags()
	o.cluster.AddConnectionTo(flags)
	o.output.AddTo(flags)
	flags.DurationVar(&o.since, "since", MaxHours*time.Hour, fmt.Sprintf(
		"whole hours to show, the present one included, from 1h to %dh", MaxHours))
	flags.StringVar(&o.request.Service, "service", "", "NAMESPACE/NAME of the shadow's Service, if it is not found by its label")
	flags.StringVar(&o.request.Address, "address", "",
		"http(s) URL at which this machine reaches the shadow, such as that of a port-forward, in place of the API server's proxy")
	command.AddCommand(runCommand())
	return command
}

func (o *shadowOptions) run(cmd *cobra.Command, _ []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.since < time.Hour || o.since > MaxHours*time.Hour || o.since%time.Hour != 0 {
		return cluster.OptionErrorf("--since: %v; write whole hours from 1h to %dh", o.since, MaxHours)
	}
	if o.request.Address != "" && (o.request.Service != "" || text.HTTPURL(o.request.Address) == nil) {
		return cluster.OptionErrorf("--address: %q; write an http(s) URL, such as http://localhost:10269, and no --service",
			o.request.Address)
	}
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return err
	}
	o.request.Hours = int(o.since / time.Hour)
	if cmd.Flags().Changed("namespace") {
		o.request.Namespace = connection.Namespace
	}
	report, err := Read(cmd.Context(), connection, o.request)
	if err != nil {
		return err
	}
	return o.output.Print(cmd, report, report.Print)
}

func (*Report) JSONKind() string { return "Shadow" }

const (
	// selector selects the Service of the chart's shadow, and port is its port.
	selector, port = "app.kubernetes.io/component=shadow", "10269"
	// maxReportBytes is more than maxWorkloads need.
	maxReportBytes = 4 << 20
	readTimeout    = 30 * time.Second
)

// Request says which report is read.
type Request struct {
	// Service is NAMESPACE/NAME of the shadow's Service; empty finds it by the chart's label. Address is the URL of the shadow itself,
	// and replaces the Service unless empty.
	Service, Address string
	// Namespace is that of the pods; empty is all.
	Namespace string
	Hours     int
}

// Read returns the report of the shadow that runs in the cluster. It reads it through the API server, unless there is an Address.
func Read(ctx context.Context, c *cluster.Connection, r Request) (*Report, error) {
	request, of, err := r.open(ctx, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := request.Stream(ctx)
	if err != nil {
		err = fmt.Errorf("read the report of %s: %w", of, text.ExcerptError(err))
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; to grant access: %s", err, c.Grant(ctx, "get", "", "services/proxy"))
		}
		return nil, err
	}
	defer func() { _ = body.Close() }() // it has been read
	report := &Report{}
	if err := json.NewDecoder(source.BoundBody(body, maxReportBytes)).Decode(report); err != nil {
		return nil, fmt.Errorf("read the report of %s: %w", of, err)
	}
	if r.Namespace != "" {
		report.keep(r.Namespace)
	}
	return report, nil
}

// open returns a request for the report, and where the report is from.
func (r *Request) open(ctx context.Context, c *cluster.Connection) (request rest.ResponseWrapper, of string, err error) {
	hours := strconv.Itoa(r.Hours)
	if r.Address != "" {
		client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: r.Address})
		if err != nil {
			return nil, "", cluster.OptionErrorf("--address: %w", err)
		}
		return client.RESTClient().Get().AbsPath(Path).Param("hours", hours), r.Address, nil
	}
	namespace, name, err := r.find(ctx, c)
	if err != nil {
		return nil, "", err
	}
	request = c.Client.CoreV1().Services(namespace).ProxyGet("http", name, port, Path, map[string]string{"hours": hours})
	return request, "Service " + namespace + "/" + name, nil
}

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

// Print prints a row for each workload, and sentences on all of them.
func (r *Report) Print(p *terminal.Printer) {
	if len(r.Workloads) > 0 {
		headers := []string{"NAMESPACE", "WORKLOAD", "PODS", "ELSEWHERE", "NOWHERE", "SKIPPED", "HOT-MINUTES", "PLIMSOLL-HOT-MINUTES"}
		var rows [][]string
		for i := range r.Workloads {
			w := &r.Workloads[i]
			row := []string{cmp.Or(w.Namespace, "-"), cmp.Or(w.Workload, "-")}
			for _, n := range []int{w.Pods, w.Elsewhere, w.Nowhere, w.Skipped, w.HotMinutesMade, w.HotMinutesPlimsoll} {
				row = append(row, strconv.Itoa(n))
			}
			rows = append(rows, row)
		}
		terminal.TextTable(headers, rows).Print(p, true)
		p.Printf("\n")
	}
	p.Printf("Since %s: %s. Plimsoll would have placed %d elsewhere, and %d nowhere.\n", r.From.Format(time.RFC3339),
		text.Count(r.Total.Pods, "pod"), r.Total.Elsewhere, r.Total.Nowhere)
	p.Printf("%s\n", r.Total.verdict())
	if n := r.Total.Skipped; n > 0 {
		p.Printf("Skipped: %s, because the share of the core was spent, no load was known, or the decision failed.\n",
			text.Count(n, "pod"))
	}
	p.Printf("The shadow spends %.1f %% of a core.\n", 100*r.CoreShare)
}

func (c *Counts) verdict() string {
	made, plimsoll := c.HotMinutesMade, c.HotMinutesPlimsoll
	switch {
	case made == 0 && plimsoll == 0:
		return "No pod was on a hot node, and none would have been."
	case made == plimsoll:
		return fmt.Sprintf("Plimsoll's choices have as many predicted hot minutes: %d.", made)
	case made == 0:
		return fmt.Sprintf("Plimsoll's choices have %d predicted hot minutes, and those made have none.", plimsoll)
	}
	word, share := "fewer", 100*float64(made-plimsoll)/float64(made)
	if share < 0 {
		word, share = "more", -share
	}
	return fmt.Sprintf("Plimsoll's choices have %.0f %% %s predicted hot minutes: %d in place of %d.", share, word, plimsoll, made)
}
