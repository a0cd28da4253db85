package estimate

import (
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

// View returns the metrics in the cycle's snapshot.
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

// Snapshots are what the metrics are read from.
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

// RowOf returns the row of the named node.
func (v NodeMetricsView) RowOf(node string) int {
	if row, ok := v.snapshot.Index().Row(node); ok {
		return row
	}
	return NoRow
}

// Values returns the values of one metric, by its PromQL expression.
func (v NodeMetricsView) Values(expression string) MetricValues {
	return MetricValues{column: v.snapshot.Metric(expression), oldest: v.oldest}
}

// MetricValues are the values of one node metric at one moment.
type MetricValues struct {
	column *load.MetricColumn
	oldest int64
}

// Any reports whether some node has a trusted value.
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
