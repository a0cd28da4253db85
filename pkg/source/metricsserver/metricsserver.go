// Package metricsserver reads node load and pod usage from the resource metrics API (metrics.k8s.io), which metrics-server serves.
package metricsserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// Source reads the resource metrics API. It is not safe for concurrent use.
type Source struct {
	client    rest.Interface
	nodes     corelisters.NodeLister
	timeout   time.Duration
	unmatched source.UnmatchedLog
}

var _ source.Source = &Source{}

// New returns a source with a client for the configuration. It takes the nodes' capacity from the lister.
// The timeout, which must be positive, bounds one Fetch. It fails if the configuration is invalid.
func New(cfg *rest.Config, nodes corelisters.NodeLister, timeout time.Duration) (*Source, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{client: client, nodes: nodes, timeout: timeout}, nil
}

func newClient(cfg *rest.Config) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	// Warnings are the server's to write, and would be logged at each refresh.
	cfg.WarningHandler, cfg.WarningHandlerWithContext = rest.NoWarnings{}, nil
	bounded, err := httpclient.ForAPIServer(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of metrics.k8s.io: %w", err)
	}
	client, err := metricsclient.NewForConfigAndClient(cfg, bounded)
	if err != nil {
		return nil, fmt.Errorf("client of metrics.k8s.io: %w", err)
	}
	return client.RESTClient(), nil
}

func (s *Source) Name() string { return "KubernetesMetricsServer" }

// Fetch reads all nodes once and returns one sample per node, for the present moment, with the span that the API states of cpu.
//   - A resource without usage or capacity is unknown. A node without a known resource has no sample.
//   - An object is unmatched without a node of its name, or if another object has the same name.
//
// It fails without a response in time or without a known node. The error says what to install or to grant.
func (s *Source) Fetch(ctx context.Context, _ source.Request) (source.Batch, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	found := newResult(nodes)
	if err := readItems(limited, s.client, "nodes", len(nodes), found.add); err != nil {
		return source.Batch{}, explain(err, "nodes", s.timeout, len(nodes))
	}
	if found.objects == 0 {
		return source.Batch{}, errors.New("metrics.k8s.io has no node: metrics-server has just started, or reaches no kubelet")
	}
	slices.Sort(found.unmatched)
	s.unmatched.Log(klog.FromContext(ctx), found.unmatched, "Metrics of metrics.k8s.io that are not of a node")
	if len(found.samples) == 0 {
		return source.Batch{}, fmt.Errorf(
			"metrics.k8s.io has metrics of %d nodes, but none of the %d known nodes with a capacity (unmatched: %d %s)", found.objects,
			len(nodes), len(found.unmatched), text.FirstN(found.unmatched),
		)
	}
	return source.Batch{Samples: found.samples, UnmatchedCount: len(found.unmatched)}, nil
}

// readItems lists the resource, with about count objects, and passes each to visit. The API has no pages.
// It reads JSON: protobuf is smaller, but cannot be decoded object by object.
// Small objects take a hundred times their size in memory.
func readItems[Object any](ctx context.Context, client rest.Interface, resource string, count int, visit func(*Object)) error {
	body, err := client.Get().Resource(resource).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // the response has been read by then
	bounded := source.BoundBody(body, source.MaxResponseBytes(count))
	dec := jsonstream.NewDecoder(bufio.NewReader(bounded), source.MaxElements(count))
	err = dec.Object(func(key string) error {
		if key != "items" {
			return dec.Skip()
		}
		return dec.Array(func() error {
			runtime.Gosched() // scheduling comes first
			var object Object
			if err := dec.Decode(&object); err != nil {
				return err
			}
			visit(&object)
			return nil
		})
	})
	if err != nil {
		return err
	}
	return dec.End()
}

type nodeMetrics struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Timestamp metav1.Time                              `json:"timestamp"`
	Window    window                                   `json:"window"`
	Usage     map[corev1.ResourceName]quantity.Bounded `json:"usage"`
}

// window is the time over which usage of cpu is a mean, which ends at the timestamp: 15 s with metrics-server, minutes with some
// adapters.
type window string

func (w window) duration() time.Duration {
	const longest = time.Hour
	d, err := time.ParseDuration(string(w))
	if err != nil || d < 0 || d > longest {
		return 0
	}
	return d
}

type result struct {
	rest      map[string]*corev1.Node
	samples   []load.Sample
	unmatched []string
	objects   int
}

func newResult(nodes []*corev1.Node) *result {
	r := &result{rest: make(map[string]*corev1.Node, len(nodes)), samples: make([]load.Sample, 0, len(nodes))}
	for _, node := range nodes {
		r.rest[node.Name] = node
	}
	return r
}

func (r *result) add(object *nodeMetrics) {
	r.objects++
	node, ok := r.rest[object.Metadata.Name]
	if !ok {
		if len(r.unmatched) < source.MaxUnmatched {
			r.unmatched = append(r.unmatched, text.Excerpt(object.Metadata.Name))
		}
		return
	}
	delete(r.rest, node.Name)
	sample := load.Sample{Node: node.Name, End: object.Timestamp.Time}
	capacity := podusage.CapacityOf(node).Amounts
	for i := range load.ResourceCount {
		sample.Stats[i] = utilization(i, object.Usage, capacity[i])
	}
	if cpu := &sample.Stats[load.CPU]; cpu.Known {
		cpu.Span = object.Window.duration()
	}
	if sample.Stats.Known() {
		r.samples = append(r.samples, sample)
	}
}

// utilization returns usage as a fraction of capacity. The deviation is unknown: a moment has none.
func utilization(r load.Resource, usage map[corev1.ResourceName]quantity.Bounded, capacity float64) load.Stat {
	used, ok := amountIn(usage, r)
	if !ok || capacity <= 0 {
		return load.Stat{}
	}
	return load.Stat{Mean: used / capacity, StdDev: math.NaN(), Known: true}
}

func amountIn(usage map[corev1.ResourceName]quantity.Bounded, r load.Resource) (amount float64, ok bool) {
	value, ok := usage[corev1.ResourceName(r.String())]
	used := resource.Quantity(value)
	if amount = used.AsApproximateFloat64(); r == load.CPU {
		amount *= 1000
	}
	return amount, ok
}

func explain(err error, resource string, timeout time.Duration, count int) error {
	err = fmt.Errorf("list %s of metrics.k8s.io: %w", resource, text.ExcerptError(err))
	switch {
	case source.IsTooLarge(err):
		return fmt.Errorf("%w, the bound for %d %s: see what serves APIService v1beta1.metrics.k8s.io", err, count, resource)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w (grant this user the verb list on the resource %s of the API group metrics.k8s.io)", err, resource)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w (metrics-server is not installed: the API is not registered)", err)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w (metrics-server is not ready: the API is registered, see the status of APIService v1beta1.metrics.k8s.io)",
			err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (no complete response within the timeout of %v)", err, timeout)
	}
	return err
}

// podTimeout bounds the reading of all pods, of which there are many more than nodes.
const podTimeout = 2 * time.Minute

// PodSource reads the present usage of pods from the resource metrics API.
type PodSource struct{ client rest.Interface }

var _ source.PodSource = &PodSource{}

// NewPodSource returns a source that reads the API with a client for the configuration. It fails if the configuration is not valid.
func NewPodSource(cfg *rest.Config) (*PodSource, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &PodSource{client}, nil
}

func (s *PodSource) Name() string { return "KubernetesMetricsServer" }

// FetchPods implements source.PodSource. It sends one request. A pod counts with the sum of its containers, where all of them have
// the resource.
func (s *PodSource) FetchPods(ctx context.Context, pods int, visit func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	err := readItems(ctx, s.client, "pods", pods, func(object *podMetrics) {
		for r := range load.ResourceCount {
			if usage, ok := object.usage(r); ok {
				u := source.PodUsage{Namespace: object.Metadata.Namespace, Pod: object.Metadata.Name, Resource: r, Usage: usage}
				if r == load.CPU {
					u.Window = object.Window.duration()
				}
				visit(&u)
			}
		}
	})
	if err != nil {
		err = explain(err, "pods", podTimeout, pods)
	}
	for r := range failed {
		failed[r] = err
	}
	return failed
}

type podMetrics struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Window     window `json:"window"`
	Containers []struct {
		Usage map[corev1.ResourceName]quantity.Bounded `json:"usage"`
	} `json:"containers"`
}

// usage returns the sum over all containers, in milliCPU or bytes, and whether there is one. One impossible value is not added to
// others.
func (m *podMetrics) usage(r load.Resource) (sum float64, ok bool) {
	for i := range m.Containers {
		amount, ok := amountIn(m.Containers[i].Usage, r)
		if !ok {
			return 0, false
		}
		if load.RejectionOf(amount) != load.Accepted {
			return amount, true // the reader rejects and counts it
		}
		sum += amount
	}
	return sum, len(m.Containers) > 0
}
