// Package metricsserver reads node load from the resource metrics API (metrics.k8s.io), which metrics-server serves.
package metricsserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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

// Source reads the resource metrics API. It is not safe for concurrent use.
type Source struct {
	client    metricsclient.Interface
	nodes     corelisters.NodeLister
	timeout   time.Duration
	unmatched source.UnmatchedLog
}

var _ source.Source = &Source{}

// New returns a source that reads the API with client, and takes the nodes' capacity from the lister. The timeout, which must be
// positive, bounds one Fetch. In a large cluster a client that accepts protobuf beside JSON is faster.
func New(client metricsclient.Interface, nodes corelisters.NodeLister, timeout time.Duration) *Source {
	return &Source{client: client, nodes: nodes, timeout: timeout}
}

// Name implements source.Source.
func (s *Source) Name() string { return "KubernetesMetricsServer" }

// Fetch reads all nodes once and returns one sample per node, whatever windows are requested: the API has no windows, so each
// sample is of the moment. A resource that the API leaves out, or of which the node has no capacity, is not known; a node of
// which neither resource is known has no sample.
//
// It fails, saying what to install or to grant, if there is no response in time or none about a known node.
func (s *Source) Fetch(ctx context.Context, _ source.Request) (source.Batch, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// All nodes in one response: the API has no pages, and its objects are small.
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
	samples, unmatched := attribute(metrics.Items, nodes)
	s.unmatched.Log(klog.FromContext(ctx), unmatched, "Metrics of metrics.k8s.io that are not of a node")
	if len(samples) == 0 {
		return source.Batch{}, fmt.Errorf("metrics.k8s.io holds the metrics of %d nodes, none of them one of the %d nodes known here with a capacity (unmatched: %d %s)",
			len(metrics.Items), len(nodes), len(unmatched), source.FirstN(unmatched))
	}
	return source.Batch{Samples: samples, UnmatchedCount: len(unmatched)}, nil
}

// attribute returns the usage of each node as a fraction of its capacity, and the names that are not those of a node, sorted.
func attribute(items []metricsv1beta1.NodeMetrics, nodes []*corev1.Node) (samples []load.Sample, unmatched []string) {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	samples = make([]load.Sample, 0, len(items))
	for i := range items {
		item := &items[i]
		node, ok := byName[item.Name]
		if !ok {
			unmatched = append(unmatched, item.Name)
			continue
		}
		sample := load.Sample{Node: node.Name, End: item.Timestamp.Time}
		for r := range load.ResourceCount {
			sample.Stats[r] = utilization(corev1.ResourceName(r.String()), item.Usage, node.Status.Capacity)
		}
		if sample.Stats.Known() {
			samples = append(samples, sample)
		}
	}
	slices.Sort(unmatched)
	return samples, unmatched
}

// utilization returns usage as a fraction of capacity. The deviation is not known: a moment has none.
func utilization(name corev1.ResourceName, usage, capacity corev1.ResourceList) load.Stat {
	used, ok := usage[name]
	total := capacity[name]
	if !ok || total.Sign() <= 0 {
		return load.Stat{}
	}
	return load.Stat{Mean: used.AsApproximateFloat64() / total.AsApproximateFloat64(), StdDev: math.NaN(), Known: true}
}

// explain adds to err what an operator can do about it.
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
		return fmt.Errorf("%w (no complete response within the timeout of %v)", err, timeout)
	}
	return err
}
