package promql

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const day = 24 * time.Hour

// Quantiles are asked for without subqueries, but for those of counters.
func TestQuantile_Queries(t *testing.T) {
	s := samplingOf(day)
	for _, tc := range []struct {
		name         string
		promql       string
		want         string
		wantSubquery bool
	}{
		{
			"counters of modes", NodeExporter.quantile(load.CPU, Labels{"node"}, s, 0.95).mean,
			`quantile_over_time(0.95, (sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[5m])) / sum by (node) ` +
				`(rate(node_cpu_seconds_total[5m])))[1d:5m])` +
				` and count by (node) (node_cpu_seconds_total{mode="idle"})`, true,
		},
		{
			"counters of modes of earlier pods", NodeExporter.quantile(load.CPU, Labels{"node", "job", "pod"}, s, 0.95).mean,
			`quantile_over_time(0.95, (sum by (node, job) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[5m])) / sum by (node, job) ` +
				`(rate(node_cpu_seconds_total[5m])))[1d:5m])` +
				` * on (node, job) group_right () group by (node, job, pod) (node_cpu_seconds_total{mode="idle"})`, true,
		},
		{
			"what is available", NodeExporter.quantile(load.Memory, Labels{"node"}, s, 0.95).mean,
			"max by (node) (1 - quantile_over_time(0.05, node_memory_MemAvailable_bytes[1d]) / node_memory_MemTotal_bytes)", false,
		},
		{
			"the maximum of what is used is the minimum of what is available", NodeExporter.quantile(load.Memory, Labels{"node"}, s, 1).mean,
			"max by (node) (1 - quantile_over_time(0, node_memory_MemAvailable_bytes[1d]) / node_memory_MemTotal_bytes)", false,
		},
		{
			"a recorded rule", KubePrometheus.quantile(load.Memory, Labels{"node"}, s, 0.95).mean,
			"(max by (node) (quantile_over_time(0.95, instance:node_memory_utilisation:ratio[1d]))) and (max by (node) " +
				"(instance:node_memory_utilisation:ratio))", false,
		},
		{
			"a rule of either name", KubePrometheus.quantile(load.CPU, Labels{"node"}, s, 1).mean,
			"(max by (node) (quantile_over_time(1, instance:node_cpu_utilisation:rate5m[1d])) or max by (node) (quantile_over_time(1, " +
				"instance:node_cpu:ratio[1d])))" +
				" and (max by (node) (instance:node_cpu_utilisation:rate5m) or max by (node) (instance:node_cpu:ratio))", false,
		},
		{
			"a counter of cpu seconds", Kubelet.quantile(load.CPU, Labels{"node"}, s, 0.95).mean,
			"quantile_over_time(0.95, (max by (node) (sum without (cpu) ((rate(node_cpu_usage_seconds_total[5m]) and " +
				"count_over_time(node_cpu_usage_seconds_total[150s] offset 150s)))))[1d:5m])" +
				" and count by (node) (node_cpu_usage_seconds_total and timestamp(node_cpu_usage_seconds_total) > time() - 300)", true,
		},
		{
			"a gauge of bytes", CAdvisor.quantile(load.Memory, Labels{"node"}, s, 0.95).mean,
			`max by (node) (quantile_over_time(0.95, container_memory_working_set_bytes{id="/"}[1d]) and ` +
				`timestamp(container_memory_working_set_bytes{id="/"}) > time() - 300)`, false,
		},
		{
			"a custom selector", customQuantile(`my:rule{a="b"} # ours`, s, 0.95).mean,
			"quantile_over_time(0.95, my:rule{a=\"b\"}[1d]) and (my:rule{a=\"b\"} # ours\n)", false,
		},
		{
			"a custom expression", customQuantile("1 - avg by (node) (rate(idle[$window]))", s, 0.95).mean,
			"quantile_over_time(0.95, (1 - avg by (node) (rate(idle[5m]))\n)[1d:5m]) and (1 - avg by (node) (rate(idle[5m]))\n)", true,
		},
		{
			"a custom selector that looks back", customQuantile("my:rule offset 5m", s, 0.95).mean,
			"quantile_over_time(0.95, (my:rule offset 5m\n)[1d:5m]) and (my:rule offset 5m\n)", true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parsed, err := parser.NewParser(parser.Options{}).ParseExpr(tc.promql)
			if err != nil {
				t.Fatalf("%v: %s", err, tc.promql)
			}
			want, err := parser.NewParser(parser.Options{}).ParseExpr(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.String() != want.String() {
				t.Errorf("\n%s, want\n%s", parsed, want)
			}
			subquery := false
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				_, ok := node.(*parser.SubqueryExpr)
				subquery = subquery || ok
				return nil
			})
			if subquery != tc.wantSubquery {
				t.Errorf("has a subquery: %v, want %v: %s", subquery, tc.wantSubquery, tc.promql)
			}
		})
	}
}

// A load has lasted for the share of the window above the quantile. Then the quantile rises for the length of a rate.
func TestQuantile_Span(t *testing.T) {
	for _, tc := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"the 95th percentile of a day", Kubelet.quantile(load.CPU, Labels{"node"}, samplingOf(day), 0.95).span, 5 * time.Minute},
		{"the maximum of a day", Kubelet.quantile(load.CPU, Labels{"node"}, samplingOf(day), 1).span, 5 * time.Minute},
		{"the 95th percentile of five minutes", Kubelet.quantile(load.Memory, Labels{"node"}, samplingOf(window), 0.95).span, 2 * time.Minute},
		{"a rule that is a mean over five minutes", KubePrometheus.quantile(load.CPU, Labels{"node"}, samplingOf(time.Hour), 0.95).span,
			5 * time.Minute},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: span %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

func TestSamplingOf_LongWindows(t *testing.T) {
	for window, want := range map[time.Duration][2]time.Duration{
		time.Hour:      {time.Minute, 2 * time.Minute},
		2 * time.Hour:  {time.Minute, 2 * time.Minute},
		12 * time.Hour: {150 * time.Second, 150 * time.Second},
		day:            {5 * time.Minute, 5 * time.Minute},
	} {
		s := samplingOf(window)
		if got := [2]time.Duration{time.Duration(s.step), time.Duration(s.rate)}; got != want {
			t.Errorf("over %v: steps and rates of %v, want %v", window, got, want)
		}
	}
}
