package nodemetrics

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

// scale turns values of a metric into marks in [0, 1], of which 1 is the best.
type scale struct{ best, worst float64 }

// mark is where value stands between worst and best: clamp((value − worst) / (best − worst)). Where all candidates have the
// same value, so that best is worst, there is nothing to tell them apart by and all are best.
func (s scale) mark(value float64) float64 {
	// Of halves, for the difference of two finite values may be infinite. That of their halves is 0 also where they differ by
	// less than there are numbers for.
	span := s.best/2 - s.worst/2
	if span == 0 {
		return 1
	}
	return min(max((value/2-s.worst/2)/span, 0), 1)
}

// weightedScale is the scale of one metric in one decision.
type weightedScale struct {
	scale
	weight float64
	values estimate.MetricValues
	// unknown is the mark of a candidate without a value.
	unknown float64
}

// mark is that of the value in the row.
func (s *weightedScale) mark(row int) float64 {
	if value, known := s.values.At(row); known {
		return s.scale.mark(value)
	}
	return s.unknown
}

// span is the values that the candidates of a decision have of one metric.
type span struct {
	low, high float64
	known     int
}

func (s *span) add(value float64) {
	if s.known == 0 {
		s.low, s.high = value, value
	}
	s.low, s.high = min(s.low, value), max(s.high, value)
	s.known++
}

// scale is that of the bounds, or else of the candidates themselves.
func (s *span) scale(prefer config.Preference, bounds *config.MetricBounds) scale {
	switch {
	case bounds != nil:
		return scale{best: bounds.Best, worst: bounds.Worst}
	case prefer == config.PreferHigher:
		return scale{best: s.high, worst: s.low}
	}
	return scale{best: s.low, worst: s.high}
}

// scoreOf is the node score in [0, 100] of the weighted sum of marks; 0 where nothing has weight.
func scoreOf(weightedMarks, weights float64) int64 {
	if weights == 0 {
		return fwk.MinScore
	}
	return int64(math.Round(100 * weightedMarks / weights))
}
