package nodemetrics

import (
	"math"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

// Terms are what a node is scored by: its marks in the metrics that have a weight.
type Terms []MetricTerm

// MetricTerm is a node's mark in one metric.
type MetricTerm struct {
	// Name is the metric's name.
	Name string
	// Value is the node's value, where Known is set.
	Value float64
	Known bool
	// Mark is between 0, the worst, and 1, the best.
	Mark float64
	// Weight is the metric's share of the score, > 0.
	Weight float64
}

// Score is the weighted mean of the marks, in [0, 100]; 0 where there are none.
func (t Terms) Score() float64 {
	var sum weightedSum
	for i := range t {
		sum.add(t[i].Mark, t[i].Weight)
	}
	return sum.score()
}

// weightedSum sums up marks to a score.
type weightedSum struct{ marks, weights float64 }

func (s *weightedSum) add(mark, weight float64) {
	s.marks += weight * mark
	s.weights += weight
}

func (s *weightedSum) score() float64 {
	if s.weights == 0 {
		return 0
	}
	return 100 * s.marks / s.weights
}

// scale gives marks to the values of one metric.
type scale struct {
	name        string
	values      estimate.MetricValues
	best, worst float64
	weight      float64
	// unknown is the mark of a node without a value.
	unknown float64
}

// scoreOf is the score of the node in a row of the values: that of its terms, without making them.
func scoreOf(scales []scale, row int) int64 {
	var sum weightedSum
	for i := range scales {
		s := &scales[i]
		mark := s.unknown
		if value, known := s.values.At(row); known {
			mark = s.mark(value)
		}
		sum.add(mark, s.weight)
	}
	return int64(math.Round(sum.score()))
}

// termsOf are the terms of the node in a row of the values.
func termsOf(scales []scale, row int) (terms Terms) {
	for i := range scales {
		s := &scales[i]
		t := MetricTerm{Name: s.name, Mark: s.unknown, Weight: s.weight}
		if t.Value, t.Known = s.values.At(row); t.Known {
			t.Mark = s.mark(t.Value)
		}
		terms = append(terms, t)
	}
	return terms
}

// mark is clamp((value − worst) / (best − worst)). Where best is worst there is nothing to tell nodes apart by, and all are
// best.
func (s *scale) mark(value float64) float64 {
	// Of halves: the difference of two finite values may be infinite. The difference of the halves is 0 also where the values
	// differ by less than a float64 can tell.
	span := s.best/2 - s.worst/2
	if span == 0 {
		return 1
	}
	return min(max((value/2-s.worst/2)/span, 0), 1)
}

// span is the range of the values that some nodes have of one metric.
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

// scaleOf returns the scale by the metric's bounds, or else by the lowest and the highest value.
func scaleOf(m *config.NodeMetric, values estimate.MetricValues, low, high float64) scale {
	s := scale{name: m.Name, values: values, weight: float64(m.Weight), best: low, worst: high}
	switch {
	case m.Bounds != nil:
		s.best, s.worst = m.Bounds.Best, m.Bounds.Worst
	case m.Prefer == config.PreferHigher:
		s.best, s.worst = high, low
	}
	return s
}

// meanOf is the mean of the values in the given rows.
func meanOf(values estimate.MetricValues, rows []int) float64 {
	mean, n := 0.0, 0.0
	for _, row := range rows {
		if value, known := values.At(row); known {
			n++
			mean += value/n - mean/n // the sum may be infinite
		}
	}
	return mean
}
