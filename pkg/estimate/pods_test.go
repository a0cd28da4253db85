package estimate

import (
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
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/minortest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// statisticsOf are cpu means and deviations of workloads, observed of ten pods for an hour until at.
func statisticsOf(at time.Time, workloads map[string][2]float64) *learned.Snapshot {
	const pods = 10
	var observations []learned.Observation
	for name, m := range workloads {
		observations = append(observations, learned.Observation{
			Workload: learned.Workload{Namespace: "ns", Name: name}, Resource: load.CPU, At: at, Span: time.Hour,
			Pods: pods, Sum: pods * m[0], SumSquares: pods * (m[1]*m[1] + m[0]*m[0]),
		})
	}
	cluster := learned.Cluster{UsagePerRequest: [load.ResourceCount]float64{load.CPU: 0.5}}
	return (&learned.Snapshot{}).With(observations, cluster, learned.Config{History: 24 * time.Hour, MaxWorkloads: 10})
}

// predictorOn predicts by the statistics, of which half an hour is enough.
func predictorOn(s *learned.Snapshot) learned.Predictor {
	p := learned.NewPublisher()
	p.Publish(s)
	return learned.Predictor{
		Statistics: p, MinHistory: 30 * time.Minute, Multiplier: 1.5, Default: podusage.Amounts{load.CPU: 900}, MaxRequestRatio: 10,
	}
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
	bound := func(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
		pod.Status.Conditions = boundAgo(ago, "0").Status.Conditions
		return pod
	}
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
		{
			"and what it requests from then on", []*corev1.Pod{bound(podNamed("a", "a", "1m"), 2*window)},
			// The largest variance of values in [0, 1] is 0.5².
			PodSums{Mean: 1, Learned: 1, LargestVariance: 0.25, Largest: 0},
		},
		{
			"a pod that runs counts its workload's history", []*corev1.Pod{running(bound(podNamed("a", "a", "1m"), 24*time.Hour))},
			PodSums{Mean: 1000, Learned: 1000, Excess: 328, LargestVariance: 40000, Largest: 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, _ := newModel(predictorOn(statistics), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
			info := framework.NewNodeInfo(tc.pods...)
			info.SetNode(newNode(t, "n").Node())
			_, sums := model.View(framework.NewCycleState()).WithPodSums(info)
			if diff := cmp.Diff(tc.want, sums[load.CPU], cmpopts.EquateApprox(1e-5, 0)); diff != "" {
				t.Errorf("sums (-want +got):\n%s", diff)
			}
			if got := model.LastPodSums("n"); got != sums {
				t.Errorf("LastPodSums: %v, want %v", got, sums)
			}
		})
	}
}

func TestPodSums_WithoutStatistics(t *testing.T) {
	model, _ := newModel(predictorOn(&learned.Snapshot{}), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := framework.NewNodeInfo(podNamed("a", "a", "2"))
	info.SetNode(newNode(t, "n").Node())
	view := model.View(framework.NewCycleState())
	_, sums := view.WithPodSums(info)
	// Mean 2,000, which nobody learned, and p95 3,000.
	want := PodSums{Mean: 2000, Excess: 1000, LargestVariance: (1000 / 1.64) * (1000 / 1.64), Largest: 0}
	if diff := cmp.Diff(want, sums[load.CPU], cmpopts.EquateApprox(1e-5, 0)); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	if view.HasStatistics() {
		t.Error("there are statistics")
	}
}

func TestPodSums_OfNodesWithoutLoad(t *testing.T) {
	statistics := statisticsOf(now, map[string][2]float64{"a": {1000, 200}})
	model, _ := newModel(predictorOn(statistics), nil)
	info := framework.NewNodeInfo(podNamed("a", "a", "2"))
	info.SetNode(newNode(t, "n").Node())
	want := PodSums{Mean: 1000, Learned: 1000, Excess: 328, LargestVariance: 40000, Largest: 0}
	check := func(when string) {
		t.Helper()
		e, sums := model.View(framework.NewCycleState()).WithPodSums(info)
		if diff := cmp.Diff(want, sums[load.CPU], cmpopts.EquateApprox(1e-5, 0)); diff != "" {
			t.Errorf("%s: sums (-want +got):\n%s", when, diff)
		}
		if got := e[load.CPU]; got.State != load.Absent || got.Base != 6000 {
			t.Errorf("%s: estimate %+v, want one by requests", when, got)
		}
	}
	check("at first")
	info.AddPodInfo(podInfo(t, podNamed("a2", "a", "2")))
	want.Mean, want.Learned, want.RestVariance = 2000, 2000, 40000
	check("once the node changed")
}

// TestPodSums_OfManyNodesThatCameAndWent has an autoscaler replace nodes while no load is read.
func TestPodSums_OfManyNodesThatCameAndWent(t *testing.T) {
	model, _ := newModel(predictorOn(statisticsOf(now, map[string][2]float64{"a": {1000, 200}})), nil)
	view := model.View(framework.NewCycleState())
	object := newNode(t, "n").Node()
	for i := range maxUnmeasured + 10 {
		node := object.DeepCopy()
		node.Name = "n" + strconv.Itoa(i)
		info := framework.NewNodeInfo(podNamed("a", "a", "2"))
		info.SetNode(node)
		if _, sums := view.WithPodSums(info); sums[load.CPU].Mean != 1000 {
			t.Fatalf("mean %v of node %d, want 1000", sums[load.CPU].Mean, i)
		}
	}
	kept := 0
	view.cache.unmeasured.Range(func(any, any) bool { kept++; return true })
	if kept != 10 {
		t.Errorf("%d nodes are kept, want the 10 after the bound", kept)
	}
}

func TestPodSums_LapseWithTheLoad(t *testing.T) {
	statistics := statisticsOf(now.Add(-time.Hour), map[string][2]float64{"a": {1000, 200}})
	model, publisher := newModel(predictorOn(statistics), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	silent := podNamed("s", "", "")
	silent.Status.Conditions = boundAgo(2*window-time.Minute, "0").Status.Conditions
	info := framework.NewNodeInfo(silent)
	info.SetNode(newNode(t, "n").Node())
	for _, step := range []struct {
		name string
		age  time.Duration
		want float64 // 900 − 0.5·600 until two windows after the binding
	}{
		{"at first", 0, 600}, {"later", -time.Minute + 1, 600}, {"two windows after the binding", -time.Minute, 0},
		{"with load that is older again", -time.Minute + 1, 600}, {"much older", 4 * time.Minute, 600},
	} {
		republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, step.age)})
		if _, sums := model.View(framework.NewCycleState()).WithPodSums(info); math.Abs(sums[load.CPU].Excess-step.want) > 1e-3 {
			t.Errorf("%s: excess %v, want %v", step.name, sums[load.CPU].Excess, step.want)
		}
	}
}

func TestPodSums_StateFollowsTheLoad(t *testing.T) {
	model, publisher := newModel(predictorOn(&learned.Snapshot{}), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := newNode(t, "n")
	for _, step := range []struct {
		memory load.Measurement
		want   load.State
	}{
		{load.Measurement{}, load.Absent}, {measurement(0.5, 0, 0), load.Fresh}, {measurement(0.5, 0, maxAge+1), load.Expired}, {load.Measurement{}, load.Absent},
	} {
		republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: step.memory})
		view := model.View(framework.NewCycleState())
		got, _ := view.WithPodSums(info)
		want := view.Estimate(info)
		if got[load.Memory].State != step.want {
			t.Errorf("state of memory %v, want %v", got[load.Memory].State, step.want)
		}
		for r := range want {
			if diff := cmp.Diff(&want[r], got[r]); diff != "" {
				t.Errorf("the estimate in parts (-whole +parts):\n%s", diff)
			}
		}
	}
}

func TestPodSums_PodGroupCyclesKeepTheGeneration(t *testing.T) {
	statistics := statisticsOf(now, map[string][2]float64{"a": {1000, 200}})
	model, _ := newModel(predictorOn(statistics), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := framework.NewNodeInfo(podNamed("a", "a", "2"))
	info.SetNode(newNode(t, "n").Node())
	generation := info.Generation
	model.View(framework.NewCycleState()).WithPodSums(info)
	info.AddPodInfo(podInfo(t, podNamed("member", "a", "2")))
	info.Generation = generation
	state := minortest.PodGroupCycle(t)
	if _, sums := model.View(state).WithPodSums(info); sums[load.CPU].Mean != 2000 {
		t.Errorf("mean %v with a member of the group, want 2000", sums[load.CPU].Mean)
	}
}

func TestCycleSeesOneSnapshotOfStatistics(t *testing.T) {
	predictor := predictorOn(statisticsOf(now, map[string][2]float64{"a": {1000, 0}}))
	model, _ := newModel(predictor, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	stricter := predictor
	stricter.MaxRequestRatio = 2
	other := modelOn(model.Snapshots(), stricter)
	info := framework.NewNodeInfo(podNamed("a", "a", "2"))
	info.SetNode(newNode(t, "n").Node())
	mean := func(m *Model, state fwk.CycleState) float64 {
		_, sums := m.View(state).WithPodSums(info)
		return sums[load.CPU].Mean
	}
	cycle := framework.NewCycleState()
	if got := mean(model, cycle); got != 1000 {
		t.Fatalf("mean %v, want 1000", got)
	}
	predictor.Statistics.Publish(statisticsOf(now, map[string][2]float64{"a": {2000, 0}}))
	if got := mean(model, cycle); got != 1000 {
		t.Errorf("the same plugin sees %v in the same cycle, want 1000", got)
	}
	if got := mean(other, cycle); got != 1000 {
		t.Errorf("another plugin sees %v in the same cycle, want 1000", got)
	}
	if got := mean(model, framework.NewCycleState()); got != 2000 {
		t.Errorf("the next cycle sees %v, want 2000", got)
	}
	// What is pending follows the statistics as well.
	if e := model.View(framework.NewCycleState()).Estimate(info); e[load.CPU].Pending != 2000 {
		t.Errorf("pending %v, want 2000", e[load.CPU].Pending)
	}
}

func TestCacheChangesNoPodSums(t *testing.T) {
	object := newNode(t, "n").Node()
	rapid.Check(t, func(t *rapid.T) {
		drawStatistics := func() *learned.Snapshot {
			workloads := map[string][2]float64{}
			for _, name := range []string{"a", "b"} {
				if rapid.Bool().Draw(t, name+" is known") {
					workloads[name] = [2]float64{rapid.Float64Range(0, 4000).Draw(t, "mean"), rapid.Float64Range(0, 2000).Draw(t, "deviation")}
				}
			}
			return statisticsOf(now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later"))), workloads)
		}
		drawLoad := func() load.NodeLoad {
			return load.NodeLoad{load.CPU: measurement(0.25, 0, time.Duration(rapid.Int64Range(0, int64(maxAge)).Draw(t, "age")))}
		}
		predictor := predictorOn(drawStatistics())
		model, publisher := newModel(predictor, map[string]load.NodeLoad{"n": drawLoad()})
		n := framework.NewNodeInfo()
		n.SetNode(object)
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch pods := n.GetPods(); rapid.SampledFrom([]string{"add", "add", "remove", "change", "publish", "learn", "look"}).Draw(t, "step") {
			case "add":
				pod := podNamed("p"+strconv.Itoa(i), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "owner"), rapid.SampledFrom([]string{"", "100m", "2"}).Draw(t, "cpu"))
				pod.UID = types.UID(pod.Name)
				pod.Status = drawPod(t, i).Status
				if rapid.Bool().Draw(t, "bound") {
					pod.Status.Conditions = boundAgo(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "bound ago")), "0").Status.Conditions
				}
				info, err := framework.NewPodInfo(pod)
				if err != nil {
					t.Fatal(err)
				}
				n.AddPodInfo(info)
			case "remove":
				if len(pods) > 0 {
					if err := n.RemovePod(klog.Background(), pods[rapid.IntRange(0, len(pods)-1).Draw(t, "which")].GetPod()); err != nil {
						t.Fatal(err)
					}
				}
			case "change":
				n.SetNode(object)
			case "publish":
				republish(publisher, drawLoad())
			case "learn":
				predictor.Statistics.Publish(drawStatistics())
			}
			uncached := load.NewPublisher()
			uncached.Publish(publisher.Latest())
			wantEstimate, want := modelOn(NewSnapshots(uncached), predictor).View(framework.NewCycleState()).WithPodSums(n)
			gotEstimate, got := model.View(framework.NewCycleState()).WithPodSums(n)
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Fatalf("sums (-uncached +cached):\n%s", diff)
			}
			if diff := cmp.Diff(wantEstimate, gotEstimate, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Fatalf("estimate (-uncached +cached):\n%s", diff)
			}
		}
	})
}
