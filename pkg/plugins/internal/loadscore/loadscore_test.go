package loadscore_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

type scores = map[string]int64

// percent is a plugin that scores a node by its CPU utilization in percent, so expected scores are obvious.
type percent struct {
	*loadscore.Extensions[string]
	// score replaces the utilization if it is set.
	score *float64
}

func (pl *percent) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	cpu := s.View.Resource(node, load.CPU)
	return pl.NodeScore(s, ptr.Deref(pl.score, 100*cpu.Utilization(s.PodUsage[load.CPU])), cpu.State, cpu.State), nil
}

var pod = st.MakePod().Name("p").Obj()

func nodeInfo(name, cpu string, pods ...*corev1.Pod) fwk.NodeInfo {
	return plugintest.Node(name, plugintest.CPU(cpu), pods...)
}

func measure(p *plugintest.Loads, cpu map[string]float64) {
	nodes := map[string]load.NodeLoad{}
	for name, mean := range cpu {
		nodes[name] = load.NodeLoad{load.CPU: plugintest.Measurement(mean, 0)}
	}
	p.Measure(nodes, nil)
}

func loadsOf(cpu map[string]float64) *plugintest.Loads {
	p := plugintest.NewLoads()
	measure(p, cpu)
	return p
}

// counting expects nothing of any pod, and counts how often it is asked.
type counting struct{ asked int }

func (c *counting) Estimate(*corev1.Pod) podusage.Amounts { c.asked++; return podusage.Amounts{} }
func (c *counting) PendingUsage(*corev1.Pod) (usage, byDefault podusage.Amounts) {
	return usage, byDefault
}
func (c *counting) Explain(*corev1.Pod) (x [load.ResourceCount]podusage.Breakdown) { return x }

func newPercent(loads *plugintest.Loads, missingLoad config.MissingLoad) *percent {
	return newCounted(loads, missingLoad, &counting{}, plugintest.Counters())
}

func newCounted(
	loads *plugintest.Loads, missingLoad config.MissingLoad, estimator podusage.Estimator, c descriptor.Counters,
) *percent {
	in := descriptor.Inputs{Reader: loads.ReaderOver(estimator), Deps: descriptor.Deps{Counters: c}}
	return &percent{Extensions: loadscore.New[string]("Percent", in, missingLoad)}
}

func TestExtensions_MissingLoad(t *testing.T) {
	// The node without load has a pod that requests 1 of its 4 cores: 25 % by requests.
	unknown := nodeInfo("unknown", "4", st.MakePod().Name("a").Req(plugintest.CPU("1")).Obj())
	nodes := []fwk.NodeInfo{nodeInfo("a", "4"), unknown, nodeInfo("b", "4")}
	measured := map[string]float64{"a": 0.5, "b": 0.75}

	for _, tc := range []struct {
		name        string
		missingLoad config.MissingLoad
		cpu         map[string]float64
		want        scores
	}{
		{"a node without load is scored by requests", config.MissingLoadRequests, measured, scores{"a": 50, "unknown": 25, "b": 75}},
		// (50 + 75) / 2 = 62.5, rounded up
		{"a node without load gets the mean of the others, if Neutral", config.MissingLoadNeutral, measured, scores{"a": 50, "unknown": 63, "b": 75}},
		{"a node without load gets the lowest score, if Lowest", config.MissingLoadLowest, measured, scores{"a": 50, "unknown": 0, "b": 75}},
		{"all nodes score alike when no node has load", config.MissingLoadRequests, nil, scores{"a": 0, "unknown": 0, "b": 0}},
		{"all nodes score alike when no node has load, if Neutral", config.MissingLoadNeutral, nil, scores{"a": 0, "unknown": 0, "b": 0}},
		{"all nodes score alike when the only nodes with load are no candidates, if Neutral", config.MissingLoadNeutral, map[string]float64{"elsewhere": 1}, scores{"a": 0, "unknown": 0, "b": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := plugintest.Scores(t, newPercent(loadsOf(tc.cpu), tc.missingLoad), pod, nodes...)
			check.Equal(t, "scores", tc.want, got)
		})
	}
}

func TestExtensions_PreScore(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	for _, tc := range []struct {
		name string
		cpu  map[string]float64
		want fwk.Code
	}{
		{"scores if some load is known", map[string]float64{"a": 0.5}, fwk.Success},
		{"skips if no load is known", nil, fwk.Skip},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newPercent(loadsOf(tc.cpu), config.MissingLoadRequests)
			status := s.PreScore(ctx, framework.NewCycleState(), pod, nil)
			check.Equal(t, "PreScore", tc.want, status.Code())
		})
	}
}

// What a plugin knows of the pod is asked for once a cycle. A pod that the plugin is skipped for is no decision without load.
func TestExtensions_PodState(t *testing.T) {
	deps := descriptor.NewMetrics(metrics.NewKubeRegistry().MustRegister).For("Percent")
	pl, asked := newCounted(loadsOf(map[string]float64{"a": 0.5}), config.MissingLoadRequests, &counting{}, deps), 0
	pl.SetPodState(func(_ fwk.CycleState, pod *corev1.Pod) (*string, loadscore.Scoring) {
		asked++
		if pod.Name == "skipped" {
			return &pod.Name, loadscore.Never
		}
		return &pod.Name, loadscore.ByLoad
	})
	for _, name := range []string{"scored", "skipped"} {
		state, pod := framework.NewCycleState(), st.MakePod().Name(name).Obj()
		for range 3 {
			if s := pl.PreScoreState(state, pod); *s.Pod != name || s.Skip != (name == "skipped") {
				t.Errorf("pod %s: state %v, skipped %v", name, s.Pod, s.Skip)
			}
		}
		check.Equal(t, fmt.Sprintf("pod %s: PreScore skips", name), name == "skipped", pl.PreScore(t.Context(), state, pod, nil).IsSkip())
	}
	check.Equal(t, "asked times in two cycles", 2, asked)
	decisions := check.Value(testutil.GetCounterMetricValue(deps.Decisions))(t)
	check.Equal(t, "decisions", 2, decisions)
	check.Equal(t, "decisions without load", 0, check.Value(testutil.GetCounterMetricValue(deps.Skipped))(t))
}

func TestExtensions_NodeScore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		scored float64
		want   int64
	}{
		{"half a point rounds up", 77.5, 78},
		{"less than half a point rounds down", 33.3, 33},
		{"nothing is below the lowest score", -3, config.MinNodeScore},
		{"nothing is above the highest score", 101, config.MaxNodeScore},
		{"what is no number is the lowest score", math.NaN(), config.MinNodeScore},
		{"infinity is the highest score", math.Inf(1), config.MaxNodeScore},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := newPercent(loadsOf(map[string]float64{"a": 0}), config.MissingLoadRequests)
			pl.score = &tc.scored
			got := plugintest.Scores(t, pl, pod, nodeInfo("a", "4"))
			check.Equal(t, "score", scores{"a": tc.want}, got)
		})
	}
}

func TestExtensions_EstimatesPodOncePerCycle(t *testing.T) {
	var c counting
	s := newCounted(loadsOf(map[string]float64{"a": 0.5}), config.MissingLoadRequests, &c, plugintest.Counters())
	for cycle := 1; cycle <= 2; cycle++ {
		plugintest.Scores(t, s, pod, nodeInfo("a", "4"), nodeInfo("b", "4"), nodeInfo("c", "4"))
		if c.asked != cycle {
			t.Errorf("after %d cycles the pod was estimated %d times", cycle, c.asked)
		}
	}
}

func TestExtensions_OneSnapshotPerCycle(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	p := loadsOf(map[string]float64{"a": 0.25})
	s := newPercent(p, config.MissingLoadRequests)
	state, node := framework.NewCycleState(), nodeInfo("a", "4")
	score := func(state fwk.CycleState) int64 {
		t.Helper()
		got, status := s.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return got
	}
	check.Require(t, "score", 25, score(state))
	measure(p, map[string]float64{"a": 0.75})
	check.Equal(t, "score in the same cycle as before", 25, score(state))
	check.Equal(t, "score in the next cycle", int64(75), score(framework.NewCycleState()))
}

func TestExtensions_CountsOncePerDecision(t *testing.T) {
	old := load.NodeLoad{load.CPU: plugintest.Measurement(0.5, 0)}
	old[load.CPU].End = old[load.CPU].End.Add(-time.Hour)
	fresh := load.NodeLoad{load.CPU: plugintest.Measurement(0.5, 0)}

	for _, tc := range []struct {
		name  string
		loads map[string]load.NodeLoad
		want  string
	}{
		{"measured load decides", map[string]load.NodeLoad{"a": fresh, "b": fresh, "c": fresh}, counts(2, 0, 0, 0)},
		{"two nodes were never measured", map[string]load.NodeLoad{"a": fresh}, counts(2, 2, 0, 0)},
		{"two nodes were not measured lately", map[string]load.NodeLoad{"a": fresh, "b": old, "c": old}, counts(2, 0, 2, 0)},
		{"both", map[string]load.NodeLoad{"a": fresh, "b": old}, counts(2, 2, 2, 0)},
		{"no load is known", nil, counts(2, 0, 0, 2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			registry, loads := metrics.NewKubeRegistry(), plugintest.NewLoads()
			loads.Measure(tc.loads, nil)
			s := newCounted(loads, config.MissingLoadRequests, &counting{}, descriptor.NewMetrics(registry.MustRegister).For("test"))
			for range 2 {
				plugintest.Scores(t, s, pod, nodeInfo("a", "4"), nodeInfo("b", "4"), nodeInfo("c", "4"))
			}
			check.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(tc.want)))
		})
	}
}

// The scheduler tries a pod of a group for each placement, and for preemption. The next attempt has another object of the pod.
func TestExtensions_CountsOncePerAttempt(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	s := newCounted(loadsOf(map[string]float64{"a": 0.5}), config.MissingLoadRequests, &counting{},
		descriptor.NewMetrics(registry.MustRegister).For("test"))
	for range 2 {
		pod := pod.DeepCopy()
		for range 3 {
			state := minortest.PodGroupCycle(t)
			for _, node := range []string{"a", "b"} {
				s.Score(t.Context(), state, pod, nodeInfo(node, "4"))
			}
		}
	}
	// Both attempts have a node that was never measured.
	check.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(counts(2, 2, 0, 0))))
}

func counts(decisions, absent, expired, skipped int) string {
	return fmt.Sprintf(`
# HELP plimsoll_decisions_total [ALPHA] Placements that the plugin was asked about.
# TYPE plimsoll_decisions_total counter
plimsoll_decisions_total{plugin="test"} %d
# HELP plimsoll_fallback_total [ALPHA] Placements that the plugin did not decide by measured load alone, by reason: a node was never measured (Absent) or not lately (Expired), or no load was known and the plugin left the decision to others (StepAside).
# TYPE plimsoll_fallback_total counter
plimsoll_fallback_total{plugin="test",reason="Absent"} %d
plimsoll_fallback_total{plugin="test",reason="Expired"} %d
plimsoll_fallback_total{plugin="test",reason="StepAside"} %d
`, decisions, absent, expired, skipped)
}

func TestMemo(t *testing.T) {
	memo := loadscore.NewMemo[int]("Plugin")
	state := framework.NewCycleState()
	if got := memo.Lookup(state); got != nil {
		t.Fatalf("%d before any was stored", *got)
	}
	if kept, first := memo.Store(state, new(1)); *kept != 1 || !first {
		t.Fatalf("stored %d, first: %v; want 1 and true", *kept, first)
	}
	if kept, first := memo.Store(state, new(2)); *kept != 1 || first {
		t.Errorf("stored %d, first: %v; want 1 as before, and false", *kept, first)
	}
	clone := state.Clone()
	want := map[string]fwk.CycleState{"the state": state, "a clone": clone, "a clone's clone": clone.Clone()}
	check := func(t *testing.T) {
		for name, s := range want {
			if got := memo.Lookup(s); got == nil || *got != 1 {
				t.Errorf("%s: %v, want 1", name, got)
			}
			check.Equal(t, name+": allocations a lookup", 0.0, testing.AllocsPerRun(100, func() { memo.Lookup(s) }))
		}
	}
	t.Run("a value is found by the state and its clones", check)

	next := framework.NewCycleState()
	if got := memo.Lookup(next); got != nil {
		t.Errorf("the next cycle finds %d", *got)
	}
	if kept, first := memo.Store(next, new(3)); *kept != 3 || !first {
		t.Errorf("the next cycle stored %d, first: %v; want 3 and true", *kept, first)
	}
	t.Run("and still so in the next cycle", check)
}

func TestPacking(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		utilization, target, want float64
	}{
		// (100-40)·0/40 + 40
		{"an idle node scores the target", 0, 40, 40},
		// (100-40)·10/40 + 40
		{"below the target it rises", 10, 40, 55},
		// (100-40)·25/40 + 40
		{"below the target it rises further", 25, 40, 77.5},
		// (100-40)·40/40 + 40
		{"at the target it is highest", 40, 40, 100},
		// 40·(100-50)/(100-40)
		{"beyond the target it falls", 50, 40, 100.0 / 3},
		// 40·(100-100)/(100-40)
		{"a full node scores 0", 100, 40, 0},
		{"an overfull node scores 0", 170, 40, 0},
		// (100-1)·1/1 + 1
		{"the lowest target spreads", 1, 1, 100},
		// 99·(100-99.5)/(100-99)
		{"the highest target packs to the brim", 99.5, 99, 49.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, fmt.Sprintf("Packing(%v, %v)", tc.utilization, tc.target), tc.want, loadscore.Packing(tc.utilization, tc.target),
				cmpopts.EquateApprox(0, 1e-9))
		})
	}
}

func TestPacking_StaysInRange(t *testing.T) {
	for target := 1.0; target <= 99; target++ {
		for utilization := 0.0; utilization <= 200; utilization += 0.5 {
			if got := loadscore.Packing(utilization, target); got < 0 || got > 100 || math.IsNaN(got) {
				t.Fatalf("Packing(%v, %v) = %v, want a score in [0, 100]", utilization, target, got)
			}
		}
	}
}
