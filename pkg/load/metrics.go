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
	return MetricsView{snapshot: m.publisher.Pinned(state), oldest: m.clock.Now().Add(-m.maxAge)}
}

// Latest returns the metrics as they are known now, outside of any decision.
func (m *Metrics) Latest() MetricsView {
	return MetricsView{snapshot: m.publisher.Latest(), oldest: m.clock.Now().Add(-m.maxAge)}
}

// Updates tells of new snapshots.
func (m *Metrics) Updates() *Publisher { return m.publisher }

// MetricsView is the metrics at one moment. It is immutable, and so safe for concurrent use.
type MetricsView struct {
	snapshot *Snapshot
	oldest   time.Time
}

// Values returns the values of one metric.
func (v MetricsView) Values(expression string) MetricValues {
	return MetricValues{table: v.snapshot.Metric(expression), oldest: v.oldest}
}

// MetricValues are the values of one metric at one moment.
type MetricValues struct {
	table  MetricTable
	oldest time.Time
}

// Any tells whether some node has a value that is known and not too old.
func (v MetricValues) Any() bool {
	for node := range v.table {
		if _, known := v.table.Value(node, v.oldest); known {
			return true
		}
	}
	return false
}

// Of returns the named node's value, and whether it is known and not too old.
func (v MetricValues) Of(node string) (value float64, known bool) {
	return v.table.Value(node, v.oldest)
}
