package peak

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

// statisticsOf are cpu means and deviations of workloads, observed of ten pods for an hour until at.
func statisticsOf(at time.Time, workloads map[string][2]float64) *learned.Statistics {
	const pods = 10
	var observations []learned.Observation
	for name, m := range workloads {
		observations = append(observations, learned.Observation{
			Workload: learned.Workload{Namespace: "ns", Name: name}, Resource: load.CPU, At: at, Span: time.Hour,
			Pods: pods, Sum: pods * m[0], SumSquares: pods * (m[1]*m[1] + m[0]*m[0]),
		})
	}
	cluster := learned.ClusterUsage{UsagePerRequest: [load.ResourceCount]float64{load.CPU: 0.5}}
	return (&learned.Statistics{}).With(observations, cluster, learned.Config{History: 24 * time.Hour, MaxWorkloads: 10})
}

const (
	window = 5 * time.Minute
	maxAge = 5 * time.Minute
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is a model on a publisher of load and one of statistics.
type fixture struct {
	*Model
	loads     *load.Publisher
	learned   *learned.Publisher
	snapshots *estimate.Snapshots
}

// newModel returns a model of the node n at now. Half an hour of statistics is enough. The node is unknown without measurements.
func newModel(s *learned.Statistics, measured ...load.Measurement) fixture {
	f := fixture{loads: load.NewPublisher(), learned: learned.NewPublisher()}
	f.learned.Publish(s)
	if len(measured) > 0 {
		var n load.NodeLoad
		copy(n[:], measured)
		f.loads.Publish(loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{window: {"n": n}}, nil))
	}
	f.snapshots = estimate.NewSnapshots(f.loads)
	f.Model = NewModel(f.snapshots, Config{
		Window: window, Trust: load.Trust{RefreshInterval: 30 * time.Second, MaxAge: maxAge, DriftTolerance: 10},
		Clock: clocktesting.NewFakePassiveClock(now), Statistics: NewCycleStatistics(f.learned),
		Predictor: learned.Predictor{
			MinHistory: 30 * time.Minute, Multiplier: 1.5, Default: podusage.Amounts{load.CPU: 900}, MaxRequestRatio: 10,
		},
	})
	return f
}

// republish publishes new load of the node, with the same index.
func (f *fixture) republish(measured ...load.Measurement) {
	var n load.NodeLoad
	copy(n[:], measured)
	index := f.loads.Latest().Index()
	table := load.NewTable(index, func(string) load.NodeLoad { return n })
	f.loads.Publish(load.NewSnapshot(index, map[time.Duration]*load.Table{window: table}, nil))
}

// sums returns the estimate of the node, and the sums over its pods, in the cycle.
func (f *fixture) sums(state fwk.CycleState, node fwk.NodeInfo) (estimate.Estimate, [load.ResourceCount]PodSums) {
	resources := f.View(state).Node(node, &learned.Usages{}, 0)
	var e estimate.Estimate
	var sums [load.ResourceCount]PodSums
	for r := range resources {
		e[r], sums[r] = *resources[r].Node, *resources[r].Pods
	}
	return e, sums
}

// measurement is of cpu or memory at a quarter of capacity.
func measurement(age time.Duration) load.Measurement {
	return load.Measurement{Stat: load.Stat{Mean: 0.25, Known: true}, Window: window, End: now.Add(-age)}
}

// newNode has 8 cores, of which 6 are allocatable.
func newNode(pods ...*corev1.Pod) *framework.NodeInfo {
	object := st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8"}).Obj()
	object.Status.Allocatable = st.MakeNode().Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "6"}).Obj().
		Status.Allocatable
	info := framework.NewNodeInfo(pods...)
	info.SetNode(object)
	return info
}

func bound(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago))},
	}
	return pod
}

// podNamed has an owner and requests cpu unless that is empty.
func podNamed(name, owner, cpu string) *corev1.Pod {
	pod := st.MakePod().Namespace("ns").Name(name).UID(name).Container("image").Obj()
	if cpu != "" {
		pod = st.MakePod().Namespace("ns").Name(name).UID(name).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: owner, Controller: new(true)}}
	}
	return pod
}

func TestPodSums(t *testing.T) {
	running := func(pod *corev1.Pod) *corev1.Pod {
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: now.Add(-24 * time.Hour)}
		return pod
	}
	succeeded := podNamed("d", "a", "1")
	succeeded.Status.Phase = corev1.PodSucceeded
	statistics := statisticsOf(now, map[string][2]float64{"a": {1000, 200}, "b": {500, 300}, "huge": {1e5, 1e5}})
	// (1,500 − 500) / 1.64 and (900 − 300) / 1.64
	unknown, silent := (1000/1.64)*(1000/1.64), (600/1.64)*(600/1.64)
	// The node offers 6,000 milliCPU. Pods use half of what they request.
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		want PodSums
	}{
		{"no pods", nil, PodSums{Largest: NoPod}},
		{
			"the largest excess is kept apart", []*corev1.Pod{podNamed("a", "a", "2"), podNamed("c", "", "1"), podNamed("b", "b", "2")},
			// 1.64·200 = 328 and 1.64·300 = 492 are less than 1.5·1,000 − 500.
			PodSums{Mean: 2000, Learned: 2000, Excess: 1000, LargestVariance: unknown, Largest: 1, RestVariance: 40000 + 90000},
		},
		{
			"of equal ones the first is", []*corev1.Pod{podNamed("b", "b", "2"), podNamed("b2", "b", "2")},
			PodSums{Mean: 1000, Learned: 1000, Excess: 492, LargestVariance: 90000, Largest: 0, RestVariance: 90000},
		},
		{
			"a workload counts no more than the node offers", []*corev1.Pod{podNamed("huge", "huge", "2"), podNamed("b", "b", "2")},
			// 6,000 of both mean and peak, and 3,000² of the variance.
			PodSums{Mean: 6500, Learned: 6500, Excess: 492, LargestVariance: 90000, Largest: 1, RestVariance: 9e6},
		},
		{"a pod that has ended counts nothing", []*corev1.Pod{succeeded}, PodSums{Largest: 0}},
		{
			"the default counts for two windows from the binding", []*corev1.Pod{running(bound(podNamed("s", "", ""), 2*window-time.Second))},
			// As if it requested 600, which statistics do not tell.
			PodSums{Mean: 300, Excess: 600, LargestVariance: silent, Largest: 0},
		},
		{"and not from then on", []*corev1.Pod{running(bound(podNamed("s", "", ""), 2*window))}, PodSums{Largest: 0}},
		{
			"a pod that does not run counts its workload's history for two windows", []*corev1.Pod{bound(podNamed("a", "a", "1m"), 2*window-time.Second)},
			PodSums{Mean: 1000, Learned: 1000, Excess: 328, LargestVariance: 40000, Largest: 0},
		},
		// The largest variance of values in [0, 1] is 0.5².
		{"and what it requests from then on", []*corev1.Pod{bound(podNamed("a", "a", "1m"), 2*window)}, PodSums{Mean: 1, Learned: 1, LargestVariance: 0.25, Largest: 0}},
		{
			"a pod that runs counts its workload's history", []*corev1.Pod{running(bound(podNamed("a", "a", "1"), 24*time.Hour))},
			PodSums{Mean: 1000, Learned: 1000, Excess: 328, LargestVariance: 40000, Largest: 0},
		},
		{
			"a pod that was never observed counts at most ten times its request", // and of the variance 10 · 10 / 4
			[]*corev1.Pod{running(bound(podNamed("a", "a", "1m"), 24*time.Hour))},
			PodSums{Mean: 10, Learned: 10, LargestVariance: 25, Largest: 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model := newModel(statistics, measurement(0))
			_, sums := model.sums(framework.NewCycleState(), newNode(tc.pods...))
			check.Equal(t, "sums", tc.want, sums[load.CPU], cmpopts.EquateApprox(1e-5, 0))
			if got := model.LatestPods("n", ""); got != sums {
				t.Errorf("LatestPods: %v, want %v", got, sums)
			}
		})
	}
}

// Of pods without requests, other namespaces count neither excess nor variance, and 100 milliCPU of the mean.
func TestPodSums_OfOtherNamespaces(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 2 {
		pod := podNamed(fmt.Sprint("s", i), "", "")
		pod.Namespace = "tenant"
		pods = append(pods, bound(pod, 2*window-time.Second))
	}
	node := newNode(append(pods, podNamed("a", "a", "2"))...)
	model := newModel(statisticsOf(now, map[string][2]float64{"a": {1000, 200}}), measurement(0))
	// A pod without requests: p95 900, mean 300. The pod of workload a has the mean 1,000, and the excess 1.64 · 200.
	variance := (600 / 1.64) * (600 / 1.64)
	all := PodSums{Mean: 1600, Learned: 1000, Excess: 600, LargestVariance: variance, Largest: 0, RestVariance: variance + 40000}
	foreign := PodSums{Mean: 1100, Learned: 1000, Excess: 328, LargestVariance: 40000, Largest: 2}
	state := framework.NewCycleState()
	for namespace, want := range map[string]PodSums{"": all, "tenant": all, "ns": foreign, "third": foreign} {
		view := model.View(state).For(st.MakePod().Namespace(namespace).Obj())
		resource := view.Node(node, &learned.Usages{}, 0)[load.CPU]
		check.Equal(t, fmt.Sprintf("for a pod of %q", namespace), want, *resource.Pods, cmpopts.EquateApprox(1e-5, 0))
		check.Equal(t, fmt.Sprintf("pending for a pod of %q", namespace), want.Mean, resource.Node.Pending, cmpopts.EquateApprox(0, 1e-3))
		check.Equal(t, fmt.Sprintf("LatestPods for %q", namespace), *resource.Pods, model.LatestPods("n", namespace)[load.CPU])
	}
}

// Where pods use next to nothing of their requests, the mean of a default is below the bound, but not its excess.
func TestPodSums_ExcessOfOtherNamespaces(t *testing.T) {
	pod := podNamed("s", "", "")
	pod.Namespace = "tenant"
	cluster := learned.ClusterUsage{UsagePerRequest: [load.ResourceCount]float64{load.CPU: 0.05}}
	statistics := (&learned.Statistics{}).With(nil, cluster, learned.Config{History: 24 * time.Hour, MaxWorkloads: 10})
	model, state := newModel(statistics, measurement(0)), framework.NewCycleState()
	for namespace, want := range map[string]float64{"tenant": 900 - 30, "ns": 0} { // 0.05 · 900 / 1.5 = 30
		view := model.View(state).For(st.MakePod().Namespace(namespace).Obj())
		pods := view.Node(newNode(pod), &learned.Usages{}, 0)[load.CPU].Pods
		if math.Abs(pods.Mean-30) > 1e-3 || math.Abs(pods.Excess-want) > 1e-3 {
			t.Errorf("for a pod of %q: mean %v, excess %v; want 30 and %v", namespace, pods.Mean, pods.Excess, want)
		}
	}
}

func TestPodSums_WithoutStatistics(t *testing.T) {
	model := newModel(&learned.Statistics{}, measurement(0))
	_, sums := model.sums(framework.NewCycleState(), newNode(podNamed("a", "a", "2")))
	// Mean 2,000, which nobody learned, and p95 3,000.
	want := PodSums{Mean: 2000, Excess: 1000, LargestVariance: (1000 / 1.64) * (1000 / 1.64), Largest: 0}
	check.Equal(t, "sums", want, sums[load.CPU], cmpopts.EquateApprox(1e-5, 0))
	if model.View(framework.NewCycleState()).HasStatistics() {
		t.Error("there are statistics")
	}
}

func TestPodSums_OfNodesWithoutLoad(t *testing.T) {
	statistics := statisticsOf(now, map[string][2]float64{"a": {1000, 200}})
	model := newModel(statistics)
	info := newNode(podNamed("a", "a", "2"))
	want := PodSums{Mean: 1000, Learned: 1000, Excess: 328, LargestVariance: 40000, Largest: 0}
	expect := func(when string) {
		t.Helper()
		e, sums := model.sums(framework.NewCycleState(), info)
		check.Equal(t, fmt.Sprintf("%s: sums", when), want, sums[load.CPU], cmpopts.EquateApprox(1e-5, 0))
		if got := e[load.CPU]; got.State != load.Absent || got.Base != 6000 {
			t.Errorf("%s: estimate %+v, want one by requests", when, got)
		}
	}
	expect("at first")
	info.AddPod(podNamed("a2", "a", "2"))
	want.Mean, want.Learned, want.RestVariance = 2000, 2000, 40000
	expect("once the node changed")
}

func TestPodSums_StartupEndsWithTheLoad(t *testing.T) {
	statistics := statisticsOf(now.Add(-time.Hour), map[string][2]float64{"a": {1000, 200}})
	model := newModel(statistics, measurement(0))
	info := newNode(bound(podNamed("s", "", ""), 2*window-time.Minute))
	for _, step := range []struct {
		name string
		age  time.Duration
		want float64 // 900 − 0.5·600 until two windows after the binding
	}{
		{"at first", 0, 600}, {"later", -time.Minute + 1, 600}, {"two windows after the binding", -time.Minute, 0},
		{"with load that is older again", -time.Minute + 1, 600}, {"much older", 4 * time.Minute, 600},
	} {
		model.republish(measurement(step.age))
		if _, sums := model.sums(framework.NewCycleState(), info); math.Abs(sums[load.CPU].Excess-step.want) > 1e-3 {
			t.Errorf("%s: excess %v, want %v", step.name, sums[load.CPU].Excess, step.want)
		}
	}
}

func TestPodSums_StateFollowsTheLoad(t *testing.T) {
	model := newModel(&learned.Statistics{}, measurement(0))
	info := newNode(podNamed("a", "", "1"))
	for _, step := range []struct {
		memory load.Measurement
		want   load.State
	}{
		{load.Measurement{}, load.Absent}, {measurement(0), load.Fresh}, {measurement(maxAge + 1), load.Expired}, {load.Measurement{}, load.Absent},
	} {
		model.republish(measurement(0), step.memory)
		got, _ := model.sums(framework.NewCycleState(), info)
		check.Equal(t, "state of memory", step.want, got[load.Memory].State)
		check.Equal(t, "the estimate beside the sums", model.View(framework.NewCycleState()).Estimate(info), got)
	}
}

func TestCycleSeesOneSnapshotOfStatistics(t *testing.T) {
	model := newModel(statisticsOf(now, map[string][2]float64{"a": {1000, 0}}), measurement(0))
	stricter := model.Config()
	stricter.Predictor.MaxRequestRatio = 2
	other := model
	other.Model = NewModel(model.snapshots, stricter)
	info := newNode(podNamed("a", "a", "2"))
	mean := func(m fixture, state fwk.CycleState) float64 {
		_, sums := m.sums(state, info)
		return sums[load.CPU].Mean
	}
	cycle := framework.NewCycleState()
	check.Require(t, "mean", 1000, mean(model, cycle))
	model.learned.Publish(statisticsOf(now, map[string][2]float64{"a": {2000, 0}}))
	check.Equal(t, "the same plugin sees in the same cycle", 1000.0, mean(model, cycle))
	check.Equal(t, "another plugin sees in the same cycle", 1000.0, mean(other, cycle))
	check.Equal(t, "the next cycle sees", 2000.0, mean(model, framework.NewCycleState()))
	// Pending usage follows the statistics as well.
	for name, e := range map[string]estimate.Estimate{
		"peaks": model.View(framework.NewCycleState()).Estimate(info), "load": model.Load().View(framework.NewCycleState()).Estimate(info),
	} {
		check.Equal(t, name+": pending", 2000.0, e[load.CPU].Pending)
	}
}

func TestPods(t *testing.T) {
	model := newModel(statisticsOf(now, map[string][2]float64{"a": {1000, 200}}), measurement(0))
	young := podNamed("p", "a", "3")
	young.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: now.Add(-time.Minute)}}
	got := model.View(framework.NewCycleState()).Pods(newNode(young))
	// The mean of the workload, a fifth of which is in the window.
	want := estimate.PodResourceLoad{Usage: 1000, Coverage: 0.2, Pending: 800}
	if len(got) != 1 || got[0].Resources[load.CPU] != want {
		t.Errorf("pods %+v, want one with %+v of cpu", got, want)
	}
}

func TestCacheChangesNoPodSums(t *testing.T) {
	object := newNode().Node()
	rapid.Check(t, func(t *rapid.T) {
		drawStatistics := func() *learned.Statistics {
			workloads := map[string][2]float64{}
			for _, name := range []string{"a", "b"} {
				if rapid.Bool().Draw(t, name+" is known") {
					workloads[name] = [2]float64{rapid.Float64Range(0, 4000).Draw(t, "mean"), rapid.Float64Range(0, 2000).Draw(t, "deviation")}
				}
			}
			return statisticsOf(now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later"))), workloads)
		}
		drawLoad := func() load.Measurement {
			return measurement(time.Duration(rapid.Int64Range(0, int64(maxAge)).Draw(t, "age")))
		}
		model := newModel(drawStatistics(), drawLoad())
		n := framework.NewNodeInfo()
		n.SetNode(object)
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch pods := n.GetPods(); rapid.SampledFrom([]string{"add", "add", "remove", "change", "publish", "learn", "look"}).
				Draw(t, "step") {
			case "add":
				pod := podNamed("p"+strconv.Itoa(i), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "owner"),
					rapid.SampledFrom([]string{"", "100m", "2"}).Draw(t, "cpu"))
				pod.UID = types.UID(pod.Name)
				pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}).
					Draw(t, "phase")
				if rapid.Bool().Draw(t, "started") {
					pod.Status.StartTime = &metav1.Time{
						Time: now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "started ago"))),
					}
				}
				if rapid.Bool().Draw(t, "bound") {
					bound(pod, time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "bound ago")))
				}
				n.AddPod(pod)
			case "remove":
				if len(pods) > 0 {
					if err := n.RemovePod(klog.Background(), pods[rapid.IntRange(0, len(pods)-1).Draw(t, "which")].GetPod()); err != nil {
						t.Fatal(err)
					}
				}
			case "change":
				n.SetNode(object)
			case "publish":
				model.republish(drawLoad())
			case "learn":
				model.learned.Publish(drawStatistics())
			}
			uncached := load.NewPublisher()
			uncached.Publish(model.loads.Latest())
			fresh := fixture{Model: NewModel(estimate.NewSnapshots(uncached), model.Config())}
			wantEstimate, want := fresh.sums(framework.NewCycleState(), n)
			gotEstimate, got := model.sums(framework.NewCycleState(), n)
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Fatalf("sums (-uncached +cached):\n%s", diff)
			}
			if diff := cmp.Diff(wantEstimate, gotEstimate, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Fatalf("estimate (-uncached +cached):\n%s", diff)
			}
		}
	})
}

// A pod's startup counts beyond its mean for 150 s after its start. What the measured window covers does not count. Before the pod
// runs, it counts for two windows from its binding. The startups of pods add up.
func TestPodSums_Startup(t *testing.T) {
	started := func(name string, ago time.Duration) *corev1.Pod {
		pod := bound(podNamed(name, "a", "1"), ago)
		pod.UID = types.UID(name)
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: now.Add(-ago)}
		return pod
	}
	const span = 5 * time.Minute
	// A pod uses 100m for an hour, and another one 1,000m in its first 150 s. The mean is
	// (3600 · 100 + 300 · 100 + 150 · 1000) / 4050 = 133.33, and the startup 1000 − 133.33 = 866.67.
	statistics := &learned.Statistics{}
	for i := range 13 {
		tally := learned.NewTally("", podusage.Amounts{})
		tally.Add(started("old", 2*time.Hour), load.CPU, 100, 0, 1)
		if i == 12 {
			tally.Add(started("new", 150*time.Second), load.CPU, 1000, 0, 0.5)
		}
		statistics = statistics.WithTally(tally, now.Add(time.Duration(i-12)*time.Second), span,
			learned.Config{History: 1e5 * time.Hour, MaxWorkloads: 10})
	}
	const startup = 866.6667
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		want float64
	}{
		// The window of five minutes covers 149 s of the pod, and misses 151 s.
		{"a pod that runs for less than 150 s", []*corev1.Pod{started("b", 149*time.Second)}, startup * 151 / 300},
		{"and for 150 s", []*corev1.Pod{started("b", 150*time.Second)}, 0},
		{"a pod that does not run yet", []*corev1.Pod{bound(podNamed("b", "a", "1"), 2*window-time.Second)}, startup},
		{"and may never", []*corev1.Pod{bound(podNamed("b", "a", "1"), 2*window)}, 0},
		{"an assumed pod", []*corev1.Pod{podNamed("b", "a", "1")}, startup},
		// One minute of five is covered: 0.8 of it counts.
		{"three pods", []*corev1.Pod{started("b", time.Minute), podNamed("c", "a", "1"), started("d", time.Hour)}, 1.8 * startup},
		{"a pod of another workload", []*corev1.Pod{podNamed("b", "b", "1")}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, node := newModel(statistics, measurement(0)), newNode(tc.pods...)
			_, sums := model.sums(framework.NewCycleState(), node)
			check.Equal(t, "startup", tc.want, sums[load.CPU].Startup, cmpopts.EquateApprox(0, 0.01))
			// With the pod to place, of the node's 8 cores:
			view := model.View(framework.NewCycleState())
			usages := view.Pod(podNamed("e", "a", "1"))
			with := view.Node(node, usages, 1)[load.CPU]
			if got := with.Startup(); math.Abs(got-tc.want-startup) > 0.01 {
				t.Errorf("startups of %v, want %v", got, tc.want+startup)
			}
			// The pod's peak is the larger of both, not their sum.
			check.Equal(t, "the pod exceeds its mean by", max(usages[load.CPU].Excess(), startup), with.Pod.Excess()+with.Pod.Startup,
				cmpopts.EquateApprox(0, 0.01))
		})
	}
}

// Without fresh load, nothing tells when a startup ends. With a measurement of the present, it counts for none of the past.
func TestResource_StartupNeedsFreshLoad(t *testing.T) {
	pod := &learned.Usage{Mean: 400, P95: 2000, Startup: 1200}
	// A pod on the node exceeds its mean by 1,600m, of which its startup takes 800m.
	pods := &PodSums{Largest: 0, Startup: 800, Excess: 800, ExcessOfStartups: 800}
	for state, want := range map[load.State][3]float64{
		load.Fresh: {2000, 800, 800}, load.Expired: {0, 2000, 1600}, load.Absent: {0, 2000, 1600},
	} {
		var r Resource
		r.Set(&estimate.ResourceEstimate{Base: 8000, Allocatable: 8000, State: state}, pods, pod, 1)
		// Of 2,000m at the 95th percentile, the startup takes 1,200m: 800m are left.
		check.Equal(t, fmt.Sprint(state, ": startups, the pod's p95 and the largest excess"), want,
			[3]float64{r.Startup(), r.Pod.P95, r.Excess()})
	}
}

// A startup ends with the load that is newer, also on a node that does not change.
func TestPodSums_StartupIsOver(t *testing.T) {
	pods := []predictedPod{{other: &otherUsages{from: 900, startup: 50, startupEnd: 300}}, {}}
	for _, tc := range []struct{ moment, last, next int64 }{
		{100, math.MinInt64, 101}, // the next measurement covers more of the startup
		{299, math.MinInt64, 300}, {300, 300, 900}, {900, 900, math.MaxInt64},
	} {
		if last, next := steadyAround(pods, tc.moment); last != tc.last || next != tc.next {
			t.Errorf("at %d: from %d to %d, want from %d to %d", tc.moment, last, next, tc.last, tc.next)
		}
	}
}
