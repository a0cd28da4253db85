package promql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const window = 5 * time.Minute

func TestKubePrometheus_FiveMinuteMeanIsRule(t *testing.T) {
	check.Lacks(t, KubePrometheus.expression(load.CPU, Labels{"node"}, samplingOf(5*time.Minute)).mean, "avg_over_time")
	check.Contains(t, KubePrometheus.expression(load.CPU, Labels{"node"}, samplingOf(15*time.Minute)).mean, "[15m:1m]")
}

func TestKubePrometheus_Span(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{10 * time.Second: 310 * time.Second, 5 * time.Minute: 0,
		15 * time.Minute: 20 * time.Minute} {
		check.Equal(t, fmt.Sprintf("over %v: span", window), want,
			KubePrometheus.expression(load.CPU, Labels{"node"}, samplingOf(window)).span)
	}
}

func TestSamplingOf(t *testing.T) {
	const ms, s, m = model.Duration(time.Millisecond), model.Duration(time.Second), model.Duration(time.Minute)
	for _, tt := range []struct {
		window time.Duration
		want   sampling
	}{
		// A tenth of the window, four of these for the rate, at least 60 s of grace.
		{10 * time.Second, sampling{window: 10 * s, step: s, rate: 4 * s, recentSeconds: 60, shorter: []model.Duration{5 * s, 2500 * ms}}},
		{5 * time.Second, sampling{window: 5 * s, step: s, rate: 4 * s, recentSeconds: 60, shorter: []model.Duration{2500 * ms}}},
		{5 * time.Minute, sampling{window: 5 * m, step: 30 * s, rate: 2 * m, recentSeconds: 120, shorter: []model.Duration{150 * s, 75 * s}}},
		// The step is at most a minute, the rate at most two.
		{15 * time.Minute, sampling{window: 15 * m, step: m, rate: 2 * m, recentSeconds: 120, shorter: []model.Duration{450 * s, 225 * s, 112500 * ms}}},
		// Whole seconds: 95/10 is 9.
		{95 * time.Second, sampling{window: 95 * s, step: 9 * s, rate: 36 * s, recentSeconds: 60, shorter: []model.Duration{47500 * ms, 23750 * ms}}},
	} {
		check.Equal(t, fmt.Sprint(tt.window), tt.want, samplingOf(tt.window), cmp.AllowUnexported(sampling{}))
	}
}

// TestDialectQueries_Parse checks that all queries are PromQL, and call timestamp() only for selectors.
// For any other expression Prometheus returns the time of the evaluation.
func TestDialectQueries_Parse(t *testing.T) {
	for _, dialect := range Dialects() {
		for r := range load.ResourceCount {
			queries := []string{dialect.newestSample(r, Labels{"node", "instance"})}
			for _, window := range []time.Duration{10 * time.Second, window, time.Hour} {
				e := dialect.expression(r, Labels{"node", "instance"}, samplingOf(window))
				queries = append(queries, e.mean, e.stdDev)
			}
			for _, promql := range queries {
				parsed, err := parser.NewParser(parser.Options{}).ParseExpr(promql)
				if err != nil {
					t.Errorf("%s, %s: %v", dialect, r, err)
					continue
				}
				parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
					if call, ok := node.(*parser.Call); ok && call.Func.Name == "timestamp" {
						if _, ok := call.Args[0].(*parser.VectorSelector); !ok {
							t.Errorf("%s, %s: timestamp() of an expression in %s", dialect, r, promql)
						}
					}
					return nil
				})
			}
		}
	}
}

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
			`quantile_over_time(0.95, (sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[5m])) / sum by (node) ` +
				`(rate(node_cpu_seconds_total[5m])))[1d:5m])` +
				` and count by (node) (node_cpu_seconds_total{mode="idle"})`, true,
		},
		{
			"counters of modes of earlier pods", NodeExporter.quantile(load.CPU, Labels{"node", "job", "pod"}, s, 0.95).mean,
			`quantile_over_time(0.95, (sum by (node, job) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[5m])) / sum by (node, job) ` +
				`(rate(node_cpu_seconds_total[5m])))[1d:5m])` +
				` * on (node, job) group_right () group by (node, job, pod) (node_cpu_seconds_total{mode="idle"})`, true,
		},
		{
			"what is available", NodeExporter.quantile(load.Memory, Labels{"node"}, s, 0.95).mean,
			"max by (node) (1 - (quantile_over_time(0.05, (node_memory_MemAvailable_bytes + " +
				"clamp_min(node_zfs_arc_size - node_zfs_arc_c_min, 0))[1d:5m]) or " +
				"quantile_over_time(0.05, node_memory_MemAvailable_bytes[1d])) / node_memory_MemTotal_bytes)", true,
		},
		{
			"the maximum of what is used is the minimum of what is available", NodeExporter.quantile(load.Memory, Labels{"node"}, s, 1).mean,
			"max by (node) (1 - (quantile_over_time(0, (node_memory_MemAvailable_bytes + " +
				"clamp_min(node_zfs_arc_size - node_zfs_arc_c_min, 0))[1d:5m]) or " +
				"quantile_over_time(0, node_memory_MemAvailable_bytes[1d])) / node_memory_MemTotal_bytes)", true,
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
				" and count by (node) (node_cpu_usage_seconds_total and timestamp(node_cpu_usage_seconds_total) > time() - 300" +
				" unless (changes(node_cpu_usage_seconds_total[5m]) == 0 and count_over_time(node_cpu_usage_seconds_total[5m]) > 1))", true,
		},
		{
			"a gauge of bytes", CAdvisor.quantile(load.Memory, Labels{"node"}, s, 0.95).mean,
			`max by (node) (quantile_over_time(0.95, container_memory_working_set_bytes{id="/"}[1d]) and ` +
				`timestamp(container_memory_working_set_bytes{id="/"}) > time() - 300)`, false,
		},
		{"a custom selector", customQuantile(`my:rule{a="b"} # ours`, s, 0.95).mean, "quantile_over_time(0.95, my:rule{a=\"b\"}[1d]) and (my:rule{a=\"b\"} # ours\n)", false},
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
			want := check.Value(parser.NewParser(parser.Options{}).ParseExpr(tc.want))(t)
			if parsed.String() != want.String() {
				t.Errorf("\n%s, want\n%s", parsed, want)
			}
			subquery := false
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				_, ok := node.(*parser.SubqueryExpr)
				subquery = subquery || ok
				return nil
			})
			check.Equal(t, "subquery in "+tc.promql, tc.wantSubquery, subquery)
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
		{"a rule that is a mean over five minutes", KubePrometheus.quantile(load.CPU, Labels{"node"}, samplingOf(time.Hour), 0.95).span, 5 * time.Minute},
	} {
		check.Equal(t, tc.name+": span", tc.want, tc.got)
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
		check.Equal(t, fmt.Sprintf("over %v: steps and rates", window), want,
			[2]time.Duration{time.Duration(s.step), time.Duration(s.rate)})
	}
}

// The recorded rules of kube-prometheus follow from node_exporter's counters. A custom query may follow from any.
func TestPlanner_Counted(t *testing.T) {
	for _, tt := range []struct {
		dialect Dialect
		custom  string
		want    string
	}{
		{NodeExporter, "", "node_cpu_seconds_total"},
		{KubePrometheus, "", "node_cpu_seconds_total"},
		{Kubelet, "", "node_cpu_usage_seconds_total"},
		{KubePrometheus, "mine", ""},
		{"", "", ""},
	} {
		p := &Planner{}
		p.Custom[0] = tt.custom // of cpu
		check.Equal(t, fmt.Sprintf("%s with custom query %q", tt.dialect, tt.custom), tt.want, p.CPUCounters(tt.dialect))
	}
}

// TestPlanner_SelectorInEveryQuery looks for the matchers in each selector of all queries of all dialects.
func TestPlanner_SelectorInEveryQuery(t *testing.T) {
	const selector = `{namespace="monitoring",job=~"node-.*"}`
	p := Planner{By: Labels{"node", "instance"}, Selector: ParseSelector(selector)}
	day := []load.Quantile{{Window: 24 * time.Hour, Fraction: 0.95}}
	for _, dialect := range Dialects() {
		queries := append(p.Load([]Dialect{dialect}, []time.Duration{window}, day), p.Probe(dialect, window))
		texts := []string{p.SampleSelector(dialect), p.Series(dialect, load.CPU)}
		for i := range queries {
			texts = append(texts, queries[i].PromQL)
		}
		for _, text := range texts {
			parsed := parse(text)
			if parsed == nil {
				if text != "" { // the rules have alternatives, which are no selector
					t.Errorf("%s: %s is no PromQL", dialect, text)
				}
				continue
			}
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				if s, ok := node.(*parser.VectorSelector); ok && (!strings.Contains(s.String(), `namespace="monitoring"`) ||
					!strings.Contains(s.String(), `job=~"node-.*"`)) {
					t.Errorf("%s: %s has not the selector, in %s", dialect, s, text)
				}
				return nil
			})
		}
	}
}

func TestPlanner_NoSelectorChangesNothing(t *testing.T) {
	p := Planner{By: Labels{"node"}, Selector: ParseSelector("")}
	check.Equal(t, "Series", "node_cpu_usage_seconds_total", p.Series(Kubelet, load.CPU))
}

func TestPodQueries_Parse(t *testing.T) {
	check := func(promql string) {
		t.Helper()
		if parse(promql) == nil {
			t.Errorf("%s: does not parse", promql)
		}
		// Proxies that allow GET alone need queries in a URL: encoded, at most 6 KiB.
		if len(promql) > 3<<10 {
			t.Errorf("%d bytes: %s", len(promql), promql)
		}
	}
	for _, q := range PodFamilies() {
		check(q.Count())
		check(q.In([]string{"shop", "team-a"}).Usage(load.CPU))
		for r := range load.ResourceCount {
			check(q.Usage(r))
			for i := range SumCount {
				for _, period := range []time.Duration{10 * time.Minute, 6 * time.Hour, 7*time.Hour + 11*time.Second, 180 * time.Hour} {
					check(q.History(r, i, period, 35*time.Minute))
					check(RecordedLooks(r, period))
					check(RecordedHistory(r, i, period, nil))
					check(RecordedHistory(r, i, period, []string{"a", "\"}|.*\n"}))
				}
			}
		}
	}
}
