package validation_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
)

func fromPrometheus(a *config.LoadThresholdArgs) {
	a.MetricProvider.Type, a.MetricProvider.Address = config.Prometheus, "http://prometheus:9090"
}

func TestValidateLoadThresholdArgs(t *testing.T) {
	type args = config.LoadThresholdArgs
	for _, tt := range []struct {
		name   string
		change func(*args)
		want   []refusal
	}{
		{name: "the defaults are accepted", change: func(*args) {}},
		{name: "thresholds of 1 and 100 are accepted", change: func(a *args) { a.Thresholds = config.Thresholds{CPU: ptr.To[int64](1), Memory: ptr.To[int64](100)} }},
		{name: "one threshold alone is accepted", change: func(a *args) { a.Thresholds.CPU = nil }},
		{name: "a threshold of 0 is refused", change: func(a *args) { a.Thresholds.CPU = ptr.To[int64](0) }, want: refused("thresholds.cpu", "0", "[1, 100]", "write the utilization")},
		{name: "a threshold above 100 is refused", change: func(a *args) { a.Thresholds.Memory = ptr.To[int64](101) }, want: refused("thresholds.memory", "101", "[1, 100]")},
		{name: "a short window is refused", change: func(a *args) { a.Windows.CPU.Duration = time.Second }, want: refused("windows.cpu", `"1s"`, "[10s, 1h0m0s]")},
		{name: "a long window is refused", change: func(a *args) { a.Windows.Memory.Duration = 2 * time.Hour }, want: refused("windows.memory", `"2h0m0s"`, "[10s, 1h0m0s]")},
		{
			name: "an invalid window, the default of the others, is reported once",
			change: func(a *args) {
				a.Window.Duration = 0
				a.Windows = config.ThresholdWindows{CPU: a.Window, Memory: a.Window}
			},
			want: refused("window", `"0s"`),
		},
		{name: "Pass is accepted", change: func(a *args) { a.MissingLoad = config.MissingLoadPass }},
		{name: "Reject is accepted", change: func(a *args) { a.MissingLoad = config.MissingLoadReject }},
		{name: "a scorer's missingLoad is refused", change: func(a *args) { a.MissingLoad = config.MissingLoadNeutral }, want: refused("missingLoad", `"Neutral"`, `"Requests"`, `"Pass"`, `"Reject"`)},
		{name: "an unknown statistic is refused", change: func(a *args) { a.Statistic = "P99" }, want: refused("statistic", `"P99"`, `"Mean"`, `"MeanPlusStdDev"`, `"P95"`, `"Max"`, `"PredictedPeak"`)},
		{name: "the 95th percentile from a Prometheus is accepted", change: func(a *args) { fromPrometheus(a); a.Statistic = config.StatisticP95 }},
		{name: "the maximum from a Prometheus is accepted", change: func(a *args) { fromPrometheus(a); a.Statistic = config.StatisticMax }},
		{name: "the 95th percentile from metrics-server is refused", change: func(a *args) { a.Statistic = config.StatisticP95 }, want: refused("statistic", `"P95"`, "metricProvider.type Prometheus", "KubernetesMetricsServer knows no percentile")},
		{
			name:   "the maximum from a load-watcher service is refused",
			change: func(a *args) { fromPrometheus(a); a.WatcherAddress = "http://a"; a.Statistic = config.StatisticMax },
			want:   refused("statistic", `"Max"`, "no watcherAddress", "a load-watcher service knows no percentile"),
		},
		{
			name: "windows of a day from a Prometheus are accepted",
			change: func(a *args) {
				fromPrometheus(a)
				a.Windows.CPU.Duration, a.Windows.Memory.Duration = 24*time.Hour, 2*time.Hour
			},
		},
		{
			name: "windows of a day from Datadog are accepted",
			change: func(a *args) {
				a.MetricProvider.Type, a.MetricProvider.Address, a.MetricProvider.Token, a.MetricProvider.ApplicationKey = config.Datadog, "https://api.datadoghq.com", "t", "k"
				a.Windows.CPU.Duration, a.Windows.Memory.Duration = 24*time.Hour, 2*time.Hour
			},
		},
		{name: "more than a day is refused", change: func(a *args) { fromPrometheus(a); a.Windows.CPU.Duration = 25 * time.Hour }, want: refused("windows.cpu", `"25h0m0s"`, "[10s, 24h0m0s]")},
		{name: "the default of the windows is at most an hour", change: func(a *args) { fromPrometheus(a); a.Window.Duration = 2 * time.Hour }, want: refused("window", `"2h0m0s"`, "[10s, 1h0m0s]")},
		{
			name: "a long window from a load-watcher service is refused",
			change: func(a *args) {
				fromPrometheus(a)
				a.WatcherAddress = "http://a"
				a.Windows.CPU.Duration = 2 * time.Hour
			},
			want: refused("windows.cpu", `"2h0m0s"`, "[10s, 1h0m0s]", "a load-watcher service knows no longer past"),
		},
		{
			name: "a long window of predicted peaks is refused",
			change: func(a *args) {
				fromPrometheus(a)
				a.Statistic, a.Windows.CPU.Duration = config.StatisticPredictedPeak, 2*time.Hour
			},
			want: refused("windows.cpu", `"2h0m0s"`, "predictedPeak.history"),
		},
		{name: "the predicted peak is accepted", change: func(a *args) { a.Statistic = config.StatisticPredictedPeak }},
		{
			name: "a negative default request is refused",
			change: func(a *args) {
				a.DefaultRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-1")}
			},
			want: refused("defaultRequests[cpu]", `"-1"`, "at least 0"),
		},
		{
			name: "default requests of cpu and memory are accepted",
			change: func(a *args) {
				a.DefaultRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
			},
		},
		{
			name:   "a default request of a resource that is not read is refused",
			change: func(a *args) { a.DefaultRequests = corev1.ResourceList{"mem": resource.MustParse("1")} },
			want:   refused("defaultRequests[mem]", `"mem"`, `supported values: "cpu", "memory"`),
		},
		{name: "a factor of 0 is accepted", change: func(a *args) { a.StdDevFactor = 0 }},
		{name: "a negative factor is refused", change: func(a *args) { a.StdDevFactor = -1 }, want: refused("stdDevFactor", "-1", "at least 0")},
		{name: "a factor of NaN is refused", change: func(a *args) { a.StdDevFactor = math.NaN() }, want: refused("stdDevFactor", "NaN")},
		{name: "an infinite factor is refused", change: func(a *args) { a.StdDevFactor = math.Inf(1) }, want: refused("stdDevFactor", "+Inf", "finite")},
		{name: "a priority class without a name is refused", change: func(a *args) { a.Exempt.PriorityClassNames = []string{"a", ""} }, want: refused("exempt.priorityClassNames[1]", "write one, or remove")},
		{
			name:   "100 priority classes are accepted",
			change: func(a *args) { a.Exempt.PriorityClassNames = slices.Repeat([]string{"a"}, 100) },
		},
		{
			name: "more are refused", change: func(a *args) { a.Exempt.PriorityClassNames = slices.Repeat([]string{"a"}, 101) },
			want: refused("exempt.priorityClassNames", "101 priority classes", "at most 100"),
		},
		{
			name: "more than 100 labels of a selector are refused",
			change: func(a *args) {
				a.Exempt.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
				for i := range 101 {
					a.Exempt.PodSelector.MatchLabels[fmt.Sprint("k", i)] = "v"
				}
			},
			want: refused("exempt.podSelector.matchLabels", "101 labels", "at most 100"),
		},
		{
			name: "more than 100 requirements of a selector are refused",
			change: func(a *args) {
				a.Exempt.NamespaceSelector = &metav1.LabelSelector{
					MatchExpressions: slices.Repeat([]metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpExists}}, 101),
				}
			},
			want: refused("exempt.namespaceSelector.matchExpressions", "101 requirements", "at most 100"),
		},
		{
			name: "more than 100 values of a requirement are refused",
			change: func(a *args) {
				a.Exempt.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"v"}, 101)},
				}}
			},
			want: refused("exempt.podSelector.matchExpressions[0].values", "101 values", "at most 100"),
		},
		{
			name: "an unknown operator in a selector is refused",
			change: func(a *args) {
				a.Exempt.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Equals"}}}
			},
			want: refused("exempt.podSelector.matchExpressions[0].operator", "Equals"),
		},
		{
			name: "an invalid label in a namespace selector is refused",
			change: func(a *args) {
				a.Exempt.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"-k": "v"}}
			},
			want: refused("exempt.namespaceSelector.matchLabels", "-k"),
		},
		{name: "an unknown whenNoneFits is refused", change: func(a *args) { a.WhenNoneFits = "Wait" }, want: refused("whenNoneFits", `"Wait"`, `"Relax"`, `"Reject"`)},
		{
			name: "all errors are reported",
			change: func(a *args) {
				a.Window.Duration, a.MissingLoad = 0, ""
				a.Thresholds = config.Thresholds{CPU: ptr.To[int64](0), Memory: ptr.To[int64](0)}
				a.Windows.CPU.Duration, a.Windows.Memory.Duration = 1, 1
			},
			want: []refusal{{path: "window"}, {path: "missingLoad"}, {path: "thresholds.cpu"}, {path: "windows.cpu"}, {path: "thresholds.memory"}, {path: "windows.memory"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := defaulted(t, "LoadThresholdArgs").(*args)
			tt.change(a)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), a), tt.want)
		})
	}
}

func TestValidateNodeMetricsArgs(t *testing.T) {
	type args = config.NodeMetricsArgs
	metric := func(change func(*config.NodeMetric)) func(*args) { return func(a *args) { change(&a.Metrics[0]) } }
	query := func(promql string) func(*args) { return metric(func(m *config.NodeMetric) { m.Query = promql }) }
	bounds := func(prefer config.Preference, best, worst float64) func(*args) {
		return metric(func(m *config.NodeMetric) {
			m.Prefer, m.Bounds = prefer, &config.MetricBounds{Best: best, Worst: worst}
		})
	}
	pending := func(perPod float64, window time.Duration) func(*args) {
		return metric(func(m *config.NodeMetric) {
			m.Pending = &config.PendingPods{PerPod: perPod, Window: metav1.Duration{Duration: window}}
		})
	}
	reject := func(rule string) func(*args) { return metric(func(m *config.NodeMetric) { m.Reject = rule }) }
	for _, tt := range []struct {
		name   string
		change func(*args)
		want   []refusal
	}{
		{name: "a metric is accepted", change: func(*args) {}},
		{name: "no metric is refused", change: func(a *args) { a.Metrics = nil }, want: refused("metrics", "at least one metric")},
		{name: "a load-watcher service is refused", change: func(a *args) { a.WatcherAddress = "http://watcher:2020" }, want: refused("watcherAddress", "answers no PromQL", "remove it")},
		{
			name:   "a query of more than 16 KiB is refused before it is parsed",
			change: func(a *args) { a.Metrics[0].Query = strings.Repeat("(", 1<<20) },
			want:   refused("metrics[0].query", `"1048576 bytes"`, "at most 16384 bytes", "recording rule"),
		},
		{
			name: "more than 100 metrics are refused", change: func(a *args) { a.Metrics = slices.Repeat(a.Metrics[:1], 101) },
			want: refused("metrics", "101 metrics", "at most 100"),
		},
		{
			name: "metrics-server is refused",
			change: func(a *args) {
				a.MetricProvider = config.MetricProviderSpec{Type: config.KubernetesMetricsServer, Dialect: config.DialectAuto, NodeLabels: a.MetricProvider.NodeLabels, Timeout: a.MetricProvider.Timeout}
			},
			want: refused("metricProvider.type", `"KubernetesMetricsServer"`, "must be Prometheus"),
		},
		{name: "a metric without a name is refused", change: metric(func(m *config.NodeMetric) { m.Name = " " }), want: refused("metrics[0].name", "such as http-latency")},
		{
			name: "a duplicate name is refused", change: func(a *args) { a.Metrics = append(a.Metrics, a.Metrics[0]) },
			want: refused("metrics[1].name", "Duplicate", `"m"`),
		},
		{name: "an empty query is refused", change: query(" \n"), want: refused("metrics[0].query", "one series per node")},
		{name: "a query over several lines is accepted", change: query("sum by (node) (\n  rate(a[5m])\n)\n")},
		{name: "a query of another dialect of PromQL is accepted", change: query("topk_avg(3, a) default 0")},
		{name: "a range vector is refused", change: query("a[5m]"), want: refused("metrics[0].query", "range vector", "one series per node", "rate")},
		{name: "a scalar is refused", change: query("1 + 1"), want: refused("metrics[0].query", "not a scalar")},
		{name: "no preference is refused", change: metric(func(m *config.NodeMetric) { m.Prefer = "" }), want: refused("metrics[0].prefer", `"Lower"`, `"Higher"`)},
		{name: "a weight of 0 is accepted", change: metric(func(m *config.NodeMetric) { m.Weight = 0 })},
		{name: "a negative weight is refused", change: metric(func(m *config.NodeMetric) { m.Weight = -1 }), want: refused("metrics[0].weight", "-1", "[0, 1048576]")},
		{name: "a weight beyond the scheduler's limit is refused", change: metric(func(m *config.NodeMetric) { m.Weight = 1<<20 + 1 }), want: refused("metrics[0].weight", "[0, 1048576]")},
		{name: "rising bounds are accepted if lower is better", change: bounds("Lower", 0.05, 2)},
		{name: "falling bounds are accepted if higher is better", change: bounds("Higher", 2, -1)},
		{name: "falling bounds are refused if lower is better", change: bounds("Lower", 2, 0.05), want: refused("metrics[0].bounds", "best 2, worst 0.05", "exchange them")},
		{name: "rising bounds are refused if higher is better", change: bounds("Higher", 0, 1), want: refused("metrics[0].bounds", "best 0, worst 1", "exchange them")},
		{name: "equal bounds are refused", change: bounds("Lower", 1, 1), want: refused("metrics[0].bounds", "best must be below worst")},
		{name: "bounds of NaN are refused", change: bounds("Lower", math.NaN(), 1), want: refused("metrics[0].bounds", "finite")},
		{name: "infinite bounds are refused", change: bounds("Lower", 0, math.Inf(1)), want: refused("metrics[0].bounds", "finite")},
		{name: "pending pods are accepted", change: pending(0.05, 10*time.Second)},
		{name: "pending pods without a value are refused", change: pending(0, time.Minute), want: refused("metrics[0].pending.perPod", "0", "greater than 0", "in its unit")},
		{name: "pending pods that make a node better are refused", change: pending(-1, time.Minute), want: refused("metrics[0].pending.perPod", "-1", "greater than 0")},
		{name: "infinite pending pods are refused", change: pending(math.Inf(1), time.Minute), want: refused("metrics[0].pending.perPod", "greater than 0")},
		{name: "a short window of pending pods is refused", change: pending(1, time.Second), want: refused("metrics[0].pending.window", `"1s"`, "[10s, 1h0m0s]")},
		{name: "a long window of pending pods is refused", change: pending(1, 2*time.Hour), want: refused("metrics[0].pending.window", `"2h0m0s"`, "[10s, 1h0m0s]")},
		{name: "a rule is accepted", change: reject(">= 0.5")},
		{name: "a rule without an operator is refused", change: reject("5"), want: refused("metrics[0].reject", `"5"`, ">, >=, <, <=", `such as "> 5"`)},
		{name: "a rule with another operator is refused", change: reject("== 5"), want: refused("metrics[0].reject", `"== 5"`)},
		{name: "a rule without a number is refused", change: reject("> much"), want: refused("metrics[0].reject", `"> much"`)},
		{name: "a rule without a bound is refused", change: reject("> Inf"), want: refused("metrics[0].reject", "finite number")},
		{name: "an unknown whenNoneFits is refused", change: func(a *args) { a.WhenNoneFits = "" }, want: refused("whenNoneFits", `"Relax"`, `"Reject"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := defaulted(t, "NodeMetricsArgs").(*args)
			a.MetricProvider.Type, a.MetricProvider.Address = config.Prometheus, "http://prometheus:9090"
			a.Metrics = []config.NodeMetric{{Name: "m", Query: "a", Prefer: config.PreferLower, Weight: 1}}
			tt.change(a)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), a), tt.want)
		})
	}
}
