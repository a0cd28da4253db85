package nodemetrics

import (
	"math"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Terms are the terms of one node's score: its marks in the metrics with a weight.
type Terms struct {
	scales []scale
	// row is the node's row in the values of the scales.
	row int
	// limits are the rules that a value of the node is compared with. Only Explain sets them.
	limits []explain.Limit
}

// Limits implements explain.Limiter: the rules that reject nodes, of the metrics that the node has a value of.
func (t Terms) Limits() []explain.Limit { return t.limits }

// Score is the weighted mean of the marks, in [0, 100]; 0 where there are none. It does not allocate.
func (t Terms) Score() float64 {
	marks, weights := 0.0, 0.0
	for i := range t.scales {
		s := &t.scales[i]
		marks += s.weight * s.markAt(t.row)
		weights += s.weight
	}
	if weights == 0 {
		return 0
	}
	return 100 * marks / weights
}

// List implements explain.Terms. A metric has the value and the pending amount if measured, the mark in [0, 1], and the weight.
func (t Terms) List() (terms []explain.Term) {
	for i := range t.scales {
		s := &t.scales[i]
		name := s.metric.Name
		if value, known := s.At(t.row); known {
			terms = append(terms, explain.Term{Name: name, Value: value})
			if s.counts() {
				terms = append(terms, explain.Term{Name: name + " pending", Value: s.pending(t.row)})
			}
		}
		terms = append(terms, explain.Term{Name: name + " mark", Value: s.markAt(t.row)},
			explain.Term{Name: name + " weight", Value: s.weight})
	}
	return terms
}

// column holds the values of one metric, by row of the view.
type column struct {
	estimate.MetricValues
	view   estimate.NodeMetricsView
	metric *config.NodeMetric
	recent *estimate.RecentPods
	// namespace is that of the pod to place.
	namespace string
}

func (c *column) counts() bool { return c.metric.Pending != nil }

// pending is the amount by which the row's pending pods worsen the value.
func (c *column) pending(row int) float64 {
	return c.metric.Pending.PerPod * c.recent.Uncovered(c.view, row, c.MetricValues, c.metric.Pending.Window.Duration, c.namespace)
}

// withPending returns the finite value in the row with its pending pods, and whether the value is known.
func (c *column) withPending(row int) (value float64, known bool) {
	value, known = c.At(row)
	if !known || !c.counts() {
		return value, known
	}
	worse := c.pending(row)
	if c.metric.Prefer == config.PreferHigher {
		worse = -worse
	}
	return min(max(value+worse, -math.MaxFloat64), math.MaxFloat64), true
}

// scale gives marks to the values of one metric.
type scale struct {
	column
	best, worst float64
	weight      float64
	// unknown is the mark of a node without a value.
	unknown float64
}

func (s *scale) markAt(row int) float64 {
	if value, known := s.withPending(row); known {
		return s.mark(value)
	}
	return s.unknown
}

// mark is clamp((value − worst) / (best − worst)). If both are equal, all nodes are best.
func (s *scale) mark(value float64) float64 {
	// Halves: the difference of two finite values may be infinite. It is also 0 if the values differ by less than a float64 can
	// tell.
	span := s.best/2 - s.worst/2
	if span == 0 {
		return 1
	}
	return min(max((value/2-s.worst/2)/span, 0), 1)
}

// span is the range of the values that the candidates have of one metric.
type span struct {
	low, high float64
	// known is the number of values.
	known int
}

func (s *span) add(value float64) {
	if s.known == 0 {
		s.low, s.high = value, value
	}
	s.low, s.high = min(s.low, value), max(s.high, value)
	s.known++
}

// bounds returns the configured bounds, or else the span.
func (s *span) bounds(m *config.NodeMetric) (best, worst float64) {
	switch {
	case m.Bounds != nil:
		return m.Bounds.Best, m.Bounds.Worst
	case m.Prefer == config.PreferHigher:
		return s.high, s.low
	}
	return s.low, s.high
}

func (c *column) meanOf(rows []int) float64 {
	mean, n := 0.0, 0.0
	for _, row := range rows {
		if value, known := c.withPending(row); known {
			n++
			mean += value/n - mean/n // the sum may be infinite
		}
	}
	return mean
}
