package main

import (
	"math"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

func buckets(result string, counts ...float64) (m cluster.Metrics) {
	for i, bound := range []string{"0.001", "0.002", "0.004", "+Inf"} {
		m = append(m, &model.Sample{Value: model.SampleValue(counts[i]), Metric: model.Metric{
			model.MetricNameLabel: attempts, "result": model.LabelValue(result), "le": model.LabelValue(bound),
		}})
	}
	return m
}

// New are 50 attempts of up to 1 ms, 45 of up to 2, and 5 of up to 4. The 99th of them is 4/5 of the way from 2 to 4 ms: 3.6 ms.
func TestP99(t *testing.T) {
	before := append(buckets("scheduled", 10, 10, 10, 10), buckets("error", 0, 0, 0, 0)...)
	after := append(buckets("scheduled", 60, 105, 110, 110), buckets("error", 0, 0, 0, 1000)...)
	if got := check.Value(p99(before, after))(t); math.Abs(got-0.0036) > 1e-9 {
		t.Errorf("p99 is %v s, want 0.0036", got)
	}
	_, err := p99(after, after)
	check.Error(t, err, "no new attempt")
}
