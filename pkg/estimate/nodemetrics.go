package estimate

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// NodeMetrics gives the published values of node metrics. It is safe for concurrent use.
type NodeMetrics struct {
	snapshots *Snapshots
	maxAge    time.Duration
	clock     clock.PassiveClock
}

// NewNodeMetrics returns the node metrics in the snapshots, trusted up to the age of maxAge.
func NewNodeMetrics(snapshots *Snapshots, maxAge time.Duration, c clock.PassiveClock) *NodeMetrics {
	return &NodeMetrics{snapshots: snapshots, maxAge: maxAge, clock: c}
}

func (m *NodeMetrics) View(state fwk.CycleState) NodeMetricsView {
	v := m.view(m.snapshots.forCycle(state))
	v.ignoreGeneration = minor.IsPodGroupCycle(state)
	return v
}

// Latest returns the latest metrics, outside of any scheduling cycle.
func (m *NodeMetrics) Latest() NodeMetricsView { return m.view(m.snapshots.latest()) }

func (m *NodeMetrics) view(snapshot *pinnedSnapshot) NodeMetricsView {
	return NodeMetricsView{snapshot: snapshot, oldest: m.clock.Now().Add(-m.maxAge).UnixNano()}
}

func (m *NodeMetrics) Snapshots() *Snapshots { return m.snapshots }

// NodeMetricsView is the node metrics at one moment. It is safe for concurrent use.
type NodeMetricsView struct {
	snapshot *pinnedSnapshot
	// oldest is the time of the oldest trusted value, in nanoseconds since 1970.
	oldest int64
	// ignoreGeneration is set in pod-group cycles, which change NodeInfos without a new generation.
	ignoreGeneration bool
}

// NoRow is the row of unknown nodes.
const NoRow = -1

// Row returns the row of the node, which finds its values without a lookup for each.
func (v NodeMetricsView) Row(node fwk.NodeInfo) int {
	if row, ok := v.snapshot.rows.row(node); ok {
		return row
	}
	return NoRow
}

func (v NodeMetricsView) RowOf(node string) int {
	if row, ok := v.snapshot.Index().Row(node); ok {
		return row
	}
	return NoRow
}

func (v NodeMetricsView) Values(expression string) MetricValues {
	return MetricValues{column: v.snapshot.Metric(expression), oldest: v.oldest}
}

// MetricValues are the values of one node metric at one moment.
type MetricValues struct {
	column *load.MetricColumn
	oldest int64
}

func (v MetricValues) Any() bool { return v.column.Newest() != 0 && v.column.Newest() >= v.oldest }

// Range returns the lowest and the highest value, expired ones included, and whether there are any.
func (v MetricValues) Range() (lowest, highest float64, ok bool) { return v.column.Range() }

// At returns the value in a row of the same view, and whether it is trusted.
func (v MetricValues) At(row int) (value float64, known bool) {
	value, _, state := v.Measured(row)
	return value, state == load.Fresh
}

// Measured returns the value in a row of the same view, and its state. Its end is in nanoseconds since 1970.
func (v MetricValues) Measured(row int) (value float64, end int64, state load.State) {
	if row == NoRow {
		return 0, 0, load.Absent
	}
	value, end = v.column.Row(row)
	return value, end, stateAt(v.oldest, end)
}

// RecentPods counts the pods of a node that a metric does not cover yet. It reads the pods of a node once per generation, because
// reading their objects costs cache misses. It is safe for concurrent use.
type RecentPods struct {
	// longest is the longest window of a metric. maxAge is how long a value is used.
	longest, maxAge time.Duration
	clock           clock.PassiveClock
	nodes           atomic.Pointer[recentNodes]
}

type recentNodes struct {
	index *load.Index
	rows  []atomic.Pointer[recentNode]
}

// recentNode is immutable. generation is 0 in pod-group cycles, where pods come and go without a new one. The pods are sorted by
// namespace.
type recentNode struct {
	generation int64
	pods       []recentPod
}

// recentPod has the moments of the pod's start and of its binding, in nanoseconds since 1970. A moment that has not come is notYet.
type recentPod struct {
	since, bound int64
	namespace    string
}

// maxForeign bounds how many pods of a namespace count on a node for pods of others. A tenant's many small pods keep nobody off.
const maxForeign = 3

// RecentPods returns a counter, without pods yet, for metrics over windows of up to the given length.
func (m *NodeMetrics) RecentPods(longestWindow time.Duration) *RecentPods {
	return &RecentPods{longest: longestWindow, maxAge: m.maxAge, clock: m.clock}
}

// Read keeps the pods of the node, if it has changed. row is the node's in the index of the load.
func (p *RecentPods) Read(v NodeMetricsView, row int, node fwk.NodeInfo) {
	if row == NoRow {
		return
	}
	at, generation := &p.nodesOf(v.snapshot.Index()).rows[row], node.GetGeneration()
	if v.ignoreGeneration {
		generation = 0
	} else if known := at.Load(); known != nil && known.generation == generation {
		return
	}
	read, oldest := recentNode{generation: generation}, p.clock.Now().Add(-p.maxAge).UnixNano()
	for _, info := range node.GetPods() {
		pod := recentPod{
			since: runningSince(info.GetPod()), bound: boundSince(info.GetPod()), namespace: info.GetPod().Namespace,
		}
		if pod.uncovered(oldest, p.longest) > 0 {
			read.pods = append(read.pods, pod)
		}
	}
	slices.SortFunc(read.pods, func(a, b recentPod) int { return strings.Compare(a.namespace, b.namespace) })
	at.Store(&read)
}

// uncovered is the share of the pod that a window with the given end does not cover. A pod that never starts stops counting
// startupWindows windows after its binding.
func (p *recentPod) uncovered(end int64, window time.Duration) float64 {
	if p.since == notYet && p.bound != notYet && end >= p.bound+startupWindows*int64(window) {
		return 0
	}
	return 1 - coverage(p.since, end, window)
}

func (p *RecentPods) nodesOf(index *load.Index) *recentNodes {
	for {
		nodes := p.nodes.Load()
		if nodes != nil && nodes.index == index {
			return nodes
		}
		p.nodes.CompareAndSwap(nodes, &recentNodes{index: index, rows: make([]atomic.Pointer[recentNode], index.Len())})
	}
}

// Uncovered counts the pods in the row, for a pod of the namespace. Each counts with the share that the row's value, a mean over
// the window, does not cover. Of each other namespace at most maxForeign count. Call Read first.
func (p *RecentPods) Uncovered(
	v NodeMetricsView, row int, values MetricValues, window time.Duration, namespace string,
) (pods float64) {
	nodes := p.nodes.Load()
	if row == NoRow || nodes == nil || nodes.index != v.snapshot.Index() {
		return 0
	}
	node := nodes.rows[row].Load()
	if node == nil || len(node.pods) == 0 {
		return 0
	}
	_, end := values.column.Row(row)
	of := 0.0 // the pods of one namespace
	for i := range node.pods {
		pod := &node.pods[i]
		if i > 0 && pod.namespace != node.pods[i-1].namespace {
			pods, of = pods+of, 0
		}
		of += pod.uncovered(end, window)
		if pod.namespace != namespace {
			of = min(of, maxForeign)
		}
	}
	return pods + of
}
