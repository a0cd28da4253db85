package validation_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// secret is part of every value in these tests that errors must not show.
const secret = "hunter2"

// refusal is an expected error: the field's path below args, and parts of the message.
type refusal struct {
	path  string
	parts []string
}

func refused(path string, parts ...string) []refusal { return []refusal{{path: path, parts: parts}} }

// checkRefusals fails unless err holds the expected errors in their order.
func checkRefusals(t *testing.T, err error, want []refusal) {
	t.Helper()
	var got []error
	if err != nil {
		aggregate, ok := errors.AsType[utilerrors.Aggregate](err)
		if !ok {
			t.Fatalf("%T is not an aggregate: %v", err, err)
		}
		got = aggregate.Errors()
		check.Lacks(t, err.Error(), secret, "\n")
	}
	check.Require(t, fmt.Sprintf("errors: %v", err), len(want), len(got))
	for i := range want {
		fieldErr, ok := errors.AsType[*field.Error](got[i])
		if !ok {
			t.Fatalf("%T is not a field error: %v", got[i], got[i])
		}
		check.Equal(t, fmt.Sprintf("path: %v", fieldErr), "args."+want[i].path, fieldErr.Field)
		check.Contains(t, fieldErr.ErrorBody(), want[i].parts...)
	}
}

// decoded returns the arguments of a plugin as the scheduler reads them from YAML.
func decoded(t *testing.T, plugin, args string) runtime.Object {
	t.Helper()
	s := runtime.NewScheme()
	check.OK(t, scheme.AddToScheme(s))
	versioned := check.Value(s.New(v1.SchemeGroupVersion.WithKind(plugin + "Args")))(t)
	check.OK(t, yaml.UnmarshalStrict([]byte(args), versioned))
	s.Default(versioned)
	return check.Value(s.ConvertToVersion(versioned, config.SchemeGroupVersion))(t)
}

// nameOf returns the name of a subtest. Arguments of many bytes are cut.
func nameOf(plugin, args string) string { return plugin + " " + args[:min(len(args), 80)] }

const (
	prometheus = "type: Prometheus, address: 'http://prometheus:9090'"
	signalFx   = "type: SignalFx, token: hunter2"
	datadog    = "type: Datadog, token: hunter2, applicationKey: hunter2"
)

func provider(fields ...string) string {
	return "metricProvider: {" + strings.Join(fields, ", ") + "}\n"
}

// metric returns the arguments of NodeMetrics with one metric, which is valid but for the fields.
func metric(fields string) string {
	for _, field := range []string{"name: m", "query: a", "prefer: Lower"} {
		if name, _, _ := strings.Cut(field, " "); !strings.Contains(fields, name) {
			fields += ", " + field
		}
	}
	return provider(prometheus) + "metrics: [{" + strings.TrimPrefix(fields, ", ") + "}]"
}

func TestValidateArgs(t *testing.T) {
	multiplierRule := []string{"finite decimal number of at least 0", `write one such as "1.5"`}
	for _, tt := range []struct {
		plugin, args string
		want         []refusal
	}{
		{"TargetLoadPacking", "", nil},
		{"TargetLoadPacking", "targetUtilization: 1", nil},
		{"TargetLoadPacking", "targetUtilization: 99", nil},
		{"TargetLoadPacking", "targetUtilization: 0", refused("targetUtilization", "0", "[1, 99]", "write the CPU utilization")},
		{"TargetLoadPacking", "targetUtilization: 100", refused("targetUtilization", "100", "[1, 99]")},
		{"TargetLoadPacking", "targetUtilization: -1", refused("targetUtilization", "-1", "[1, 99]")},
		{"TargetLoadPacking", "targetUtilization: 150", refused("targetUtilization", "150", "[1, 99]")},
		{"TargetLoadPacking", "defaultRequestsMultiplier: '0'", nil},
		{"TargetLoadPacking", "defaultRequestsMultiplier: '1.25'", nil},
		{"TargetLoadPacking", "defaultRequestsMultiplier: abc", refused("defaultRequestsMultiplier", append(multiplierRule, `"abc"`)...)},
		{"TargetLoadPacking", "defaultRequestsMultiplier: 'NaN'", refused("defaultRequestsMultiplier", append(multiplierRule, `"NaN"`)...)},
		{"TargetLoadPacking", "defaultRequestsMultiplier: 'Inf'", refused("defaultRequestsMultiplier", append(multiplierRule, `"Inf"`)...)},
		{"TargetLoadPacking", "defaultRequestsMultiplier: '1e999'", refused("defaultRequestsMultiplier", multiplierRule...)},
		{"TargetLoadPacking", "defaultRequestsMultiplier: '-1'", refused("defaultRequestsMultiplier", append(multiplierRule, `"-1"`)...)},
		{"TargetLoadPacking", "defaultRequestsMultiplier: ''", refused("defaultRequestsMultiplier", append(multiplierRule, `""`)...)},
		{"TargetLoadPacking", "defaultRequestsMultiplier: ' 1.5'", refused("defaultRequestsMultiplier", multiplierRule...)},
		{"TargetLoadPacking", "maxLimitRequestRatio: 1", nil},
		{"TargetLoadPacking", "maxLimitRequestRatio: 0.5", refused("maxLimitRequestRatio", "0.5", "at least 1", "such as 10")},
		{"TargetLoadPacking", "defaultRequests: {cpu: 0}", nil},
		{"TargetLoadPacking", "defaultRequests: {cpu: -100m}", refused("defaultRequests[cpu]", `"-100m"`, "at least 0", "such as 500m")},
		{"TargetLoadPacking", "defaultRequests: {cpuu: 1, memory: 1Gi}", refused("defaultRequests[cpuu]", `"cpuu"`, `supported values: "cpu", "memory"`)},
		{"TargetLoadPacking", "missingLoad: Highest", refused("missingLoad", `"Highest"`, `"Requests"`, `"Neutral"`, `"Lowest"`)},
		{
			"TargetLoadPacking", "{window: 0s, missingLoad: requests, targetUtilization: 0, defaultRequests: {memory: -1, cpu: -1}, defaultRequestsMultiplier: x}",
			[]refusal{
				{path: "window"}, {path: "missingLoad"}, {path: "targetUtilization"}, {path: "defaultRequests[cpu]"}, {path: "defaultRequests[memory]"},
				{path: "defaultRequestsMultiplier"},
			},
		},

		{"LoadVariationRiskBalancing", "", nil},
		{"LoadVariationRiskBalancing", "safeVarianceMargin: 0", nil},
		{"LoadVariationRiskBalancing", "safeVarianceSensitivity: 0", nil},
		{"LoadVariationRiskBalancing", "safeVarianceMargin: 2.5", nil},
		{"LoadVariationRiskBalancing", "safeVarianceMargin: -0.5", refused("safeVarianceMargin", "-0.5", "at least 0", "write 0")},
		{"LoadVariationRiskBalancing", "safeVarianceSensitivity: -1", refused("safeVarianceSensitivity", "-1", "at least 0", "write 0")},
		{"LoadVariationRiskBalancing", "defaultRequests: {cpu: -100m}", refused("defaultRequests[cpu]", `"-100m"`, "at least 0")},
		{"LoadVariationRiskBalancing", "defaultRequests: {cpu: 1, memory: 1Gi}", nil},
		{"LoadVariationRiskBalancing", "defaultRequests: {nvidia.com/gpu: 1}", refused("defaultRequests[nvidia.com/gpu]", `"nvidia.com/gpu"`, `supported values: "cpu", "memory"`)},
		{"LoadVariationRiskBalancing", "missingLoad: Highest", refused("missingLoad", `"Highest"`, `"Requests"`, `"Neutral"`, `"Lowest"`)},

		{"LowRiskOverCommitment", "", nil},
		{"LowRiskOverCommitment", "riskLimitWeights: {cpu: 0, memory: 1}", nil},
		{"LowRiskOverCommitment", "smoothingWindowSize: 1", nil},
		{"LowRiskOverCommitment", "unlimitedPods: AsRequest", nil},
		{"LowRiskOverCommitment", "smoothingWindowSize: 0", refused("smoothingWindowSize", "0", "at least 1")},
		{"LowRiskOverCommitment", "smoothingWindowSize: -5", refused("smoothingWindowSize", "-5", "at least 1")},
		{"LowRiskOverCommitment", "riskLimitWeights: {cpu: -0.1}", refused("riskLimitWeights[cpu]", "-0.1", "[0, 1]")},
		{"LowRiskOverCommitment", "riskLimitWeights: {memory: 50}", refused("riskLimitWeights[memory]", "50", "[0, 1]")},
		{"LowRiskOverCommitment", "riskLimitWeights: {mem: 0.5}", refused("riskLimitWeights[mem]", `"mem"`, `"cpu"`, `"memory"`)},
		{"LowRiskOverCommitment", "unlimitedPods: Zero", refused("unlimitedPods", `"Zero"`, `"Unlimited"`, `"AsRequest"`)},
		{"LowRiskOverCommitment", "missingLoad: Highest", refused("missingLoad", `"Highest"`, `"Requests"`)},

		{"PredictedPeak", "", nil},
		{"PredictedPeak", "strategy: Pack", nil},
		{"PredictedPeak", "strategy: spread", refused("strategy", `"spread"`, `"Spread"`, `"Pack"`)},
		{"PredictedPeak", "target: 0", refused("target", "0", "[1, 99]", "write the predicted peak")},
		{"PredictedPeak", "target: 100", refused("target", "100", "[1, 99]")},
		{"PredictedPeak", "missingLoad: Pass", refused("missingLoad", `"Pass"`, `"Requests"`)},
		{"PredictedPeak", "watcherAddress: nowhere", refused("watcherAddress", "nowhere")},

		{"DecisionRecord", "{eventsPerSecond: 1, burst: 1}", nil},
		{"DecisionRecord", "{eventsPerSecond: 10, burst: 100}", nil},
		{"DecisionRecord", "eventsPerSecond: 0", refused("eventsPerSecond", "0", "must be in [1, 10]")},
		{"DecisionRecord", "eventsPerSecond: 11", refused("eventsPerSecond", "11", "[1, 10]")},
		{"DecisionRecord", "burst: 0", refused("burst", "0", "must be in [1, 100]")},
		{"DecisionRecord", "burst: 101", refused("burst", "101", "[1, 100]")},

		{"Peaks", "", nil}, // the file has the models
		{"Peaks", "nodePowerModel: {node-1: {k0: 471.74, k1: -91.5, k2: -0.0718}}", nil},
		{"Peaks", "nodePowerModel: {node-1: {k0: 500, k1: -2, k2: 0.02}}", nil},
		{"Peaks", "nodePowerModels: [{nodeSelector: {node.kubernetes.io/instance-type: m5.large, zone: ''}, k0: 1, k1: 1, k2: 0.01}]", nil},
		{"Peaks", "nodePowerModels: [{k0: 1, k1: 1, k2: 0.01}]", nil},
		{"Peaks", "nodePowerModel: {node-1: {k0: 100, k1: 10, k2: 8}}", refused("nodePowerModel[node-1]", "k0=100 k1=10 k2=8", "in percent, not as a fraction")},
		{"Peaks", "nodePowerModel: {node-1: {k1: 1.0e-300, k2: 1.0e+9}}", refused("nodePowerModel[node-1]", "k2=1e+09", "finite")},
		// The node would be the best one at any load.
		{
			"Peaks", "nodePowerModel: {node-1: {}}",
			[]refusal{{path: "nodePowerModel[node-1].k1", parts: []string{"Required"}}, {path: "nodePowerModel[node-1].k2", parts: []string{"Required"}}},
		},
		{"Peaks", "nodePowerModel: {node-1: {k0: 300, k1: 1}}", refused("nodePowerModel[node-1].k2", "Required", "k0 + k1·e^(k2·x)")},
		{"Peaks", "nodePowerModels: [{k2: 1}]", refused("nodePowerModels[0].k1", "Required")},
		{"Peaks", "nodePowerModels: [{k1: 1.0e+16, k2: 0.01}]", refused("nodePowerModels[0]", "k1=1e+16", "[-1e+15, 1e+15]")},
		{"Peaks", "nodePowerModels: [{nodeSelector: {a b: c}, k1: 1, k2: 0.01}]", refused("nodePowerModels[0].nodeSelector[a b]", `"c"`, "a label that nodes can have")},
		{"Peaks", "nodePowerModels: [{nodeSelector: {a: b c}, k1: 1, k2: 0.01}]", refused("nodePowerModels[0].nodeSelector[a]", `"b c"`, "a label that nodes can have")},
		{"Peaks", "missingLoad: Highest", refused("missingLoad", `"Highest"`, `"Neutral"`)},

		{"LoadThreshold", "", nil},
		{"LoadThreshold", "thresholds: {cpu: 1, memory: 100}", nil},
		{"LoadThreshold", "thresholds: {memory: 90}", nil},
		{"LoadThreshold", "thresholds: {cpu: 0}", refused("thresholds.cpu", "0", "[1, 100]", "write the utilization")},
		{"LoadThreshold", "nodeThresholds: [{nodeSelector: {pool: batch}, cpu: 95}, {nodeSelector: {pool: a}, memory: 1}]", nil},
		{"LoadThreshold", "nodeThresholds: [{nodeSelector: {pool: batch}, cpu: 101}]", refused("nodeThresholds[0].cpu", "101", "[1, 100]")},
		{"LoadThreshold", "nodeThresholds: [{nodeSelector: {pool: batch}}]", refused("nodeThresholds[0]", "must have a nodeSelector, and cpu or memory")},
		{"LoadThreshold", "nodeThresholds: [{cpu: 90}]", refused("nodeThresholds[0]", "must have a nodeSelector")},
		{"LoadThreshold", "nodeThresholds: [{nodeSelector: {a b: c}, cpu: 90}]", refused("nodeThresholds[0].nodeSelector[a b]", "must be a label that nodes can have")},
		{"LoadThreshold", "thresholds: {memory: 101}", refused("thresholds.memory", "101", "[1, 100]")},
		{"LoadThreshold", "windows: {cpu: 1s}", refused("windows.cpu", `"1s"`, "[10s, 1h0m0s]")},
		{"LoadThreshold", "windows: {memory: 2h}", refused("windows.memory", `"2h0m0s"`, "[10s, 1h0m0s]")},
		{"LoadThreshold", "window: 0s", refused("window", `"0s"`)}, // once: it is the default of the others
		{"LoadThreshold", "missingLoad: Pass", nil},
		{"LoadThreshold", "missingLoad: Reject", nil},
		{"LoadThreshold", "missingLoad: Neutral", refused("missingLoad", `"Neutral"`, `"Requests"`, `"Pass"`, `"Reject"`)},
		{"LoadThreshold", "statistic: P99", refused("statistic", `"P99"`, `"Mean"`, `"MeanPlusStdDev"`, `"P95"`, `"Max"`, `"PredictedPeak"`)},
		{"LoadThreshold", provider(prometheus) + "statistic: P95", nil},
		{"LoadThreshold", provider(prometheus) + "statistic: Max", nil},
		{"LoadThreshold", "statistic: P95", refused("statistic", `"P95"`, "metricProvider.type Prometheus", "KubernetesMetricsServer has no percentiles")},
		{
			"LoadThreshold", provider(prometheus) + "watcherAddress: http://a\nstatistic: Max",
			refused("statistic", `"Max"`, "no watcherAddress", "a load-watcher service has no percentiles"),
		},
		{"LoadThreshold", provider(prometheus) + "windows: {cpu: 24h, memory: 2h}", nil},
		{"LoadThreshold", provider(datadog) + "windows: {cpu: 24h, memory: 2h}", nil},
		{"LoadThreshold", provider(prometheus) + "windows: {cpu: 25h}", refused("windows.cpu", `"25h0m0s"`, "[10s, 24h0m0s]")},
		{"LoadThreshold", provider(prometheus) + "window: 2h", refused("window", `"2h0m0s"`, "[10s, 1h0m0s]")},
		{
			"LoadThreshold", provider(prometheus) + "watcherAddress: http://a\nwindows: {cpu: 2h}",
			refused("windows.cpu", `"2h0m0s"`, "[10s, 1h0m0s]", "a load-watcher service keeps no longer history"),
		},
		{"LoadThreshold", provider(prometheus) + "statistic: PredictedPeak\nwindows: {cpu: 2h}", refused("windows.cpu", `"2h0m0s"`, "predictedPeak.history")},
		{"LoadThreshold", "statistic: PredictedPeak", nil},
		{"LoadThreshold", "defaultRequests: {cpu: -1}", refused("defaultRequests[cpu]", `"-1"`, "at least 0")},
		{"LoadThreshold", "defaultRequests: {cpu: 1, memory: 1Gi}", nil},
		{"LoadThreshold", "defaultRequests: {mem: 1}", refused("defaultRequests[mem]", `"mem"`, `supported values: "cpu", "memory"`)},
		{"LoadThreshold", "stdDevFactor: 0", nil},
		{"LoadThreshold", "stdDevFactor: -1", refused("stdDevFactor", "-1", "at least 0")},
		{"LoadThreshold", "exempt: {priorityClassNames: [a, '']}", refused("exempt.priorityClassNames[1]", "write one, or remove")},
		{"LoadThreshold", "exempt: {podSelector: {matchExpressions: [{key: k, operator: Equals}]}}", refused("exempt.podSelector.matchExpressions[0].operator", "Equals")},
		{"LoadThreshold", "exempt: {namespaceSelector: {matchLabels: {-k: v}}}", refused("exempt.namespaceSelector.matchLabels", "-k")},
		{"LoadThreshold", "whenNoneFits: Wait", refused("whenNoneFits", `"Wait"`, `"Relax"`, `"Reject"`)},
		{
			"LoadThreshold", "{window: 0s, missingLoad: x, thresholds: {cpu: 0, memory: 0}, windows: {cpu: 1ns, memory: 1ns}}",
			[]refusal{{path: "window"}, {path: "missingLoad"}, {path: "thresholds.cpu"}, {path: "thresholds.memory"}, {path: "windows.cpu"}, {path: "windows.memory"}},
		},

		{"NodeMetrics", metric(""), nil},
		{"NodeMetrics", provider(prometheus), refused("metrics", "at least one metric")},
		{"NodeMetrics", metric("") + "\nwatcherAddress: http://watcher:2020", refused("watcherAddress", "answers no PromQL", "remove it")},
		{"NodeMetrics", metric("query: '" + strings.Repeat("(", 1<<20) + "'"), refused("metrics[0].query", `"1048576 bytes"`, "at most 16384 bytes", "recording rule")},
		{"NodeMetrics", "metrics: [{name: m, query: a, prefer: Lower}]", refused("metricProvider.type", `"KubernetesMetricsServer"`, "must be Prometheus")},
		{"NodeMetrics", metric("name: ' '"), refused("metrics[0].name", "such as http-latency")},
		{"NodeMetrics", provider(prometheus) + "metrics: [" + strings.Repeat("{name: m, query: a, prefer: Lower}, ", 2) + "]", refused("metrics[1].name", "Duplicate", `"m"`)},
		{"NodeMetrics", metric(`query: " \n"`), refused("metrics[0].query", "one series per node")},
		{"NodeMetrics", metric(`query: "sum by (node) (\n  rate(a[5m])\n)\n"`), nil},
		{"NodeMetrics", metric("query: 'topk_avg(3, a) default 0'"), nil}, // another dialect of PromQL
		{"NodeMetrics", metric("query: 'a[5m]'"), refused("metrics[0].query", "range vector", "one series per node", "rate")},
		{"NodeMetrics", metric("query: 1 + 1"), refused("metrics[0].query", "not a scalar")},
		{"NodeMetrics", metric("prefer: ''"), refused("metrics[0].prefer", `"Lower"`, `"Higher"`)},
		{"NodeMetrics", metric("weight: 0"), nil},
		{"NodeMetrics", metric("weight: -1"), refused("metrics[0].weight", "-1", "[0, 1048576]")},
		{"NodeMetrics", metric("weight: 1048577"), refused("metrics[0].weight", "[0, 1048576]")},
		{"NodeMetrics", metric("bounds: {best: 0.05, worst: 2}"), nil},
		{"NodeMetrics", metric("prefer: Higher, bounds: {best: 2, worst: -1}"), nil},
		{"NodeMetrics", metric("bounds: {best: 2, worst: 0.05}"), refused("metrics[0].bounds", "best 2, worst 0.05", "exchange them")},
		{"NodeMetrics", metric("prefer: Higher, bounds: {best: 0, worst: 1}"), refused("metrics[0].bounds", "best 0, worst 1", "exchange them")},
		{"NodeMetrics", metric("bounds: {best: 1, worst: 1}"), refused("metrics[0].bounds", "best and worst must differ")},
		{"NodeMetrics", metric("pending: {perPod: 0.05, window: 10s}"), nil},
		{"NodeMetrics", metric("pending: {perPod: 0}"), refused("metrics[0].pending.perPod", "0", "greater than 0", "in its unit")},
		{"NodeMetrics", metric("pending: {perPod: -1}"), refused("metrics[0].pending.perPod", "-1", "greater than 0")},
		{"NodeMetrics", metric("pending: {perPod: 1, window: 1s}"), refused("metrics[0].pending.window", `"1s"`, "[10s, 1h0m0s]")},
		{"NodeMetrics", metric("pending: {perPod: 1, window: 2h}"), refused("metrics[0].pending.window", `"2h0m0s"`, "[10s, 1h0m0s]")},
		{"NodeMetrics", metric("reject: '>= 0.5'"), nil},
		{"NodeMetrics", metric("reject: '5'"), refused("metrics[0].reject", `"5"`, ">, >=, <, <=", `such as "> 5"`)},
		{"NodeMetrics", metric("reject: '== 5'"), refused("metrics[0].reject", `"== 5"`)},
		{"NodeMetrics", metric("reject: '> much'"), refused("metrics[0].reject", `"> much"`)},
		{"NodeMetrics", metric("reject: '> Inf'"), refused("metrics[0].reject", "finite number")},
		{"NodeMetrics", metric("") + "\nwhenNoneFits: Wait", refused("whenNoneFits", `"Relax"`, `"Reject"`)},
	} {
		t.Run(nameOf(tt.plugin, tt.args), func(t *testing.T) {
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), decoded(t, tt.plugin, tt.args)), tt.want)
		})
	}
}

// changed returns the arguments of a plugin with a value that YAML cannot have.
func changed[A runtime.Object](t *testing.T, plugin, args string, change func(A)) runtime.Object {
	t.Helper()
	object := decoded(t, plugin, args)
	change(object.(A))
	return object
}

func TestValidateArgs_NotFinite(t *testing.T) {
	type (
		packing   = *config.TargetLoadPackingArgs
		variation = *config.LoadVariationRiskBalancingArgs
		risk      = *config.LowRiskOverCommitmentArgs
		threshold = *config.LoadThresholdArgs
		peak      = *config.PredictedPeakArgs
		metrics   = *config.NodeMetricsArgs
		power     = *config.PeaksArgs
	)
	nan, inf := math.NaN(), math.Inf(1)
	model := func(m config.PowerModel) runtime.Object {
		return changed(t, "Peaks", "", func(a power) { a.NodePowerModel = map[string]config.PowerModel{"n": m} })
	}
	bounds := func(best, worst float64) runtime.Object {
		return changed(t, "NodeMetrics", metric(""), func(a metrics) { a.Metrics[0].Bounds = &config.MetricBounds{Best: best, Worst: worst} })
	}
	for _, tt := range []struct {
		args runtime.Object
		want []refusal
	}{
		{changed(t, "TargetLoadPacking", "", func(a packing) { a.MaxLimitRequestRatio = nan }), refused("maxLimitRequestRatio", "at least 1")},
		{changed(t, "TargetLoadPacking", "", func(a packing) { a.MaxLimitRequestRatio = inf }), refused("maxLimitRequestRatio", "finite")},
		{changed(t, "TargetLoadPacking", "", func(a packing) { a.DriftTolerance = nan }), refused("driftTolerance", "NaN", "above 0")},
		{changed(t, "TargetLoadPacking", "", func(a packing) { a.DriftTolerance = inf }), refused("driftTolerance", "+Inf", "finite")},
		{changed(t, "LoadVariationRiskBalancing", "", func(a variation) { a.SafeVarianceMargin = nan }), refused("safeVarianceMargin", "NaN", "at least 0")},
		{changed(t, "LoadVariationRiskBalancing", "", func(a variation) { a.SafeVarianceMargin = inf }), refused("safeVarianceMargin", "+Inf", "finite")},
		{changed(t, "LoadVariationRiskBalancing", "", func(a variation) { a.SafeVarianceSensitivity = nan }), refused("safeVarianceSensitivity", "NaN", "at least 0")},
		{changed(t, "LoadVariationRiskBalancing", "", func(a variation) { a.SafeVarianceSensitivity = inf }), refused("safeVarianceSensitivity", "+Inf", "finite")},
		{changed(t, "LowRiskOverCommitment", "", func(a risk) { a.RiskLimitWeights["cpu"] = nan }), refused("riskLimitWeights[cpu]", "NaN", "[0, 1]")},
		{changed(t, "LoadThreshold", "", func(a threshold) { a.StdDevFactor = nan }), refused("stdDevFactor", "NaN")},
		{changed(t, "LoadThreshold", "", func(a threshold) { a.StdDevFactor = inf }), refused("stdDevFactor", "+Inf", "finite")},
		{changed(t, "LoadThreshold", "", func(a threshold) { a.PredictedPeak.Deviations = nan }), refused("predictedPeak.deviations", "at least 0")},
		{changed(t, "PredictedPeak", "", func(a peak) { a.Deviations = nan }), refused("deviations", "at least 0")},
		{changed(t, "PredictedPeak", "", func(a peak) { a.Unknown.RequestMultiplier = inf }), refused("unknown.requestMultiplier", "finite")},
		{bounds(nan, 1), refused("metrics[0].bounds", "finite")},
		{bounds(0, inf), refused("metrics[0].bounds", "finite")},
		{changed(t, "NodeMetrics", metric("pending: {perPod: 1}"), func(a metrics) { a.Metrics[0].Pending.PerPod = inf }), refused("metrics[0].pending.perPod", "greater than 0")},
		{model(config.PowerModel{K1: 1, K2: nan}), refused("nodePowerModel[n]", "k2=NaN", "finite")},
		{model(config.PowerModel{K0: -inf, K1: 1, K2: 0.01}), refused("nodePowerModel[n]", "k0=-Inf", "finite")},
	} {
		checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), tt.args), tt.want)
	}
	check.Error(t, validation.ValidatePowerModels(nil, map[string]config.PowerModel{"a": {K0: nan, K1: 1, K2: 1}}), "[a]: Invalid value") // of a file
}

// How peaks are predicted is validated alike in the arguments of PredictedPeak and of LoadThreshold.
func TestValidatePeakSpec(t *testing.T) {
	for _, tt := range []struct {
		spec string
		want []refusal
	}{
		{"{history: 10m, minHistory: 10m}", nil},
		{"{history: 720h}", nil},
		{"{history: 9m}", refused("history", `"9m0s"`, "[10m0s, 720h0m0s]", "such as 24h")},
		{"{history: 721h}", refused("history", `"721h0m0s"`)},
		{"{minHistory: 0s}", nil},
		{"{minHistory: -1ns}", refused("minHistory", "at least 0", "such as 30m")},
		{"{minHistory: 25h}", refused("minHistory", `"25h0m0s"`, "at most history (24h0m0s)")},
		{"{workloadLabel: app.kubernetes.io/name}", nil},
		{"{workloadLabel: a b}", refused("workloadLabel", `"a b"`, "key of a label, such as app.kubernetes.io/name")},
		{"{deviations: 0}", nil},
		{"{deviations: -1}", refused("deviations", "-1", "at least 0", "write 0")},
		{"{unknown: {requestMultiplier: 0}}", refused("unknown.requestMultiplier", "0", "above 0", "such as 1.5")},
		{"{unknown: {default: {}}}", nil},
		{"{unknown: {default: {memory: -1}}}", refused("unknown.default[memory]", `"-1"`, "at least 0")},
		{"{maxLimitRequestRatio: 0.5}", refused("maxLimitRequestRatio", "0.5", "at least 1")},
		// minHistory is not compared with a wrong history.
		{
			"{history: 0s, workloadLabel: /, deviations: -1, maxLimitRequestRatio: 0}",
			[]refusal{{path: "history"}, {path: "workloadLabel"}, {path: "deviations"}, {path: "maxLimitRequestRatio"}},
		},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			path, below := field.NewPath("args"), slices.Clone(tt.want)
			checkRefusals(t, validation.ValidateArgs(path, decoded(t, "PredictedPeak", tt.spec)), tt.want)
			for i := range below {
				below[i].path = "predictedPeak." + below[i].path
			}
			checkRefusals(t, validation.ValidateArgs(path, decoded(t, "LoadThreshold", "predictedPeak: "+tt.spec)), below)
		})
	}
}

func TestValidateArgs_WithoutPath(t *testing.T) {
	err := validation.ValidateArgs(nil, decoded(t, "TargetLoadPacking", "metricProvider: {timeout: -1s}"))
	if err == nil || !strings.HasPrefix(err.Error(), "metricProvider.timeout: ") {
		t.Errorf("got %v", err)
	}
}

// loadSpecTest is a test case for the arguments that all plugins share.
type loadSpecTest struct {
	args string
	want []refusal
}

func runLoadSpecTests(t *testing.T, tests []loadSpecTest) {
	t.Helper()
	path := field.NewPath("args")
	for _, tt := range tests {
		for _, plugin := range []string{"TargetLoadPacking", "LoadVariationRiskBalancing"} {
			t.Run(nameOf(plugin, tt.args), func(t *testing.T) {
				args := decoded(t, plugin, tt.args)
				errs := []error{validation.ValidateArgs(path, args), validation.ValidateCredentials(path, config.LoadSpecOf(args))}
				checkRefusals(t, utilerrors.Flatten(utilerrors.NewAggregate(errs)), tt.want)
			})
		}
	}
}

// watcherAddress and the address of Prometheus follow the same rules.
func TestValidateLoadSpec_Addresses(t *testing.T) {
	shape := []string{"http:// or https:// URL with a host", "write one such as"}
	var tests []loadSpecTest
	for _, tt := range []struct {
		address string
		parts   []string
	}{
		{"http://prometheus:9090", nil},
		{"https://prometheus", nil},
		{"https://mimir.example.com:8443/prometheus/", nil},
		{"http://[fd00::1]:9090", nil},
		{"/prometheus", append(shape, `"/prometheus"`)},
		{"ftp://prometheus:9090", append(shape, `"ftp://prometheus:9090"`)},
		{"prometheus:9090", append(shape, `"prometheus:9090"`)},
		{"10.0.0.1:9090", shape},
		{"prometheus", shape},
		{"http://", shape},
		{"http://:9090", shape},
		{" http://prometheus", shape},
		{"http://prometheus\n", shape},
		{"http://prometheus:http", shape},
		{"http://prometheus:90900", []string{"[1, 65535]", "such as"}},
		// What may be a secret is hidden.
		{"https://admin:hunter2@prometheus", []string{`"https://<redacted>"`, "user name or password", "tokenFile"}},
		{"admin:hunter2@prometheus", append(shape, "<redacted>")},
		{"https://admin:hunter2#%@prometheus", append(shape, "<redacted>")},
		{"https://prometheus/?token=hunter2", []string{`"https://<redacted>"`, "query or fragment", "end it before"}},
		{"https://prometheus/?", []string{"query or fragment"}},
		{"https://prometheus/#hunter2", []string{"query or fragment"}},
		{"https://prometheus/#", []string{"query or fragment"}},
	} {
		watcher := loadSpecTest{args: fmt.Sprintf("watcherAddress: %q", tt.address)}
		address := loadSpecTest{args: provider("type: Prometheus", fmt.Sprintf("address: %q", tt.address))}
		if tt.parts != nil {
			watcher.want, address.want = refused("watcherAddress", tt.parts...), refused("metricProvider.address", tt.parts...)
		}
		tests = append(tests, watcher, address)
	}
	runLoadSpecTests(t, tests)
}

func TestValidateLoadSpec_MetricProvider(t *testing.T) {
	const watcher = "watcherAddress: http://load-watcher:2020\n"
	queryOf := func(bytes int) string { return strings.Repeat("u", bytes) }
	runLoadSpecTests(t, []loadSpecTest{
		{provider(prometheus), nil},
		{provider("type: Prometheus"), refused("metricProvider.address", "Required", "type Prometheus needs the server's URL", `"http://prometheus.monitoring.svc:9090"`)},
		{provider("address: 'prometheus:9090'"), refused("metricProvider.address", `"prometheus:9090"`, "http://")}, // the type may have been forgotten
		{provider("type: Prometeus"), refused("metricProvider.type", `"Prometeus"`, `"KubernetesMetricsServer"`, `"Prometheus"`, `"SignalFx"`, `"Datadog"`)},
		{provider(signalFx), nil},
		{provider("type: SignalFx"), refused("metricProvider.tokenFile", "Required", "type SignalFx needs an access token with the scope API")},
		{provider(datadog), nil},
		{provider(datadog, "dialect: DatadogAgent, clusterName: eu/prod_1, hostNameSuffix: -eu.example.com, queries: {cpu: 'avg:my.cpu{$filter} by {host}'}"), nil},
		{provider("type: Datadog"), []refusal{
			{path: "metricProvider.tokenFile", parts: []string{"Required", "type Datadog needs an API key"}},
			{path: "metricProvider.applicationKeyFile", parts: []string{"Required", "an application key with the scope timeseries_query"}},
		}},
		{provider("type: Datadog, token: a, applicationKey: a hunter2"), refused("metricProvider.applicationKey", "printable ASCII")},
		{provider(datadog, "applicationKeyFile: /does/not/exist"), []refusal{
			{path: "metricProvider.applicationKeyFile", parts: []string{"Forbidden", "must not be set together with applicationKey"}},
			{path: "metricProvider.applicationKeyFile", parts: []string{"with the application key", "no such file"}},
		}},
		{provider("type: Datadog, token: a, applicationKey: <redacted>"), refused("metricProvider.applicationKey", "put the application key back, or use applicationKeyFile")},
		{provider("type: datadog, token: a, applicationKey: a"), refused("metricProvider.type", `"datadog"`, `"Datadog"`)},
		{provider(datadog, "nodeLabels: [my_host]"), refused("metricProvider.nodeLabels", "Forbidden", "with type Prometheus", `"Datadog"`, "group custom queries by that tag")},
		{provider(signalFx, "dialect: NodeExporter"), refused("metricProvider.dialect", `"NodeExporter"`, `supported values: "Auto"`)},
		{provider(datadog, "dialect: Kubelet"), refused("metricProvider.dialect", `"Kubelet"`, `"Auto"`, `"Utilization"`, `"DatadogAgent"`)},
		{provider(prometheus, "dialect: DatadogAgent"), refused("metricProvider.dialect", `"DatadogAgent"`, `"cAdvisor"`)},
		{provider(prometheus, "dialect: CAdvisor"), refused("metricProvider.dialect", `"CAdvisor"`, `"Auto"`, `"NodeExporter"`, `"KubePrometheus"`, `"Kubelet"`, `"cAdvisor"`)},
		{provider(signalFx, "clusterName: a OR b, hostNameSuffix: '*'"), []refusal{
			{path: "metricProvider.clusterName", parts: []string{`"a OR b"`, "letters, digits and . _ - /"}}, {path: "metricProvider.hostNameSuffix", parts: []string{`"*"`}},
		}},
		{provider(signalFx, "clusterName: "+strings.Repeat("x", 257)), refused("metricProvider.clusterName", `"257 bytes"`, "at most 256 bytes")},
		{provider(prometheus, "clusterName: a, hostNameSuffix: b, applicationKey: c"), []refusal{
			{path: "metricProvider.clusterName", parts: []string{"Forbidden", "with the types SignalFx and Datadog", `"Prometheus"`}},
			{path: "metricProvider.hostNameSuffix", parts: []string{"Forbidden"}},
			{path: "metricProvider.applicationKeyFile", parts: []string{"Forbidden", "with type Datadog alone"}},
		}},
		{provider(signalFx, "address: api.us1.signalfx.com"), refused("metricProvider.address", "https://api.us1.signalfx.com")},
		{provider(signalFx, "queries: {cpu: "+queryOf(4<<10+1)+"}"), refused("metricProvider.queries.cpu", `"4097 bytes"`, "at most 4096 bytes", "write a shorter query")},

		// With a load-watcher service, the provider is not used. Its fields must not be invalid.
		{watcher + provider("type: Prometheus"), nil},
		{watcher + provider("type: SignalFx"), nil},
		{
			watcher + provider("type: Graphite, address: 'prometheus:9090', dialect: x"),
			[]refusal{{path: "metricProvider.type"}, {path: "metricProvider.address"}, {path: "metricProvider.dialect"}},
		},
		{
			watcher + provider("token: a hunter2, caFile: /does/not/exist, timeout: 0s"),
			[]refusal{{path: "metricProvider.token"}, {path: "metricProvider.timeout"}, {path: "metricProvider.caFile"}},
		},

		{provider(prometheus, "queries: {cpu: a}"), nil},
		{provider(prometheus, "queries: {memory: a}"), nil},
		{provider(prometheus, "queries: {}"), refused("metricProvider.queries", "Required", "set cpu, memory, or both", "remove queries")},
		{provider(prometheus, `queries: {cpu: " \n", memory: a}`), refused("metricProvider.queries.cpu", `" \n"`, "PromQL expression", "leave the field out")},
		{
			provider("queries: {cpu: a}"),
			refused("metricProvider.queries", "Forbidden", "the types Prometheus, SignalFx and Datadog", `"KubernetesMetricsServer"`, "remove them or set the type"),
		},
		{provider(prometheus, "queries: {cpu: "+queryOf(16<<10)+"}"), nil},
		{provider(prometheus, "queries: {memory: "+queryOf(16<<10+1)+"}"), refused("metricProvider.queries.memory", `"16385 bytes"`, "at most 16384 bytes", "recording rule")},
		{provider(prometheus, `selector: '{namespace="a", job=~"b|c", pod!=""}'`), nil},
		{provider(prometheus, `selector: 'namespace="a"'`), refused("metricProvider.selector", "label matchers of PromQL in braces", "parse error")},
		{provider(prometheus, `selector: 'node_load1{namespace="a"}'`), refused("metricProvider.selector", "without a metric, offset or @")},
		{provider(prometheus, `selector: '{namespace="a"} offset 5m'`), refused("metricProvider.selector", "without a metric, offset or @")},
		{provider(prometheus, `selector: 'sum({namespace="a"})'`), refused("metricProvider.selector", "without a metric, offset or @")},
		{provider(prometheus, "selector: "+queryOf(16<<10+1)), refused("metricProvider.selector", `"16385 bytes"`)},
		{provider(`selector: '{namespace="a"}'`), refused("metricProvider.selector", "Forbidden", "type Prometheus")},
		{provider(prometheus, "nodeLabels: []"), refused("metricProvider.nodeLabels", "Required", "at least one label", "leave the field out")},
		{provider(prometheus, "nodeLabels: [node, kubernetes.io/hostname, '', 1st, _ok1]"), []refusal{
			{path: "metricProvider.nodeLabels[1]", parts: []string{`"kubernetes.io/hostname"`, "letter or underscore", "such as k8s_node_name"}},
			{path: "metricProvider.nodeLabels[2]", parts: []string{`""`}}, {path: "metricProvider.nodeLabels[3]", parts: []string{`"1st"`}},
		}},
		{provider(prometheus, "nodeLabels: [node, instance, node]"), refused("metricProvider.nodeLabels[2]", "Duplicate", `"node"`)},
	})
}

func TestValidateLoadSpec_Credentials(t *testing.T) {
	dir := t.TempDir()
	pipe, missing, certificate := filepath.Join(dir, "pipe"), filepath.Join(dir, "missing"), newCertificate(t)
	check.OK(t, syscall.Mkfifo(pipe, 0o600))
	files := 0
	file := func(content string) string {
		files++
		path := filepath.Join(dir, fmt.Sprint(files))
		check.OK(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	block := func(kind, content string) string {
		return file(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(content)})))
	}
	token := func(token string) string { return provider(fmt.Sprintf("token: %q", token)) }
	tokenFile := func(path string) string { return provider("tokenFile: " + path) }
	caFile := func(path string) string { return provider("caFile: " + path) }
	prometheus := func(fields ...string) string {
		return provider(append(fields, "type: Prometheus", "address: http://prometheus")...)
	}
	tokenRule := []string{"printable ASCII characters without blanks and line breaks", "write the token alone"}
	runLoadSpecTests(t, []loadSpecTest{
		{token("eyJhbGciOi.hunter2-_~+/=="), nil},
		{token(secret + "\n"), refused("metricProvider.token", append(tokenRule, "<redacted>")...)},
		{token("a\r\nX-Evil: " + secret), refused("metricProvider.token", tokenRule...)},
		{token("Bearer " + secret), refused("metricProvider.token", append(tokenRule, `without "Bearer"`)...)},
		{token(secret + "\x00"), refused("metricProvider.token", tokenRule...)},
		{token(secret + "é"), refused("metricProvider.token", tokenRule...)},
		{token("  "), refused("metricProvider.token", tokenRule...)},
		{token("<redacted>"), refused("metricProvider.token", "in place of the token", "put the token back")}, // of a written configuration
		{tokenFile(file(secret + "\n")), nil},
		{tokenFile(missing), refused("metricProvider.tokenFile", missing, "no such file", "mount the file or correct the path")},
		{tokenFile(dir), refused("metricProvider.tokenFile", dir, "not a regular file")},
		{tokenFile(pipe), refused("metricProvider.tokenFile", "not a regular file")}, // and does not block
		{tokenFile(file("")), refused("metricProvider.tokenFile", "is empty", "or write it")},
		{tokenFile(file("\n\n")), refused("metricProvider.tokenFile", "is empty")},
		{tokenFile(file(secret + "\n" + secret)), refused("metricProvider.tokenFile", append(tokenRule, "the token in it")...)},
		{tokenFile(file(strings.Repeat("a", 64<<10+1))), refused("metricProvider.tokenFile", "more than 65536 bytes")},
		{provider("token: hunter2", "tokenFile: "+file(secret)), refused("metricProvider.tokenFile", "Forbidden", "together with token", "remove one")},
		{caFile(file(certificate)), nil},
		{caFile(file("# first\n" + certificate + "# second\n" + certificate)), nil},
		{caFile(missing), refused("metricProvider.caFile", missing, "no such file", "mount the file or correct the path")},
		{caFile(file("")), refused("metricProvider.caFile", "at least one PEM certificate", "name the bundle")},
		{caFile(file("no certificate")), refused("metricProvider.caFile", "at least one PEM certificate")},
		{caFile(block("PRIVATE KEY", secret)), refused("metricProvider.caFile", "at least one PEM certificate")},
		{caFile(block("CERTIFICATE", "junk")), refused("metricProvider.caFile", "at least one PEM certificate")},

		{prometheus("httpConfigFile: " + file("follow_redirects: false")), nil},
		{prometheus("httpConfigFile: " + missing), refused("metricProvider.httpConfigFile", missing, "no such file")},
		{prometheus("httpConfigFile: " + file("basic_auth: {password: hunter2, pasword: x}")),
			refused("metricProvider.httpConfigFile", "HTTP client configuration", "field pasword not found")},
		{prometheus("tokenFile: "+file("token"), "httpConfigFile: "+file("{}")),
			refused("metricProvider.httpConfigFile", "must not be set together with", "tokenFile")},
		{prometheus("insecureSkipVerify: true", "httpConfigFile: "+file("{}")), refused("metricProvider.httpConfigFile", "insecureSkipVerify")},
		{"watcherAddress: http://load-watcher:2020\n" + prometheus("httpConfigFile: "+file("{}")), refused("metricProvider.httpConfigFile", "without watcherAddress")},
		{"metricProvider: {httpConfigFile: " + file("{}") + "}", refused("metricProvider.httpConfigFile", "with type Prometheus")},

		{prometheus("podsFromMetricsServer: true"), nil},
		{"metricProvider: {podsFromMetricsServer: true}", refused("metricProvider.podsFromMetricsServer", "with type Prometheus", "anyway")},
		{"watcherAddress: http://load-watcher:2020\n" + prometheus("podsFromMetricsServer: true"),
			refused("metricProvider.podsFromMetricsServer", "without watcherAddress")},
	})
}

func newCertificate(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der := check.Value(x509.CreateCertificate(rand.Reader, template, template, public, private))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestValidateLoadSpec_Timing(t *testing.T) {
	timing := func(window, refreshInterval, maxAge, timeout string) string {
		return fmt.Sprintf("{window: %s, refreshInterval: %s, maxAge: %s, metricProvider: {timeout: %s}}", window, refreshInterval, maxAge, timeout)
	}
	runLoadSpecTests(t, []loadSpecTest{
		{timing("10s", "1s", "1s", "1s"), nil},
		{timing("1h", "30s", "5m", "10s"), nil},
		{timing("9s", "30s", "5m", "10s"), refused("window", `"9s"`, "[10s, 1h0m0s]", "such as 5m")},
		{timing("1h1s", "30s", "5m", "10s"), refused("window", `"1h0m1s"`, "[10s, 1h0m0s]")},
		{timing("-5m", "30s", "5m", "10s"), refused("window", `"-5m0s"`)},
		{timing("5m", "0s", "5m", "10s"), refused("refreshInterval", `"0s"`, "at least 1s", "at most maxAge", "such as 30s")},
		{timing("5m", "500ms", "5m", "10s"), refused("refreshInterval", `"500ms"`, "at least 1s")},
		{timing("5m", "10m", "5m", "10s"), refused("refreshInterval", `"10m0s"`, "at most maxAge (5m0s)", "lower refreshInterval or raise maxAge")},
		{timing("5m", "30s", "0s", "10s"), refused("maxAge", `"0s"`, "at least 1s", "such as 5m")}, // other fields are not compared with it
		{timing("5m", "30s", "-1m", "10s"), refused("maxAge", `"-1m0s"`)},
		{timing("5m", "30s", "5m", "0s"), refused("metricProvider.timeout", `"0s"`, "more than 0", "such as 10s")},
		{timing("5m", "30s", "5m", "-1s"), refused("metricProvider.timeout", `"-1s"`, "more than 0")},
		{timing("5m", "30s", "5m", "5m"), nil},
		{timing("5m", "30s", "5m", "6m"), refused("metricProvider.timeout", `"6m0s"`, "at most maxAge (5m0s)", "lower timeout or raise maxAge")},
		{"driftTolerance: 0.1", nil},
		{"driftTolerance: 0", refused("driftTolerance", "0", "above 0", "such as 10")},
		{"driftTolerance: -1", refused("driftTolerance", "-1", "above 0")},
	})
}

// profiled returns a configuration with one profile of each list of arguments. Arguments have the name of their plugin.
func profiled(profiles ...[]kubeschedulerconfig.PluginConfig) *kubeschedulerconfig.KubeSchedulerConfiguration {
	c := &kubeschedulerconfig.KubeSchedulerConfiguration{}
	for _, plugins := range profiles {
		c.Profiles = append(c.Profiles, kubeschedulerconfig.KubeSchedulerProfile{PluginConfig: plugins})
	}
	return c
}

func TestValidatePluginConfigs_Files(t *testing.T) {
	for args, valid := range map[string]bool{"metricProvider: {caFile: /does/not/exist}": true, "targetUtilization: 150": false} {
		c := profiled([]kubeschedulerconfig.PluginConfig{{Name: "TargetLoadPacking", Args: decoded(t, "TargetLoadPacking", args)}})
		check.Error(t, validation.ValidatePluginConfigs(c, true), "profiles[0].pluginConfig[0].args."+strings.Trim(strings.Split(args, " ")[0], ":"))
		if err := validation.ValidatePluginConfigs(c, false); (err == nil) != valid {
			t.Errorf("%s: without the files of the scheduler's pod: %v, want it to be valid: %v", args, err, valid)
		}
	}
}

func TestValidatePluginConfigs(t *testing.T) {
	type plugins = []kubeschedulerconfig.PluginConfig
	of := func(plugin, args string) kubeschedulerconfig.PluginConfig {
		return kubeschedulerconfig.PluginConfig{Name: plugin, Args: decoded(t, plugin, args)}
	}
	stock := kubeschedulerconfig.PluginConfig{Name: "NodeAffinity", Args: &kubeschedulerconfig.NodeAffinityArgs{}}
	foreign, ours := kubeschedulerconfig.PluginConfig{Name: "Foreign", Args: &runtime.Unknown{}}, of("TargetLoadPacking", "")
	for _, tt := range []struct {
		name     string
		profiles []plugins
		want     []string
	}{
		{"no profile is accepted", nil, nil},
		{"good arguments are accepted, other plugins' are left alone", []plugins{{stock, foreign, ours}}, nil},
		{
			"bad arguments of all profiles are reported with their paths from the top",
			[]plugins{{stock, of("TargetLoadPacking", "targetUtilization: 150")}, {}, {of("LoadVariationRiskBalancing", "{safeVarianceMargin: -1, missingLoad: x}")}},
			[]string{
				"profiles[0].pluginConfig[1].args.targetUtilization: Invalid value: 150: must be in [1, 99]",
				`profiles[2].pluginConfig[0].args.missingLoad: Unsupported value: "x"`,
				"profiles[2].pluginConfig[0].args.safeVarianceMargin: Invalid value: -1",
			},
		},
		{
			"arguments of a plugin without load are validated", []plugins{{of("DecisionRecord", "burst: 0")}},
			[]string{"profiles[0].pluginConfig[0].args.burst: Invalid value: 0"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := validation.ValidatePluginConfigs(profiled(tt.profiles...), true)
			if len(tt.want) == 0 {
				check.OK(t, err)
				return
			}
			if aggregate, ok := errors.AsType[utilerrors.Aggregate](err); !ok || len(aggregate.Errors()) != len(tt.want) {
				t.Fatalf("%T, want an aggregate of %d errors: %v", err, len(tt.want), err)
			}
			check.Contains(t, err.Error(), tt.want...)
			check.Lacks(t, err.Error(), "\n", secret)
		})
	}
}
