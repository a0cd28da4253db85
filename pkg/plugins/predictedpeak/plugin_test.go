package predictedpeak

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// noMemory makes memory count nothing, so that cpu decides.
const noMemory = "unknown: {default: {cpu: 1000m}}\n"

// cpuOf are moments of cpu in milliCPU; of memory nothing is used.
func cpuOf(mean, stdDev float64) [load.ResourceCount]learned.Moments {
	return [load.ResourceCount]learned.Moments{load.CPU: {Mean: mean, Variance: stdDev * stdDev}}
}

func workload(name string) learned.Workload { return learned.Workload{Namespace: "ns", Name: name} }

// statistics are those of the workloads in these tests.
func statistics() map[learned.Workload][load.ResourceCount]learned.Moments {
	return map[learned.Workload][load.ResourceCount]learned.Moments{
		workload("a"): cpuOf(1000, 200), workload("b"): cpuOf(500, 300), workload("v"): cpuOf(1000, 1000),
	}
}

// pod requests cpu, and has a limit unless that is empty. It has an owner unless that is empty.
func pod(name, owner, request, limit string) *corev1.Pod {
	p := st.MakePod().Namespace("ns").Name(name).UID(name).Container("image").Obj()
	if request != "" {
		p.Spec.Containers[0].Resources.Requests = st.MakePod().Req(plugintest.CPU(request)).Obj().Spec.Containers[0].Resources.Requests
	}
	if limit != "" {
		p.Spec.Containers[0].Resources.Limits = st.MakePod().Lim(plugintest.CPU(limit)).Obj().Spec.Containers[0].Resources.Limits
	}
	if owner != "" {
		plugintest.Owned(p, owner)
	}
	return p
}

func covered(p *corev1.Pod) *corev1.Pod { return plugintest.Running(p, time.Hour) }

// three are a pod of a, one of b, and one without history.
func three() []*corev1.Pod {
	return []*corev1.Pod{covered(pod("a-0", "a", "2", "")), covered(pod("b-0", "b", "500m", "1500m")), covered(pod("c", "", "1", ""))}
}

func nodeOf(pods ...*corev1.Pod) *framework.NodeInfo {
	return plugintest.Node("n", plugintest.CPUAndMemory("8", "16Gi"), pods...)
}

func measured(cpu float64) map[string]load.NodeLoad {
	return map[string]load.NodeLoad{"n": {load.CPU: plugintest.Measurement(cpu, 0), load.Memory: plugintest.Measurement(0, 0)}}
}

func newPlugin(t testing.TB, loads *plugintest.Loads, args string) *PredictedPeak {
	t.Helper()
	pl := check.Value(Describe().New(t.Context(), plugintest.Args(t, "PredictedPeakArgs", args), plugintest.NewHandle(), loads.Deps()))(t)
	return pl.(*PredictedPeak)
}

func loadsOf(nodes map[string]load.NodeLoad) *plugintest.Loads {
	loads := plugintest.NewLoads()
	loads.Measure(nodes, nil)
	return loads
}

func TestScore(t *testing.T) {
	// The node offers 8,000 milliCPU. Pods use half of what they request, where that is known. With statistics, in milliCPU:
	//
	//	pod    mean   p95                      excess   variance
	//	a-0   1,000   1,000 + 1.64·200 = 1,328    328     40,000
	//	b-0     500     500 + 1.64·300 =   992    492     90,000
	//	c       500   1.5·1,000        = 1,500  1,000    (1,000/1.64)² = 371,802.5
	for _, tc := range []struct {
		name, args string
		// withoutStatistics leaves the statistics empty.
		withoutStatistics bool
		load              map[string]load.NodeLoad
		on                []*corev1.Pod
		pod               *corev1.Pod
		want              int64
	}{
		// (2,400 + 1,000 + 1,000 + √(40,000 + 90,000 + 40,000)) / 8,000 = 4,812.3 / 8,000 = 0.60154; 20 + 0.8·39.846
		{name: "a pod on the node is the largest", load: measured(0.3), on: three(), pod: pod("p", "a", "2", ""), want: 52},
		// Mean 1,000, p95 3,000. (2,400 + 1,000 + 2,000 + √501,802.5) / 8,000 = 6,108.4 / 8,000 = 0.76355; 20 + 0.8·23.645
		{name: "the pod to place is the largest", load: measured(0.3), on: three(), pod: pod("p", "", "2", ""), want: 39},
		// 708.4 more: 6,816.8 / 8,000 = 0.85209; 20 + 0.8·14.791
		{name: "deviations multiplies the deviation of the others", args: "deviations: 2", load: measured(0.3), on: three(), pod: pod("p", "", "2", ""), want: 32},
		// Excess 1,640: (2,400 + 1,000 + 1,640 + 708.4) / 8,000 = 0.71855; 20 + 0.8·28.145
		{name: "a volatile workload", load: measured(0.3), on: three(), pod: pod("p", "v", "2", ""), want: 43},
		// Excess 1,200: (2,400 + 1,000 + 1,200 + 708.4) / 8,000 = 0.66355; 20 + 0.8·33.645
		{name: "its limit caps the peak", load: measured(0.3), on: three(), pod: pod("p", "v", "2", "2200m"), want: 47},
		// Mean 500, p95 8,000: (2,400 + 500 + 7,500 + 708.4) / 8,000 = 1.38855; 2,000 / 138.855
		{name: "what the node offers caps the peak", load: measured(0.3), on: three(), pod: pod("p", "", "1", "1k"), want: 14},
		// (2,000 + 1,000 + 1,000 + 412.3) / 8,000 = 0.55154; 20 + 0.8·44.846
		{name: "the means of the pods count where less is measured", load: measured(0.1), on: three(), pod: pod("p", "a", "2", ""), want: 56},
		// (2,400 + 1,000 + 1,000 + 1,000 + 412.3) / 8,000 = 0.72654; 20 + 0.8·27.346
		{
			name: "the mean of a pod that the window does not cover is pending", load: measured(0.3),
			on: append(three()[1:], pod("a-0", "a", "2", "")), pod: pod("p", "a", "2", ""), want: 42,
		},
		// a and p: mean 2,000, excess 1,000, variance 371,802.5; b: mean 500, excess 1,000, as much variance;
		// c: mean 1,000, excess 500, variance 92,950.6.
		// (2,400 + 2,000 + 1,000 + √836,555.6) / 8,000 = 6,314.6 / 8,000 = 0.78933; 20 + 0.8·21.067
		{
			name: "without statistics, means are requests and peaks are limits or 1.5 times requests", withoutStatistics: true, load: measured(0.3),
			on: three(), pod: pod("p", "a", "2", ""), want: 37,
		},
		// Mean 1,000, p95 3,000: (2,400 + 1,000 + 2,000) / 8,000 = 0.675; 20 + 0.8·32.5
		{name: "a workload with too little history counts as one without", args: "minHistory: 10h1m", load: measured(0.3), on: nil, pod: pod("p", "v", "2", ""), want: 46},
		// As if it requested 1,000: mean 500, p95 1,500: (2,400 + 500 + 1,000) / 8,000 = 0.4875; 20 + 0.8·51.25
		{name: "a pod without requests counts the default", args: "unknown: {default: {cpu: 1500m}}", load: measured(0.3), on: nil, pod: pod("p", "", "", ""), want: 61},
		{
			name: "a node without load is scored by the means of its pods",
			load: map[string]load.NodeLoad{"other": {load.CPU: plugintest.Measurement(0.3, 0)}}, on: three(), pod: pod("p", "a", "2", ""),
			want: 56, // as with a measured mean of less than their sum
		},
		{name: "and so it is where no node has load", on: three(), pod: pod("p", "a", "2", ""), want: 56},
		// (3,500 + 2,000 + 1,000 + 914.6) / 8,000 = 0.92683; 20 + 0.8·7.317
		{
			name: "without statistics a node without load is scored by requests", withoutStatistics: true,
			load: map[string]load.NodeLoad{"other": {load.CPU: plugintest.Measurement(0.3, 0)}}, on: three(), pod: pod("p", "a", "2", ""), want: 26,
		},
		{name: "without load and statistics nothing is scored", withoutStatistics: true, on: three(), pod: pod("p", "a", "2", ""), want: 0},
		// 60.154 %: 30·60.154/70 + 70 = 95.780; 20 + 0.8·95.780
		{name: "Pack rises to the target", args: "strategy: Pack\ntarget: 70", load: measured(0.3), on: three(), pod: pod("p", "a", "2", ""), want: 97},
		// 50·39.846/50 = 39.846; 20 + 0.8·39.846
		{name: "and falls beyond it", args: "strategy: Pack\ntarget: 50", load: measured(0.3), on: three(), pod: pod("p", "a", "2", ""), want: 52},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loads := loadsOf(tc.load)
			if !tc.withoutStatistics {
				loads.Learn(statistics(), 0.5)
			}
			args := noMemory
			if tc.args != "" {
				args = tc.args + "\n" + noMemory
				if tc.args[:7] == "unknown" {
					args = tc.args
				}
			}
			pl := newPlugin(t, loads, args)
			if got := plugintest.Scores(t, pl, tc.pod, nodeOf(tc.on...))["n"]; got != tc.want {
				state := framework.NewCycleState()
				t.Errorf("score %d, want %d: %+v", got, tc.want, pl.Explain(t.Context(), state, tc.pod, nodeOf(tc.on...)))
			}
		})
	}
}

func TestScore_Memory(t *testing.T) {
	loads := loadsOf(
		map[string]load.NodeLoad{"n": {load.CPU: plugintest.Measurement(0.1, 0), load.Memory: plugintest.Measurement(0.5, 0)}},
	)
	loads.Learn(map[learned.Workload][load.ResourceCount]learned.Moments{
		workload("m"): {load.Memory: {Mean: 1 << 30, Variance: 1 << 60}},
	}, 0)
	// 16 GiB: (8 + 1 + 1.64) / 16 = 0.665; 20 + 0.8·33.5 = 46.8. cpu is at 0.1.
	check.Equal(t, "score", int64(47), plugintest.Scores(t, newPlugin(t, loads, ""), pod("p", "m", "", ""), nodeOf())["n"])
}

// Tenants cannot move others' pods by requests and limits of their own.
func TestScore_Tenants(t *testing.T) {
	bound := func(p *corev1.Pod, ago time.Duration) *corev1.Pod {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(plugintest.Now().Add(-ago)),
		}}
		return covered(p)
	}
	waiting := func(p *corev1.Pod) *corev1.Pod {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
		}
		return p
	}
	for _, tc := range []struct {
		name string
		make func(name string) *corev1.Pod
		want int64
	}{
		// (0.3·8,000 + 1,000 + 328) / 8,000 = 0.466; 20 + 0.8·53.4
		{"no pods", nil, 63},
		// Each: p95 10, mean 0.5. 9.5 + √(99·(9.5/1.64)² + 40,000 − …): the excess of the pod to place stays the largest;
		// √(100·33.6) = 57.9 more: 0.47324; 20 + 0.8·52.676
		{"pods of request 1m and limit 1000 cores count ten times their request", func(name string) *corev1.Pod { return bound(pod(name, "", "1m", "1k"), time.Minute) }, 62},
		{"pods without requests count nothing once they have been there for minHistory", func(name string) *corev1.Pod {
			return bound(pod(name, "", "", ""), 30*time.Minute)
		}, 63},
		{"pods that fail to start count nothing", func(name string) *corev1.Pod { return waiting(bound(pod(name, "", "8", "8"), time.Minute)) }, 63},
		{"pods that have ended count nothing", func(name string) *corev1.Pod {
			p := bound(pod(name, "", "8", "8"), time.Minute)
			p.Status.Phase = corev1.PodSucceeded
			return p
		}, 63},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loads := loadsOf(measured(0.3))
			loads.Learn(statistics(), 0.5)
			var pods []*corev1.Pod
			for i := range 100 {
				if tc.make != nil {
					pods = append(pods, tc.make(fmt.Sprint("tenant-", i)))
				}
			}
			check.Equal(t, "score", tc.want,
				plugintest.Scores(t, newPlugin(t, loads, noMemory), pod("p", "a", "2", ""), nodeOf(pods...))["n"])
		})
	}
}

// A workload's statistics never count more than the node offers.
func TestScore_KnownWorkloadWithinNode(t *testing.T) {
	loads := loadsOf(measured(0))
	loads.Learn(
		map[learned.Workload][load.ResourceCount]learned.Moments{workload("huge"): cpuOf(1e6, 1e6), workload("a"): cpuOf(0, 0)}, 0.5,
	)
	got := newPlugin(t, loads, noMemory).Explain(t.Context(), framework.NewCycleState(), pod("p", "a", "1", ""), nodeOf(covered(pod("h", "huge", "1", "")))).(*Terms)
	// Mean 8,000, p95 8,000.
	check.Equal(t, "peak", 1.0, got.Peak())
}

func TestScore_FollowsStatistics(t *testing.T) {
	loads := loadsOf(measured(0.3))
	pl, node, p := newPlugin(t, loads, noMemory), nodeOf(), pod("p", "a", "2", "")
	score := func(state fwk.CycleState) int64 {
		got, status := pl.Score(t.Context(), state, p, node)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return got
	}
	first := framework.NewCycleState()
	// Mean 2,000, p95 3,000: (2,400 + 3,000) / 8,000 = 0.675; 20 + 0.8·32.5
	check.Equal(t, "score without statistics", int64(46), score(first))
	loads.Learn(statistics(), 0.5)
	check.Equal(t, "score in the same cycle once statistics are known as before", 46, score(first))
	// (2,400 + 1,328) / 8,000 = 0.466; 20 + 0.8·53.4
	check.Equal(t, "score in the next cycle", int64(63), score(framework.NewCycleState()))
	node.AddPod(covered(pod("v-0", "v", "2", "")))
	// (2,400 + 1,000 + 1,640 + 200) / 8,000 = 0.655; 20 + 0.8·34.5
	check.Equal(t, "score with a volatile pod on the node", int64(48), score(framework.NewCycleState()))
	loads.Learn(
		map[learned.Workload][load.ResourceCount]learned.Moments{workload("a"): cpuOf(1000, 200), workload("v"): cpuOf(1000, 0)}, 0.5,
	)
	// The pod to place is the largest again: 63
	check.Equal(t, "score once that is known to be steady", int64(63), score(framework.NewCycleState()))
}

func TestScore_PodGroupCycles(t *testing.T) {
	// The scheduler assumes the pods of a group under the generation that the node had.
	loads := loadsOf(measured(0.3))
	loads.Learn(statistics(), 0.5)
	pl, node, p := newPlugin(t, loads, noMemory), nodeOf(), pod("p", "a", "2", "")
	inGroup := func() fwk.CycleState { return minortest.PodGroupCycle(t) }
	if got, _ := pl.Score(t.Context(), inGroup(), p, node); got != 63 {
		t.Errorf("score %d of the empty node, want 63", got)
	}
	generation := node.Generation
	node.AddPod(pod("v-0", "v", "2", ""))
	node.Generation = generation
	// (2,400 + 1,000 + 1,000 + 1,640 + 200) / 8,000 = 0.78; 20 + 0.8·22
	if got, _ := pl.Score(t.Context(), inGroup(), p, node); got != 38 {
		t.Errorf("score %d with a volatile pod that was just assumed, want 38", got)
	}
}

func TestPreScore(t *testing.T) {
	for _, tc := range []struct {
		name       string
		load       map[string]load.NodeLoad
		statistics bool
		args       string
		wantSkip   bool
	}{
		{name: "nothing is known", wantSkip: true},
		{name: "load is known", load: measured(0.3)},
		{name: "statistics are known", statistics: true},
		{name: "statistics are known, but nodes without load get the lowest score", statistics: true, args: "missingLoad: Lowest", wantSkip: true},
		{name: "statistics are known, but nodes without load get the mean score", statistics: true, args: "missingLoad: Neutral", wantSkip: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			loads := loadsOf(tc.load)
			if tc.statistics {
				loads.Learn(statistics(), 0.5)
			}
			status := newPlugin(t, loads, tc.args).PreScore(ctx, framework.NewCycleState(), pod("p", "a", "1", ""), nil)
			if status.IsSkip() != tc.wantSkip {
				t.Errorf("PreScore: %v, want to skip: %v", status, tc.wantSkip)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	loads := loadsOf(measured(0.3))
	loads.Learn(statistics(), 0.5)
	pl := newPlugin(t, loads, noMemory)
	explained := func(p *corev1.Pod, on ...*corev1.Pod) *Terms {
		return pl.Explain(t.Context(), framework.NewCycleState(), p, nodeOf(on...)).(*Terms)
	}
	terms := explained(pod("p", "a", "2", ""), three()...)
	cpu := &terms.Resources[load.CPU]
	got := map[string]float64{"mean": cpu.Mean(), "excess": cpu.Excess(), "deviation": cpu.Deviation(), "peak": cpu.Peak()}
	want := map[string]float64{"mean": 3400, "excess": 1000, "deviation": math.Sqrt(170000), "peak": (4400 + math.Sqrt(170000)) / 8000}
	check.Equal(t, "terms", want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-3 }))
	check.Equal(t, "pod of the largest excess", "ns/c", terms.Largest[load.CPU])
	check.Equal(t, "pod of the largest excess, want the pod to place", "",
		explained(pod("p", "v", "2", ""), three()...).Largest[load.CPU])
}

func TestExplain_List(t *testing.T) {
	// In percent of 8,000. p, of workload a, has a mean of 1,000. Where statistics are known, a, b and c use 1,000 + 500 + 500. The
	// excess of c is 1,000, and the others' deviation √170,000 = 412.31. Without statistics, requests are means and peaks 1.5 times
	// that: an excess of 1,000 of a-0 and p, and of 500 of c; b's limit is 1,000 above its request. The deviation of b, c and p is
	// √(1,000² + 500² + 1,000²) / 1.64 = 914.63.
	for _, tc := range []struct {
		name, args string
		ratio      float64
		want       []string
	}{
		{"with statistics", "deviations: 2\n", 0.5, []string{
			"cpu measured 30%", "cpu deviation 0%", "cpu pending 0%", "cpu of the pod 12.5%", "cpu of the pods by statistics 25%", "cpu mean 42.5%",
			"cpu largest excess (ns/c) 12.5%", "cpu 2 × deviation of the other pods 10.31%", "cpu predicted peak 65.31%",
		}},
		{"without", "", 0, []string{
			"cpu measured 30%", "cpu deviation 0%", "cpu pending 0%", "cpu of the pod 25%", "cpu mean 55%",
			"cpu largest excess (ns/a-0) 12.5%", "cpu deviation of the other pods 11.43%", "cpu predicted peak 78.93%",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loads := loadsOf(measured(0.3))
			if tc.ratio > 0 {
				loads.Learn(statistics(), tc.ratio)
			}
			pl := newPlugin(t, loads, tc.args+noMemory)
			var listed []string
			for _, term := range pl.Explain(t.Context(), framework.NewCycleState(), pod("p", "a", "2", ""), nodeOf(three()...)).List() {
				if strings.HasPrefix(term.Name, "cpu ") {
					listed = append(listed, term.String())
				}
			}
			check.Equal(t, "list", tc.want, listed)
		})
	}
}

func TestScore_UnmeasuredNodeIsComputedOnce(t *testing.T) {
	loads := plugintest.NewLoads()
	loads.Learn(statistics(), 0.5)
	pl, node, p, state := newPlugin(t, loads, ""), nodeOf(three()...), pod("p", "a", "2", ""), framework.NewCycleState()
	pl.Score(t.Context(), state, p, node)
	check.Equal(t, "allocations per call of Score", 0.0, testing.AllocsPerRun(100, func() { pl.Score(t.Context(), state, p, node) }))
}

func TestSignPod(t *testing.T) {
	pl := newPlugin(t, plugintest.NewLoads(), "")
	sign := func(p *corev1.Pod) any {
		fragments, status := pl.SignPod(t.Context(), p)
		if !status.IsSuccess() || len(fragments) != 1 {
			t.Fatalf("%v, %v", fragments, status)
		}
		return fragments[0].Value
	}
	base := sign(pod("p", "a", "1", "2"))
	if other := sign(pod("q", "a", "1", "2")); other != base {
		t.Errorf("pods of one workload with equal amounts are signed %v and %v", base, other)
	}
	elsewhere := pod("p", "a", "1", "2")
	elsewhere.Namespace = "elsewhere"
	for name, p := range map[string]*corev1.Pod{
		"another namespace": elsewhere, "another workload": pod("p", "b", "1", "2"), "no workload": pod("p", "", "1", "2"), "another request": pod("p", "a", "2", "2"),
		"another limit": pod("p", "a", "1", "3"), "no limit": pod("p", "a", "1", ""),
	} {
		if sign(p) == base {
			t.Errorf("%s: signed alike", name)
		}
	}
}

func TestScore_IsSafeForConcurrentUse(t *testing.T) {
	loads := loadsOf(measured(0.3))
	loads.Learn(statistics(), 0.5)
	pl, node, p := newPlugin(t, loads, noMemory), nodeOf(three()...), pod("p", "a", "2", "")
	stranger := plugintest.Node("stranger", plugintest.CPUAndMemory("8", "16Gi"), three()...)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				state := framework.NewCycleState()
				// 52 and 56 as in TestScore.
				if got, _ := pl.Score(t.Context(), state, p, node); got != 52 {
					t.Errorf("score %d, want 52", got)
				}
				if got, _ := pl.Score(t.Context(), state, p, stranger); got != 56 {
					t.Errorf("score %d of the node without load, want 56", got)
				}
			}
		})
	}
	for range 50 {
		loads.Learn(statistics(), 0.5)
		loads.Measure(measured(0.3), nil)
	}
	group.Wait()
}

func TestLoadLine(t *testing.T) {
	loads := loadsOf(measured(0.25))
	loads.Learn(statistics(), 0.5)
	node := nodeOf(covered(pod("a-0", "a", "2", "")))
	// (0.25 · 8,000 + 1.64 · 200) / 8,000
	const peak = 0.291
	for args, want := range map[string]float64{"strategy: Spread": 0, "strategy: Pack\ntarget: 30": 30, "strategy: Pack\ntarget: 29": 29} {
		l := newPlugin(t, loads, args+"\n"+noMemory).LoadLine(framework.NewCycleState(), node)
		if math.Abs(l.Utilization[load.CPU]-peak) > 1e-6 || l.TargetPercent[load.CPU] != want || l.Percent[load.CPU] != 0 || l.Above[load.CPU] {
			t.Errorf("%s: load line %+v, want a peak of %v, a target of %v and no line", args, l, peak, want)
		}
	}
}

func TestFormula(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		strategy              config.Strategy
		percent, target, want float64
	}{
		{"Spread: an idle node scores 100", config.StrategySpread, 0, 70, 100},
		// 20 + 80·0.5
		{"it falls with the peak", config.StrategySpread, 50, 70, 60},
		{"a peak of 100 percent scores 20", config.StrategySpread, 100, 70, 20},
		// 20/2
		{"one of twice that scores half of it", config.StrategySpread, 200, 70, 10},
		// 20 + 0.8·70
		{"Pack: an idle node scores by the target", config.StrategyPack, 0, 70, 76},
		// 20 + 0.8·(30·35/70 + 70)
		{"it rises to the target", config.StrategyPack, 35, 70, 88},
		{"the target scores 100", config.StrategyPack, 70, 70, 100},
		// 20 + 0.8·70·15/30
		{"it falls beyond", config.StrategyPack, 85, 70, 48},
		{"a peak of 100 percent scores 20, as in Spread", config.StrategyPack, 100, 70, 20},
		{"and so does what is above", config.StrategyPack, 200, 70, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, fmt.Sprintf("Score(%s, %v, %v)", tc.strategy, tc.percent, tc.target), tc.want,
				Score(tc.strategy, tc.percent, tc.target), cmpopts.EquateApprox(0, 1e-9))
		})
	}
}

func TestFormula_Properties(t *testing.T) {
	for _, strategy := range []config.Strategy{config.StrategySpread, config.StrategyPack} {
		for target := 1.0; target <= 99; target++ {
			last := math.Inf(1)
			for percent := 0.0; percent <= 1000; percent += 0.5 {
				got := Score(strategy, percent, target)
				if got < 0 || got > 100 || math.IsNaN(got) {
					t.Fatalf("Score(%s, %v, %v) = %v, want a score in [0, 100]", strategy, percent, target, got)
				}
				if (strategy == config.StrategySpread || percent > target) && got >= last {
					t.Fatalf("Score(%s, %v, %v) = %v, want less than at a lower peak: %v", strategy, percent, target, got, last)
				}
				last = got
			}
		}
	}
}
