package load

import (
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestTheValuesOfANodeStandInOneRow(t *testing.T) {
	aged := func(value float64, age time.Duration) MetricReading {
		return MetricReading{Value: value, End: now.Add(-age)}
	}
	p := NewPublisher()
	m := NewMetrics(p, maxAge, clocktesting.NewFakePassiveClock(now))
	p.Publish(NewSnapshot(nil).WithMetrics(map[string]MetricTable{
		"x":     {"a": aged(1, 0), "b": aged(2, maxAge), "c": aged(3, maxAge+1)},
		"y":     {"c": aged(0, 0), "d": aged(-4, 0)},
		"old":   {"a": aged(5, maxAge+1)},
		"empty": {},
	}))
	type known struct {
		value float64
		known bool
	}
	for name, view := range map[string]MetricsView{"latest": m.Latest(), "of a decision": m.View(framework.NewCycleState())} {
		for metric, want := range map[string]map[string]known{
			"x":         {"a": {1, true}, "b": {2, true}, "c": {3, false}, "d": {0, false}, "elsewhere": {0, false}},
			"y":         {"a": {0, false}, "c": {0, true}, "d": {-4, true}, "elsewhere": {0, false}},
			"old":       {"a": {5, false}, "d": {0, false}},
			"empty":     {"a": {0, false}, "elsewhere": {0, false}},
			"not asked": {"a": {0, false}, "elsewhere": {0, false}},
		} {
			values, wantAny := view.Values(metric), metric == "x" || metric == "y"
			if got := values.Any(); got != wantAny {
				t.Errorf("%s: some node has a value of %s: %v, want %v", name, metric, got, wantAny)
			}
			for node, want := range want {
				value, ok := values.At(view.Row(node))
				if ok != want.known || ok && value != want.value {
					t.Errorf("%s: %s of %s is %v, %v; want %v", name, metric, node, value, ok, want)
				}
			}
		}
	}
	if row := m.Latest().Row("elsewhere"); row != NoRow {
		t.Errorf("a node without any value has row %d, want none", row)
	}
}
