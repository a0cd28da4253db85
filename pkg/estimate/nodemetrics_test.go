package estimate

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

func TestNodeMetrics(t *testing.T) {
	aged := func(value float64, age time.Duration) load.MetricValue {
		return load.MetricValue{Value: value, End: now.Add(-age)}
	}
	p := load.NewPublisher()
	m := NewNodeMetrics(NewSnapshots(p), maxAge, clocktesting.NewFakePassiveClock(now))
	p.Publish(loadtest.Snapshot(nil, map[string]load.MetricTable{
		"x":     {"a": aged(1, 0), "b": aged(2, maxAge), "c": aged(3, maxAge+1)},
		"y":     {"c": aged(0, 0), "d": aged(-4, 0)},
		"old":   {"a": aged(5, maxAge+1)},
		"empty": {},
	}))
	infos := map[string]fwk.NodeInfo{}
	for _, name := range []string{"a", "b", "c", "d", "elsewhere"} {
		infos[name] = newNode(t, name)
	}
	type known struct {
		value float64
		known bool
	}
	for name, view := range map[string]NodeMetricsView{"latest": m.Latest(), "of a cycle": m.View(framework.NewCycleState())} {
		for metric, want := range map[string]map[string]known{
			"x":        {"a": {1, true}, "b": {2, true}, "c": {3, false}, "d": {0, false}, "elsewhere": {0, false}},
			"y":        {"a": {0, false}, "c": {0, true}, "d": {-4, true}, "elsewhere": {0, false}},
			"old":      {"a": {5, false}, "d": {0, false}},
			"empty":    {"a": {0, false}, "elsewhere": {0, false}},
			"not read": {"a": {0, false}, "elsewhere": {0, false}},
		} {
			values, wantAny := view.Values(metric), metric == "x" || metric == "y"
			if got := values.Any(); got != wantAny {
				t.Errorf("%s: some node has a value of %s: %v, want %v", name, metric, got, wantAny)
			}
			for node, want := range want {
				// By name, and by the node twice: the second time the row is memoized.
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
		if lowest, highest, ok := m.Latest().Values(metric).Range(); !ok || lowest != want[0] || highest != want[1] {
			t.Errorf("values of %s are from %v to %v, %v; want %v", metric, lowest, highest, ok, want)
		}
	}
	for _, metric := range []string{"empty", "not read"} {
		if lowest, highest, ok := m.Latest().Values(metric).Range(); ok {
			t.Errorf("values of %s are from %v to %v, want none", metric, lowest, highest)
		}
	}
	if row := m.Latest().RowOf("elsewhere"); row != NoRow {
		t.Errorf("a node without any value has row %d, want none", row)
	}
}
