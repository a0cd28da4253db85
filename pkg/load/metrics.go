package load

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Metrics gives the published values of metrics. It is immutable, and so safe for concurrent use.
type Metrics struct {
	publisher *Publisher
	maxAge    time.Duration
	clock     clock.PassiveClock
}

// NewMetrics returns the metrics that publisher publishes, trusted up to the age of maxAge.
func NewMetrics(publisher *Publisher, maxAge time.Duration, c clock.PassiveClock) *Metrics {
	return &Metrics{publisher: publisher, maxAge: maxAge, clock: c}
}

// View returns the metrics as the decision sees them: those of the same snapshot as all load during the decision.
func (m *Metrics) View(state fwk.CycleState) MetricsView {
	return MetricsView{columns: m.publisher.Pinned(state).columns, oldest: m.clock.Now().Add(-m.maxAge).UnixNano()}
}

// Latest returns the metrics as they are known now, outside of any decision.
func (m *Metrics) Latest() MetricsView {
	return MetricsView{columns: m.publisher.Latest().columns, oldest: m.clock.Now().Add(-m.maxAge).UnixNano()}
}

// Updates tells of new snapshots.
func (m *Metrics) Updates() *Publisher { return m.publisher }

// MetricsView is the metrics at one moment. It does not change, and is safe for concurrent use as the Snapshot is.
type MetricsView struct {
	columns *columns
	// oldest is the earliest end of values that are not too old, in nanoseconds since 1970.
	oldest int64
}

// NoRow is the row of nodes that nothing is known of.
const NoRow = -1

// Row returns where the node's values are to be found, by which they cost no look-up each.
func (v MetricsView) Row(node fwk.NodeInfo) int {
	if row, ok := v.columns.index.row(node); ok {
		return row
	}
	return NoRow
}

// RowOf returns the row of the named node.
func (v MetricsView) RowOf(node string) int {
	if row, ok := v.columns.index.rows[node]; ok {
		return row
	}
	return NoRow
}

// Values returns the values of one metric.
func (v MetricsView) Values(expression string) MetricValues {
	return MetricValues{column: v.columns.byMetric[expression], oldest: v.oldest}
}

// MetricValues are the values of one metric at one moment.
type MetricValues struct {
	column *column
	oldest int64
}

// Any tells whether some node has a value that is known and not too old.
func (v MetricValues) Any() bool {
	return v.column != nil && v.column.newest != 0 && v.column.newest >= v.oldest
}

// Range returns bounds that all values keep, and whether there are any.
func (v MetricValues) Range() (least, most float64, known bool) {
	if v.column == nil || v.column.least > v.column.most {
		return 0, 0, false
	}
	return v.column.least, v.column.most, true
}

// At returns the value in a row of the same view, and whether it is known and not too old.
func (v MetricValues) At(row int) (value float64, known bool) {
	if row == NoRow || v.column == nil {
		return 0, false
	}
	c := &v.column.cells[row*v.column.width]
	return c.value, c.end != 0 && c.end >= v.oldest
}
