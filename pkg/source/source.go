// Package source defines metrics sources. Each kind of source is a package below it.
package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Source measures the load of nodes. An implementation need not be safe for concurrent use: one Watcher calls it, one
// refresh after the other.
type Source interface {
	Name() string
	// Fetch measures all nodes in a number of queries that does not grow with the nodes. It returns when ctx is done or its own
	// timeout has passed. It fails only if it can read no part of the requested load. If no load is requested, Metrics count. A batch
	// with an error may have Metrics.
	Fetch(ctx context.Context, request Request) (Batch, error)
}

// ErrNoNodes is the error of a source that matches series to nodes, and asks nothing without nodes.
var ErrNoNodes = errors.New("match series to nodes: no Node is known")

// Request lists what a refresh reads.
type Request struct {
	// Windows are the spans over which load is measured; none if the request has no load.
	Windows []time.Duration
	// Quantiles are the quantiles of load. Sources that only have means ignore them.
	Quantiles []load.Quantile
	// Metrics are PromQL expressions with one value per node. Sources without PromQL ignore them.
	Metrics []string
}

// MetricValues are the values of one of a Request's Metrics.
type MetricValues struct {
	Metric string
	// End is the time at which the expression was evaluated.
	End time.Time
	// Values are by name of the Node object, as measured: the reader checks them.
	Values map[string]float64
}

// Rejected counts the numbers of responses that cannot have been measured, by reason.
type Rejected map[load.Rejection]int

// Accept reports whether a number can have been measured. It counts the others.
func (r Rejected) Accept(v float64) bool {
	reason := load.RejectionOf(v)
	if reason != load.Accepted {
		r[reason]++
	}
	return reason == load.Accepted
}

// Add adds counts.
func (r Rejected) Add(o Rejected) {
	for reason, n := range o {
		r[reason] += n
	}
}

// String lists the counts, such as "2 NotANumber".
func (r Rejected) String() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%d %s", r[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// IsIncomplete reports whether a response lacks many of the nodes or pods that it should have: more than a tenth, and more than one
// of several. A server that joins others, such as Thanos, can silently lose one of them.
func IsIncomplete(has, expected int) bool {
	lost := expected - has
	return 10*lost > expected && (lost > 1 || has <= 0)
}

// IncompleteError says that a response about the past lacks many pods.
type IncompleteError struct{ Has, Expected int }

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("the response has %d of %d pods that ran then: see whether a store of the server is down", e.Has, e.Expected)
}

// Batch is the result of one refresh.
type Batch struct {
	// Rejected counts the numbers that the source left out, also where Fetch failed.
	Rejected Rejected
	// Samples holds each resource of a node at most once per window and quantile. Values are as measured: the reader checks them.
	Samples []load.Sample
	// Metrics holds at most one element per metric; a metric that could not be read has none.
	Metrics        []MetricValues
	UnmatchedCount int
	// Contested are the nodes without samples because scrape targets disagree, sorted by name. They have no load.
	Contested []Contested
	// Further are the names of the nodes that the source read otherwise than most, by the name of the dialect.
	Further map[string][]string
}

// Contested is a node that two sets of scrape targets measure differently. The sets are PromQL selectors.
type Contested struct {
	Node string `json:"-"`
	High string `json:"high"`
	Low  string `json:"low"`
}

// PodSource measures the usage of pods. An implementation need not be safe for concurrent use.
type PodSource interface {
	Name() string
	// FetchPods calls visit with the usage of pods, with a number of queries that does not grow with the pods. pods is their number,
	// which bounds the responses. It returns errors by resource: the usage of a failed resource must not be used.
	FetchPods(ctx context.Context, pods int, visit func(*PodUsage)) (failed [load.ResourceCount]error)
}

// PodUsage is a pod's usage of one resource.
type PodUsage struct {
	Namespace, Pod string
	Resource       load.Resource
	// Usage is in milliCPU or bytes. The reader checks it.
	Usage float64
	// Window is the time over which usage is averaged, or the part of it in which the pod ran. It is 0 for a momentary usage.
	Window time.Duration
}

// WorkloadHistory is a PodSource that also knows the usage of deleted pods.
type WorkloadHistory interface {
	PodSource
	// FetchHistory calls visit with the usage of each workload's pods in the period. If there are more than maxWorkloads, it does so
	// for those with the most usage of the resource. It returns the share of the pods that are missing: 1 if no pod is known.
	// After an error, these usages must not be used. It is an *IncompleteError if many pods are missing.
	FetchHistory(ctx context.Context, p Period, maxWorkloads int, visit func(*WorkloadUsage)) (missing float64, err error)
}

// BoundedPods is a PodSource that leaves out namespaces with too many series.
type BoundedPods interface {
	PodSource
	// LeftOut names the namespaces that the last FetchPods left out; empty if it left out none.
	LeftOut() string
}

// CheckedPods is a PodSource that leaves out impossible numbers itself.
type CheckedPods interface {
	PodSource
	// TakeRejected counts the numbers that were left out since the last call.
	TakeRejected() Rejected
}

// Period is the Length of time before End. A source that looks at moments does so at multiples of Step since 1970. So periods that
// follow each other miss no look and share none.
type Period struct {
	End          time.Time
	Length, Step time.Duration
	// Missing is the share of the pods that may be missing, beside those of IsIncomplete.
	Missing float64
}

// WorkloadUsage is the usage of one resource by a workload's pods, on average over a Period.
type WorkloadUsage struct {
	// Workload is the controlling owner's name, without a ReplicaSet's hash or the time of a CronJob's Job.
	Namespace, Workload string
	Resource            load.Resource
	// Pods counts the pods, Sum adds their usages in milliCPU or bytes, SumSquares the squares.
	Pods, Sum, SumSquares float64
}

// Cluster is a cluster whose nodes are measured.
type Cluster struct {
	Nodes       corelisters.NodeLister
	NodesSynced func() bool
	// Pods are the pods whose usage is learned, to predict peaks. They also show which node a Prometheus target is on. PodsSynced
	// reports whether Pods is complete. Both may be nil otherwise.
	Pods       corelisters.PodLister
	PodsSynced func() bool
	// KubeConfig connects to metrics.k8s.io, if that is the source. Clusters with the same pointer are the same cluster.
	KubeConfig *rest.Config
}

func (c Cluster) HasSynced() bool { return c.NodesSynced() }

func (c Cluster) Names() []string {
	nodes, _ := c.Nodes.List(labels.Everything()) // the lister of a cache returns no error
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return names
}
