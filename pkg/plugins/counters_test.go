package plugins_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// counted are the plugin's decisions, and those with a fallback by reason.
type counted struct{ decisions, absent, expired, skipped float64 }

func countedOf(t *testing.T, registry metrics.KubeRegistry, plugin string) counted {
	t.Helper()
	families := check.Value(registry.Gather())(t)
	var c counted
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if !testutil.LabelsMatch(m, map[string]string{"plugin": plugin}) {
				continue
			}
			reason := ""
			for _, label := range m.GetLabel() {
				if label.GetName() == "reason" {
					reason = label.GetValue()
				}
			}
			*map[string]*float64{"": &c.decisions, "Absent": &c.absent, "Expired": &c.expired, "StepAside": &c.skipped}[reason] = m.GetCounter().
				GetValue()
		}
	}
	return c
}

// A plugin that reads no load has no counters: operators would read from them that it never misses load.
func TestCounters_WithoutLoad(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	registryOn(plugintest.NewLoads(), registry.MustRegister)
	families := check.Value(registry.Gather())(t)
	counted := map[string]bool{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				counted[label.GetValue()] = true
			}
		}
	}
	for name := range kinds() {
		if !counted[name] {
			t.Errorf("%s has no counters", name)
		}
	}
	for name := range withoutLoad() {
		if counted[name] {
			t.Errorf("%s has counters", name)
		}
	}
}

// Limits count decisions, and fallbacks once per decision.
func TestCounters_Limits(t *testing.T) {
	fresh := load.NodeLoad{load.CPU: plugintest.Measurement(0.5, 0), load.Memory: plugintest.Measurement(0.5, 0)}
	old, cpuAlone := fresh, load.NodeLoad{load.CPU: fresh[load.CPU]}
	old[load.CPU].End = old[load.CPU].End.Add(-time.Hour)
	all := func(l load.NodeLoad) map[string]load.NodeLoad {
		return map[string]load.NodeLoad{"a": l, "b": l, "c": l}
	}
	type values = map[string]float64
	const rules = `metricProvider: {type: Prometheus, address: "http://prometheus:9090"}
metrics: [{name: x, query: m0, prefer: Lower, weight: 0, reject: "> 5"}, {name: w, query: m1, prefer: Lower, reject: "< 0"}]`

	for _, tc := range []struct {
		name, plugin, args string
		loads              map[string]load.NodeLoad
		m0, m1             values
		age                time.Duration // of the value that c has of m0
		want               counted
	}{
		{name: "measured load decides", plugin: loadthreshold.Name, loads: all(fresh), want: counted{decisions: 2}},
		{name: "two nodes were never measured", plugin: loadthreshold.Name, loads: map[string]load.NodeLoad{"a": fresh}, want: counted{decisions: 2, absent: 2}},
		{name: "two nodes were not measured lately", plugin: loadthreshold.Name, loads: map[string]load.NodeLoad{"a": fresh, "b": old, "c": old}, want: counted{decisions: 2, expired: 2}},
		{name: "both", plugin: loadthreshold.Name, loads: map[string]load.NodeLoad{"a": fresh, "b": old}, want: counted{decisions: 2, absent: 2, expired: 2}},
		{name: "no load is known", plugin: loadthreshold.Name, want: counted{decisions: 2, skipped: 2}},
		{name: "no load is known, and nodes are refused for it", plugin: loadthreshold.Name, args: "missingLoad: Reject", want: counted{decisions: 2, absent: 2}},
		{name: "an exempt pod, when no load is known", plugin: loadthreshold.Name, args: "exempt: {podSelector: {}}", want: counted{decisions: 2}},
		{name: "a resource without a threshold is not known of a node", plugin: loadthreshold.Name, args: "thresholds: {cpu: 80}", loads: map[string]load.NodeLoad{"a": fresh, "b": fresh, "c": cpuAlone}, want: counted{decisions: 2}},
		{name: "a resource is known of no node", plugin: loadthreshold.Name, loads: all(cpuAlone), want: counted{decisions: 2}},

		{name: "values decide", plugin: nodemetrics.Name, args: rules, m0: values{"a": 9, "b": 1, "c": 1}, m1: values{"a": 1, "b": 1, "c": 1}, want: counted{decisions: 2}},
		{name: "a node has no value to reject it by", plugin: nodemetrics.Name, args: rules, m0: values{"a": 9, "b": 1}, m1: values{"a": 1, "b": 1, "c": 1}, want: counted{decisions: 2, absent: 2}},
		{name: "a node's value to reject it by is too old", plugin: nodemetrics.Name, args: rules, m0: values{"a": 9, "b": 1, "c": 1}, m1: values{"a": 1, "b": 1, "c": 1}, age: time.Hour, want: counted{decisions: 2, absent: 2}},
		{name: "a node has no value to score it by", plugin: nodemetrics.Name, args: rules, m0: values{"a": 1, "b": 1, "c": 1}, m1: values{"a": 1, "b": 1}, want: counted{decisions: 2, absent: 2}},
		{name: "a metric without any value drops out", plugin: nodemetrics.Name, args: rules, m0: values{"a": 9, "b": 1, "c": 1}, want: counted{decisions: 2}},
		{name: "a rule's metric without any value drops out", plugin: nodemetrics.Name, args: rules, m1: values{"a": 9, "b": 1, "c": 1}, want: counted{decisions: 2}},
		{name: "a metric that scores nothing has no value of a node", plugin: nodemetrics.Name, args: strings.Replace(rules, "query: m1,", "query: m1, weight: 0,", 1), m0: values{"a": 1, "b": 1, "c": 1}, m1: values{"a": 1, "b": 1}, want: counted{decisions: 2}},
		{name: "no value is known", plugin: nodemetrics.Name, args: rules, want: counted{decisions: 2, skipped: 2}},
	} {
		t.Run(tc.plugin+"/"+tc.name, func(t *testing.T) {
			registry, loads := metrics.NewKubeRegistry(), plugintest.NewLoads()
			tables := map[string]load.MetricTable{"m0": {}, "m1": {}}
			for query, v := range map[string]values{"m0": tc.m0, "m1": tc.m1} {
				for node, value := range v {
					measured := load.MetricValue{Value: value, End: plugintest.Now()}
					if query == "m0" && node == "c" {
						measured.End = measured.End.Add(-tc.age)
					}
					tables[query][node] = measured
				}
			}
			loads.Measure(tc.loads, tables)
			pl := check.Value(registryOn(loads, registry.MustRegister)[tc.plugin](t.Context(), plugintest.Args(t, kinds()[tc.plugin], tc.args),
				plugintest.NewHandle()))(t)
			for range 2 {
				state, scores := framework.NewCycleState(), minor.NodeScoreList{}
				_, status := pl.(minor.PreFilterPlugin).PreFilter(t.Context(), state, incoming(), nil)
				clone := state.Clone() // as for nominated pods
				for _, name := range []string{"a", "b", "c"} {
					node := plugintest.Node(name, plugintest.CPUAndMemory("8", "16Gi"))
					if !status.IsSkip() {
						pl.(minor.FilterPlugin).Filter(t.Context(), clone, incoming(), node)
						pl.(minor.FilterPlugin).Filter(t.Context(), state, incoming(), node)
					}
					score, _ := pl.(minor.ScorePlugin).Score(t.Context(), state, incoming(), node)
					scores = append(scores, minor.NodeScore{Name: name, Score: score})
				}
				pl.(minor.ScorePlugin).ScoreExtensions().NormalizeScore(t.Context(), state, incoming(), scores)
			}
			if got := countedOf(t, registry, tc.plugin); got != tc.want {
				t.Errorf("counted %+v, want %+v", got, tc.want)
			}
		})
	}
}
