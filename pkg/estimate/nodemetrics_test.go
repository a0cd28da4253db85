package estimate

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
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
	infos := map[string]fwk.NodeInfo{}
	for _, name := range []string{"a", "b", "c", "d", "elsewhere"} {
		infos[name] = node(t, name)
	}
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
				// By name, and by the node twice: the second time no name is looked up.
				for _, row := range []int{view.RowOf(node), view.Row(infos[node]), view.Row(infos[node])} {
					value, ok := values.At(row)
					if ok != want.known || ok && value != want.value {
						t.Errorf("%s: %s of %s is %v, %v; want %v", name, metric, node, value, ok, want)
					}
				}
			}
		}
	}
	for metric, want := range map[string][2]float64{"x": {1, 3}, "y": {-4, 0}} {
		if least, most, known := m.Latest().Values(metric).Range(); !known || least != want[0] || most != want[1] {
			t.Errorf("values of %s are from %v to %v, %v; want %v", metric, least, most, known, want)
		}
	}
	for _, metric := range []string{"empty", "not asked"} {
		if least, most, known := m.Latest().Values(metric).Range(); known {
			t.Errorf("values of %s are from %v to %v, want none", metric, least, most)
		}
	}
	if row := m.Latest().RowOf("elsewhere"); row != NoRow {
		t.Errorf("a node without any value has row %d, want none", row)
	}
}
