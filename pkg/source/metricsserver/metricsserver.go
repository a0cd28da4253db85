// Package metricsserver reads node load from the resource metrics API (metrics.k8s.io), which metrics-server serves.
package metricsserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// DefaultTimeout bounds one Fetch where no timeout is configured.
const DefaultTimeout = 10 * time.Second

// Config says how the API is read. Where it is, and with which credentials, the client knows.
type Config struct {
	// Timeout bounds one Fetch; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Source reads the resource metrics API. It is not safe for concurrent use.
type Source struct {
	client    metricsclient.Interface
	nodes     corelisters.NodeLister
	timeout   time.Duration
	unmatched source.Unmatched
}

var _ source.Source = &Source{}

// New returns a source that reads the API with client, and takes the nodes' capacity from the lister. A client that accepts
// protobuf beside JSON is read faster in a large cluster.
func New(cfg Config, client metricsclient.Interface, nodes corelisters.NodeLister) *Source {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &Source{client: client, nodes: nodes, timeout: cfg.Timeout}
}

// Name implements source.Source.
func (s *Source) Name() string { return "KubernetesMetricsServer" }

// Fetch reads all nodes once and returns one sample per node, whatever the windows asked for: the API knows the moment
// only, so that each sample's Window is 0. A resource that the API leaves out, or of which the node states no capacity, is
// not known; a node of which neither is known has no sample.
//
// It fails, saying what is to be installed or granted, if there is no answer in time or none about a known node.
func (s *Source) Fetch(ctx context.Context, _ source.Request) (source.Batch, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// All of them in one answer: the API has no pages, and holds no more than one small object per node.
	metrics, err := s.client.MetricsV1beta1().NodeMetricses().List(limited, metav1.ListOptions{})
	if err != nil {
		return source.Batch{}, explain(err, s.timeout)
	}
	if len(metrics.Items) == 0 {
		return source.Batch{}, errors.New("metrics.k8s.io holds no node: metrics-server has just started, or reaches no kubelet")
	}
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	batch, unmatched := attribute(metrics.Items, nodes)
	s.unmatched.Report(klog.FromContext(ctx), unmatched, "Metrics of metrics.k8s.io that are not of a node")
	if len(batch.Samples) == 0 {
		return source.Batch{}, fmt.Errorf("metrics.k8s.io holds the metrics of %d nodes, none of them one of the %d nodes known here with a capacity (unmatched: %d %s)",
			len(metrics.Items), len(nodes), len(unmatched), strings.Join(batch.Unmatched, ", "))
	}
	return batch, nil
}

// attribute makes usage a fraction of the nodes' capacity, and returns the names that are no node's, sorted.
func attribute(items []metricsv1beta1.NodeMetrics, nodes []*corev1.Node) (source.Batch, []string) {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	batch := source.Batch{Samples: make([]load.Sample, 0, len(items))}
	var unmatched []string
	for i := range items {
		item := &items[i]
		node, ok := byName[item.Name]
		if !ok {
			unmatched = append(unmatched, item.Name)
			continue
		}
		sample := load.Sample{
			Node: node.Name,
			End:  item.Timestamp.Time,
			Stats: load.Stats{load.CPU: utilization(corev1.ResourceCPU, item.Usage, node.Status.Capacity),
				load.Memory: utilization(corev1.ResourceMemory, item.Usage, node.Status.Capacity)},
		}
		if sample.Stats[load.CPU].Known || sample.Stats[load.Memory].Known {
			batch.Samples = append(batch.Samples, sample)
		}
	}
	slices.Sort(unmatched)
	batch.Unmatched, batch.UnmatchedCount = source.Few(unmatched), len(unmatched)
	return batch, unmatched
}

// utilization returns usage as a fraction of capacity, with no deviation: a moment has none.
func utilization(name corev1.ResourceName, usage, capacity corev1.ResourceList) load.Stat {
	used, ok := usage[name]
	total := capacity[name]
	if !ok || total.Sign() <= 0 {
		return load.Stat{}
	}
	return load.Stat{Mean: used.AsApproximateFloat64() / total.AsApproximateFloat64(), Known: true}
}

// explain says in an operator's words why there is no answer.
func explain(err error, timeout time.Duration) error {
	err = fmt.Errorf("list nodes of metrics.k8s.io: %w", err)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w (grant the scheduler's service account the verbs get and list on the resource nodes of the API group metrics.k8s.io)", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w (metrics-server is not installed: the API is not registered)", err)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w (metrics-server is not ready: the API is registered, see the status of APIService v1beta1.metrics.k8s.io)", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (no complete answer within the timeout of %v)", err, timeout)
	}
	return err
}
