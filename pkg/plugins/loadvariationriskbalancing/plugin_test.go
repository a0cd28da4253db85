package loadvariationriskbalancing

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// The types of columns.
type (
	points  = map[string]int64
	loadsOf = map[string]load.NodeLoad
)

func TestScore(t *testing.T) {
	measured := plugintest.Measurement
	pod := func(cpu, memory string) *corev1.Pod {
		return st.MakePod().Req(plugintest.CPUAndMemory(cpu, memory)).Obj()
	}

	// All nodes have 8 cores and 16 GiB, all allocatable, and no pods.
	for _, tc := range []struct {
		name, args string
		load       loadsOf
		pod        *corev1.Pod
		onA        []*corev1.Pod
		want       points
	}{
		// a: (4,000 + 480) / 8,000 = 0.56, halved 0.28. b: (0.56 + 0.3) / 2 = 0.43.
		{
			name: "of two nodes with equal means the steadier is preferred", load: loadsOf{
				"a": {load.CPU: measured(0.5, 0), load.Memory: measured(0.125, 0)},
				"b": {load.CPU: measured(0.5, 0.3), load.Memory: measured(0.125, 0)},
			},
			pod: pod("480m", "0"), want: points{"a": 72, "b": 57},
		},
		// a, memory: (8 + 4) / 16 = 0.75, (0.75 + 0.25) / 2 = 0.5. b, cpu: (4,000 + 80) / 8,000 = 0.51, (0.51 +
		// 0.25) / 2 = 0.38.
		{
			name: "the riskier resource decides", load: loadsOf{
				"a": {load.CPU: measured(0.125, 0), load.Memory: measured(0.5, 0.25)},
				"b": {load.CPU: measured(0.5, 0.25), load.Memory: measured(0.125, 0)},
			},
			pod: pod("80m", "4Gi"), want: points{"a": 50, "b": 62},
		},
		// a: 2·√0.04 = 0.4, (0.26 + 0.4) / 2 = 0.33. b: 0.26 / 2 = 0.13.
		{
			name: "margin and sensitivity are applied", args: "safeVarianceMargin: 2\nsafeVarianceSensitivity: 2",
			load: loadsOf{"a": {load.CPU: measured(0.25, 0.04)}, "b": {load.CPU: measured(0.25, 0)}}, pod: pod("80m", "0"), want: points{"a": 67, "b": 87},
		},
		// a, memory by requests: 10/16 = 0.625, halved 0.3125; cpu 0.25. b, memory: (4 + 10) / 16 = 0.875, halved 0.4375.
		{
			name: "a resource that was not measured is scored by requests",
			load: loadsOf{"a": {load.CPU: measured(0.5, 0)}, "b": {load.Memory: measured(0.25, 0)}}, pod: pod("0", "10Gi"), want: points{"a": 69, "b": 56},
		},
		// a, memory by requests: (10 + 4) / 16 = 0.875, halved 0.4375. b, memory: (4 + 4) / 16 = 0.5, halved 0.25.
		{
			name: "a node whose memory is not known does not win by that",
			load: loadsOf{"a": {load.CPU: measured(0.1, 0)}, "b": {load.CPU: measured(0.1, 0), load.Memory: measured(0.25, 0)}}, pod: pod("0", "4Gi"),
			onA: []*corev1.Pod{st.MakePod().Name("full").Req(plugintest.CPUAndMemory("100m", "10Gi")).Obj()}, want: points{"a": 56, "b": 75},
		},
		// a: (2,000 + 1,000 + 0.8·1,000) / 8,000 = 0.475, halved 0.2375. b: 0.25, halved 0.125 -> 87.5.
		{
			name: "pods that the window does not cover yet count",
			load: loadsOf{"a": {load.CPU: measured(0.25, 0), load.Memory: measured(0, 0)}, "b": {load.CPU: measured(0.25, 0), load.Memory: measured(0, 0)}},
			pod:  pod("0", "0"), onA: []*corev1.Pod{
				st.MakePod().Name("assumed").Req(plugintest.CPUAndMemory("1", "0")).Obj(),
				plugintest.Running(st.MakePod().Name("running").Req(plugintest.CPUAndMemory("1", "0")).Obj(), time.Minute),
				plugintest.Running(st.MakePod().Name("covered").Req(plugintest.CPUAndMemory("1", "0")).Obj(), time.Hour),
			},
			want: points{"a": 76, "b": 88},
		},
		// a: (2,000 + 2·600) / 8,000 = 0.4, halved 0.2. b: (2,000 + 600) / 8,000 = 0.325, halved 0.1625.
		{
			name: "a pod that requests nothing counts the default", args: "defaultRequests: {cpu: 600m}",
			load: loadsOf{"a": {load.CPU: measured(0.25, 0), load.Memory: measured(0, 0)}, "b": {load.CPU: measured(0.25, 0), load.Memory: measured(0, 0)}},
			pod:  pod("0", "0"), onA: []*corev1.Pod{st.MakePod().Name("silent").Container("image").Obj()}, want: points{"a": 80, "b": 84},
		},
		// a: (4,000 + 1,600) / 8,000 = 0.7, halved 0.35. b: 1,600 / 8,000 = 0.2 of cpu, 8/16 = 0.5 of memory, halved 0.25.
		{name: "a node without load is scored by requests", load: loadsOf{"a": {load.CPU: measured(0.5, 0)}}, pod: pod("1600m", "8Gi"), want: points{"a": 65, "b": 75}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "LoadVariationRiskBalancingArgs", tc.args), tc.load)
			size := plugintest.CPUAndMemory("8", "16Gi")
			got := plugintest.Scores(t, pl, tc.pod, plugintest.Node("a", size, tc.onA...), plugintest.Node("b", size))
			check.Equal(t, "scores", tc.want, got)
		})
	}
}

// Utilizations are measured against the capacity, and scored against the allocatable.
func TestScore_Allocatable(t *testing.T) {
	node := plugintest.Node("a", plugintest.CPUAndMemory("8", "16Gi"))
	object := node.Node().DeepCopy()
	object.Status.Allocatable = st.MakeNode().Capacity(plugintest.CPUAndMemory("4", "16Gi")).Obj().Status.Allocatable
	node.SetNode(object)

	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "LoadVariationRiskBalancingArgs", ""),
		loadsOf{"a": {load.CPU: plugintest.Measurement(0.25, 0.05)}})
	got := plugintest.Scores(t, pl, st.MakePod().Req(plugintest.CPU("400m")).Obj(), node)
	// μ = (0.25 · 8,000 + 400) / 4,000 = 0.6; σ = 0.05 · 8,000 / 4,000 = 0.1; risk 0.35.
	check.Equal(t, "score", int64(65), got["a"])
}

// A node that offers nothing is full.
func TestScore_NoAllocatable(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "LoadVariationRiskBalancingArgs", ""),
		loadsOf{"a": {load.CPU: plugintest.Measurement(0.25, 0)}})
	got := plugintest.Scores(t, pl, st.MakePod().Obj(), plugintest.Node("a", nil))
	// μ = 1, σ = 0: risk 0.5.
	check.Equal(t, "score", int64(50), got["a"])
}

func TestScore_Fallbacks(t *testing.T) {
	measured := plugintest.Measurement(0.5, 0)
	for _, tc := range []struct {
		name string
		load load.NodeLoad
		// want are the score and the fallbacks counted with missingLoad Lowest.
		want       int64
		wantAbsent float64
	}{
		// Nothing is requested: the risk is 0.5 / 2.
		{"a node whose resources are both measured is scored", load.NodeLoad{load.CPU: measured, load.Memory: measured}, 75, 0},
		{"a node whose cpu alone is measured is scored, and counted", load.NodeLoad{load.CPU: measured}, 75, 1},
		{"a node whose memory alone is measured is scored, and counted", load.NodeLoad{load.Memory: measured}, 75, 1},
		{"a node of which nothing is measured gets the lowest score, and is counted", load.NodeLoad{}, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loads := plugintest.NewLoads()
			loads.Measure(loadsOf{"n": tc.load, "other": {load.CPU: measured}}, nil)
			deps := loads.Deps()
			deps.Counters = descriptor.NewMetrics(metrics.NewKubeRegistry().MustRegister).For(Name)
			plugin := check.Value(Describe().New(t.Context(), plugintest.Args(t, "LoadVariationRiskBalancingArgs", "missingLoad: Lowest"), plugintest.NewHandle(), deps))(t)
			node := plugintest.Node("n", plugintest.CPUAndMemory("8", "16Gi"))
			check.Equal(t, "score", tc.want, plugintest.Scores(t, plugin.(minor.ScorePlugin), st.MakePod().Obj(), node)["n"])
			check.Equal(t, "decisions with absent load", tc.wantAbsent, check.Value(testutil.GetCounterMetricValue(deps.Counters.Absent))(t))
		})
	}
}

func TestRisk(t *testing.T) {
	for _, tc := range []struct {
		name                                 string
		mu, sigma, margin, sensitivity, want float64
	}{
		{"an idle, steady node has no risk", 0, 0, 1, 1, 0},
		// (0.5 + 0.25) / 2
		{"mean and deviation count alike", 0.5, 0.25, 1, 1, 0.375},
		// (0.5 + 2·0.25) / 2
		{"the margin multiplies the deviation", 0.5, 0.25, 2, 1, 0.5},
		// (0.5 + 0.25^(1/2)) / 2
		{"the sensitivity is a root of the deviation", 0.5, 0.25, 1, 2, 0.5},
		// (0.5 + 0.25^(1/0.5)) / 2 = (0.5 + 0.0625) / 2
		{"a sensitivity below 1 is a power of it", 0.5, 0.25, 1, 0.5, 0.28125},
		{"a sensitivity of 0 switches the deviation off", 0.5, 0.25, 1, 0, 0.25},
		{"a sensitivity of 0 does so for a full deviation as well", 0.5, 1, 1, 0, 0.25},
		{"a margin of 0 switches the deviation off", 0.5, 0.25, 0, 1, 0.25},
		// (1 + 1) / 2
		{"all terms stop at 1", 1.5, 3, 10, 1, 1},
		// (1 + 0) / 2
		{"a full, steady node is half the risk", 1, 0, 1, 1, 0.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := risk(tc.mu, tc.sigma, tc.margin, tc.sensitivity); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("risk(%v, %v, %v, %v) = %v, want %v", tc.mu, tc.sigma, tc.margin, tc.sensitivity, got, tc.want)
			}
		})
	}
}
