package estimate

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// ago is a pod's start that long before now.
func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

func podOf(phase corev1.PodPhase, start *metav1.Time, containers ...*metav1.Time) *corev1.Pod {
	pod := st.MakePod().Name("p").Phase(phase).Obj()
	pod.Status.StartTime = start
	for _, started := range containers {
		status := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
		if started != nil {
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *started}}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	return pod
}

// uncoveredShare is the share, in [0, 1], of the pod's usage that the measurement does not show.
func uncoveredShare(m *load.Measurement, pod *corev1.Pod) float64 {
	return 1 - coverage(runningSince(pod), m.End.UnixNano(), m.Window)
}

func TestUncoveredShare(t *testing.T) {
	// The window is five minutes and ends now.
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want float64
	}{
		{"a pod that was assumed a moment ago is not covered", podOf("", nil), 1},
		{"a pod that still pulls its images is not covered", podOf(corev1.PodPending, ago(time.Minute), nil), 1},
		// 1 − 60/300
		{"a pod that has run for 60 s counts four fifths", podOf(corev1.PodRunning, ago(2*time.Minute), ago(time.Minute)), 0.8},
		// 1 − 150/300
		{"a pod that has run for half of the window reserves one half", podOf(corev1.PodRunning, nil, ago(150*time.Second)), 0.5},
		{"a pod that has run for the whole window is covered", podOf(corev1.PodRunning, nil, ago(window)), 0},
		{"a pod that has run for longer is covered", podOf(corev1.PodRunning, nil, ago(time.Hour)), 0},
		// 1 − 60/300
		{"the latest start of several containers counts", podOf(corev1.PodRunning, nil, ago(time.Hour), ago(time.Minute), ago(2*time.Minute)), 0.8},
		{"a container that does not run has no start", podOf(corev1.PodRunning, ago(time.Hour), ago(time.Minute), nil), 0.8},
		// 1 − 120/300
		{"without container statuses, the start time of the pod counts", podOf(corev1.PodRunning, ago(2*time.Minute)), 0.6},
		{"a pod that started after the window ended is not covered", podOf(corev1.PodRunning, nil, ago(-time.Second)), 1},
		{"a pod that succeeded uses nothing", podOf(corev1.PodSucceeded, nil), 0},
		{"a pod that failed uses nothing", podOf(corev1.PodFailed, nil), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := measurement(0.5, 0, 0)
			check.Equal(t, "uncovered share", tc.want, uncoveredShare(&m, tc.pod), cmpopts.EquateApprox(0, 1e-9))
		})
	}
	moment := measurement(0.5, 0, 0)
	moment.Window = 0
	check.Equal(t, "of a pod that started before the moment", 0, uncoveredShare(&moment, podOf(corev1.PodRunning, nil, ago(time.Nanosecond))))
	check.Equal(t, "of one that started after it", 1, uncoveredShare(&moment, podOf(corev1.PodRunning, nil, ago(-time.Second))))
}

func TestPending_IsTheSumOverThePods(t *testing.T) {
	request := st.MakePod().Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "1", corev1.ResourceMemory: "1Gi"}).Obj().Spec
	withSpec := func(pod *corev1.Pod) *corev1.Pod { pod.Spec = request; return pod }
	info := framework.NewNodeInfo(
		withSpec(podOf("", nil)),                                       // assumed: all of it
		withSpec(podOf(corev1.PodRunning, nil, ago(time.Minute))),      // four fifths
		withSpec(podOf(corev1.PodRunning, nil, ago(30*time.Minute))),   // nothing
		withSpec(podOf(corev1.PodSucceeded, nil, ago(10*time.Second))), // nothing
	)
	info.SetNode(newNode(t, "n").Node())

	p := load.NewPublisher()
	// Memory was last measured a minute ago: the second pod had not started.
	publish(p, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.5, 0, time.Minute)}})
	model := modelOn(NewSnapshots(p), podusage.ByRequests{})
	got := model.View(framework.NewCycleState()).Estimate(info)

	// 1,000 + 0.8·1,000 milliCPU; 1 + 1 GiB.
	check.Equal(t, "pending milliCPU and bytes", [2]float64{1800, 2 * gib}, [2]float64{got[load.CPU].Pending, got[load.Memory].Pending})
	// (0.25·8,000 + 1,800 + 200) / 8,000
	check.Equal(t, "utilization with a pod of 200 milliCPU", 0.5, got[load.CPU].Utilization(200))
}

func TestPending_FollowsTheNode(t *testing.T) {
	model, publisher := newModel(podusage.ByRequests{}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	pod := st.MakePod().Name("new").UID("new").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "500m"}).Obj()
	n := framework.NewNodeInfo()
	n.SetNode(newNode(t, "n").Node())
	pending := func() float64 { return model.View(framework.NewCycleState()).Estimate(n)[load.CPU].Pending }

	check.Require(t, "pending on an empty node", 0, pending())
	n.AddPod(pod)
	check.Equal(t, "pending after a pod was assumed", 500.0, pending())
	check.OK(t, n.RemovePod(klog.Background(), pod))
	check.Equal(t, "pending after the pod's binding failed: it leaves no trace", 0, pending())

	started := pod.DeepCopy()
	started.Status = podOf(corev1.PodRunning, nil, ago(0)).Status
	n.AddPod(started)
	for _, step := range []struct {
		end  time.Duration
		want float64
	}{{0, 500}, {time.Minute, 400}, {4 * time.Minute, 100}, {5 * time.Minute, 0}} { // 500·(1 − end/300 s)
		publish(publisher, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, -step.end)}})
		check.Equal(t, fmt.Sprintf("pending once the window ends %v after the pod's start", step.end), step.want, pending(),
			cmpopts.EquateApprox(0, 1e-9))
	}
}

func TestEachPodIsEstimatedOnce(t *testing.T) {
	calls := 0
	model, publisher := newModel(counting{calls: &calls}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	n := framework.NewNodeInfo(podOf("", nil), podOf("", nil))
	n.SetNode(newNode(t, "n").Node())
	again := func(age time.Duration) { republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, age)}) }
	for _, step := range []struct {
		name   string
		before func()
		want   int
	}{
		{"the first time each pod is estimated", func() {}, 2},
		{"the next time none is", func() {}, 2},
		{"nor when the node changed", func() { n.SetNode(n.Node()) }, 2},
		{"a pod that comes is estimated", func() { n.AddPod(podOf("", nil)) }, 3},
		{"none is when the same nodes have new load", func() { again(0) }, 3},
		{"all are when the load is older than before", func() { again(time.Second) }, 6},
		{"all are when the set of nodes changes", func() { publish(publisher, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.5, 0, 0)}}) }, 9},
	} {
		step.before()
		model.View(framework.NewCycleState()).Estimate(n)
		check.Equal(t, step.name+": estimates in all", step.want, calls)
	}
}

// counting counts the calls of PendingUsage.
type counting struct {
	podusage.ByRequests
	calls *int
}

func (c counting) PendingUsage(*corev1.Pod) (usage, byDefault podusage.Amounts) {
	*c.calls++
	return podusage.Amounts{1, 1}, podusage.Amounts{}
}

func TestCacheChangesNoEstimate(t *testing.T) {
	object := newNode(t, "n").Node()
	rapid.Check(t, func(t *rapid.T) {
		drawLoad := func() load.NodeLoad {
			var measured load.NodeLoad
			for _, r := range []*load.Measurement{&measured[load.CPU], &measured[load.Memory]} {
				if rapid.Bool().Draw(t, "known") {
					*r = measurement(0.25, 0, time.Duration(rapid.Int64Range(0, int64(maxAge)).Draw(t, "age")))
				}
			}
			return measured
		}
		model, publisher := newModel(podusage.ByRequests{}, map[string]load.NodeLoad{"n": drawLoad()})
		n := framework.NewNodeInfo()
		n.SetNode(object)
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch pods := n.GetPods(); rapid.SampledFrom([]string{"add", "add", "remove", "change", "publish", "look"}).Draw(t, "step") {
			case "add":
				pod := drawPod(t, i)
				pod.UID = types.UID(pod.Name)
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
				republish(publisher, drawLoad())
			}
			uncached := load.NewPublisher()
			uncached.Publish(publisher.Latest())
			want := modelOn(NewSnapshots(uncached), podusage.ByRequests{}).View(framework.NewCycleState()).Estimate(n)
			view := model.View(framework.NewCycleState())
			got := view.Estimate(n)
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Fatalf("estimate (-uncached +cached):\n%s", diff)
			}
			var ofPods [load.ResourceCount]float64
			for _, pod := range view.Pods(n) {
				for r := range ofPods {
					ofPods[r] += pod.Resources[r].Pending
				}
			}
			for r := range ofPods {
				if math.Abs(ofPods[r]-got[r].Pending) > 1e-6 {
					t.Fatalf("%s: %v is pending of the pods, and %v on the node", load.Resource(r), ofPods[r], got[r].Pending)
				}
			}
		}
	})
}

func TestCacheDropsUnusedPods(t *testing.T) {
	model, publisher := newModel(podusage.ByRequests{}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	n := framework.NewNodeInfo(podOf("", nil))
	n.SetNode(newNode(t, "n").Node())
	model.View(framework.NewCycleState()).Estimate(n)
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, 0)})
	if model.cache.Load() == nil {
		t.Error("dropped with the first new load, before a cycle could ask")
	}
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, 0)})
	if model.cache.Load() != nil {
		t.Error("kept, though no cycle asked for the load before the last")
	}

	// The same holds for one node that no cycle asks for, because a filter rules it out.
	model.View(framework.NewCycleState()).Estimate(n)
	for range 2 {
		republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, 0)})
		model.View(framework.NewCycleState())
	}
	if model.cache.Load().nodes[0].Load() != nil {
		t.Error("a node's pods are kept, though no cycle asked for it since the load before the last")
	}
}

func TestPending_PodGroupCyclesKeepTheGeneration(t *testing.T) {
	// The scheduler assumes the pods of a group in its snapshot, one by one, and takes them out again. The node keeps its generation.
	model, _ := newModel(podusage.ByRequests{}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	n := framework.NewNodeInfo()
	n.SetNode(newNode(t, "n").Node())
	n.AddPod(podOf("", nil))
	generation := n.Generation
	model.View(framework.NewCycleState()).Estimate(n)
	member := func(name, cpu string) *corev1.Pod {
		return st.MakePod().Name(name).UID(name).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	}
	a, b, c := member("a", "500m"), member("b", "250m"), member("c", "125m")
	add := func(pod *corev1.Pod) { n.AddPod(pod) }
	remove := func(pod *corev1.Pod) {
		check.OK(t, n.RemovePod(klog.Background(), pod))
	}
	for _, step := range []struct {
		name   string
		change func()
		want   float64
	}{
		{"none", func() {}, 0},
		{"a", func() { add(a) }, 500},
		{"a and b", func() { add(b) }, 750},
		{"b", func() { remove(a) }, 250},
		{"none again", func() { remove(b) }, 0},
		{"c", func() { add(c) }, 125},
	} {
		step.change()
		n.Generation = generation
		state := minortest.PodGroupCycle(t)
		check.Equal(t, step.name+": pending", step.want, model.View(state).Estimate(n)[load.CPU].Pending)
	}
	remove(c)
	n.Generation = generation
	check.Equal(t, "once the group is done: pending", 0.0, model.View(framework.NewCycleState()).Estimate(n)[load.CPU].Pending)
}

func drawPod(t *rapid.T, i int) *corev1.Pod {
	phase := rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).
		Draw(t, "phase")
	drawTime := func(label string) *metav1.Time {
		if rapid.Bool().Draw(t, label+" is set") {
			return ago(time.Duration(rapid.Int64Range(-int64(window), 3*int64(window)).Draw(t, label)))
		}
		return nil
	}
	pod := podOf(phase, drawTime("start"), drawTime("container"), drawTime("container"))
	pod.Name = string(rune('a' + i))
	cpu := rapid.Int64Range(0, 4000).Draw(t, "cpu")
	pod.Spec = st.MakePod().
		Res(map[corev1.ResourceName]string{corev1.ResourceCPU: strconv.FormatInt(cpu, 10) + "m", corev1.ResourceMemory: strconv.FormatInt(cpu, 10)}).
		Obj().
		Spec
	return pod
}

func TestPending_Properties(t *testing.T) {
	object := newNode(t, "n").Node()
	rapid.Check(t, func(t *rapid.T) {
		var pods []*corev1.Pod
		var total float64
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			pod := drawPod(t, i)
			total += float64(pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
			pods = append(pods, pod)
		}
		var info fwk.NodeInfo = framework.NewNodeInfo(pods...)
		info.SetNode(object)
		pending := func(age time.Duration) float64 {
			model, _ := newModel(podusage.ByRequests{}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, age)}})
			return model.View(framework.NewCycleState()).Estimate(info)[load.CPU].Pending
		}

		const step = time.Second
		ages := rapid.Int64Range(0, int64(maxAge/2)).Draw(t, "age")
		before, after := pending(time.Duration(ages)+step), pending(time.Duration(ages))
		if after < 0 || after > total+1e-6 {
			t.Fatalf("pending %v is outside [0, %v], the sum of the pods' usage", after, total)
		}
		if after > before+1e-6 {
			t.Fatalf("pending rises from %v to %v as the window moves on", before, after)
		}
		// While the window moves on by one second no pod's uncovered share moves by more than 1/300.
		if before-after > total*step.Seconds()/window.Seconds()+1e-6 {
			t.Fatalf("pending jumps from %v to %v within one second", before, after)
		}
	})
}

func TestPending_CompletesTheMeasurementAtEveryMoment(t *testing.T) {
	// A pod of u milliCPU starts on an idle node of 8,000, and the source measures it truly. After it has run for r, a mean over the
	// window shows u·min(r/window, 1). With what is pending that is u at every moment, without a jump.
	const u = 1000
	object := newNode(t, "n").Node()
	pod := podOf(corev1.PodRunning, nil, &metav1.Time{Time: now})
	pod.Spec = st.MakePod().Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "1"}).Obj().Spec
	info := framework.NewNodeInfo(pod)
	info.SetNode(object)
	for ran := -10 * time.Second; ran <= window+10*time.Second; ran += time.Second {
		shown := u * min(max(ran.Seconds()/window.Seconds(), 0), 1)
		m := measurement(shown/8000, 0, -ran)
		p := load.NewPublisher()
		publish(p, map[string]load.NodeLoad{"n": {load.CPU: m}})
		model := modelOn(NewSnapshots(p), podusage.ByRequests{})
		model.config.Clock = clocktesting.NewFakePassiveClock(now.Add(ran))
		got := model.View(framework.NewCycleState()).Estimate(info)[load.CPU]
		if math.Abs(got.Mean+got.Pending-u) > 1e-6 {
			t.Fatalf("after %v: %v measured and %v pending, want %v together", ran, got.Mean, got.Pending, u)
		}
	}
}

func TestPending_IsZeroOnceTheWindowCoversAllPods(t *testing.T) {
	object := newNode(t, "n").Node()
	rapid.Check(t, func(t *rapid.T) {
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			pod := drawPod(t, i)
			started := ago(window + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "ran")))
			pod.Status = podOf(corev1.PodRunning, started, started).Status
			pods = append(pods, pod)
		}
		info := framework.NewNodeInfo(pods...)
		info.SetNode(object)
		model, _ := newModel(podusage.ByRequests{}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
		if got := model.View(framework.NewCycleState()).Estimate(info)[load.CPU].Pending; got != 0 {
			t.Fatalf("pending %v, want 0", got)
		}
	})
}

// cpuOnly estimates the same milliCPU for each pod, whatever it requests.
type cpuOnly struct {
	podusage.ByRequests
	millis float64
}

func (c cpuOnly) PendingUsage(*corev1.Pod) (usage, byDefault podusage.Amounts) {
	return podusage.Amounts{load.CPU: c.millis}, podusage.Amounts{}
}

// boundAgo is a pod that requests so much cpu and was bound that long before now. It does not run yet.
func boundAgo(d time.Duration, request string) *corev1.Pod {
	pod := podOf(corev1.PodPending, nil)
	pod.Spec = st.MakePod().Req(map[corev1.ResourceName]string{corev1.ResourceCPU: request}).Obj().Spec
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *ago(d)},
	}
	return pod
}

func TestPending_IsBounded(t *testing.T) {
	assumed := boundAgo(0, "200m")
	assumed.Status.Conditions = nil
	runs := func(pod *corev1.Pod, restarts int32, started *metav1.Time) *corev1.Pod {
		status := podOf(corev1.PodRunning, started, ago(time.Minute)).Status
		status.Conditions, status.ContainerStatuses[0].RestartCount = pod.Status.Conditions, restarts
		pod.Status = status
		return pod
	}
	// The window has five minutes and ends now. The node offers 6,000 milliCPU.
	for _, tc := range []struct {
		name  string
		usage float64
		pod   *corev1.Pod
		want  float64
	}{
		{"an assumed pod counts in full", 500, assumed, 500},
		{"a pod that does not run counts in full for two windows from its binding", 500, boundAgo(2*window-time.Second, "200m"), 500},
		{"and its request from then on", 500, boundAgo(2*window, "200m"), 200},
		{"usage below the request stays", 100, boundAgo(time.Hour, "200m"), 100},
		{"usage is capped at allocatable", 1e6, boundAgo(0, "200m"), 6000},
		// 1 − 60/300 = 0.8
		{"a pod that has run for 60 s counts four fifths", 500, runs(boundAgo(2*time.Minute, "200m"), 0, ago(2*time.Minute)), 400},
		{"and of its request if it was bound long ago", 500, runs(boundAgo(time.Hour, "200m"), 0, ago(2*time.Minute)), 160},
		{"a restart does not renew pending usage", 500, runs(boundAgo(2*window-time.Second, "200m"), 3, ago(window)), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, _ := newModel(cpuOnly{millis: tc.usage}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
			info := framework.NewNodeInfo(tc.pod)
			info.SetNode(newNode(t, "n").Node())
			check.Equal(t, "pending milliCPU", tc.want, model.View(framework.NewCycleState()).Estimate(info)[load.CPU].Pending,
				cmpopts.EquateApprox(0, 1e-9))
		})
	}
}

func TestPending_InitPhase(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	request := func(name, cpu string) corev1.Container {
		c := corev1.Container{Name: name}
		if cpu != "" {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
		return c
	}
	sidecar := request("sidecar", "500m")
	sidecar.RestartPolicy = &always
	limited := request("init", "1")
	limited.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	since := func(name string, d time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *ago(d)}}}
	}
	succeeded := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	}
	waits := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	ranBefore := waits
	ranBefore.LastTerminationState = succeeded("main").State
	again := since("init", 10*time.Second)
	again.RestartCount = 1
	const long, minute = 10 * time.Minute, time.Minute // 1 − 60/300 = 0.8 of a minute is not covered
	init3, main100 := request("init", "3"), request("main", "100m")
	type list = []corev1.Container
	type statuses = []corev1.ContainerStatus
	for _, tc := range []struct {
		name       string
		whole      *corev1.ResourceRequirements
		init       list
		main       corev1.Container
		initStatus statuses
		mainStatus corev1.ContainerStatus
		bound      time.Duration
		// In milliCPU. By spec, a request counts 1.5 times, and a container without one 1,000. The node offers 6,000.
		byRequests, bySpec float64
	}{
		{name: "before it, the most that the scheduler reserves", init: list{init3}, main: main100, mainStatus: waits, byRequests: 3000, bySpec: 150},
		{name: "once the window covers it, nothing", init: list{init3}, main: main100, initStatus: statuses{since("init", long)}, mainStatus: waits},
		{
			name: "a minute of it is covered", init: list{init3}, main: main100, initStatus: statuses{since("init", minute)}, mainStatus: waits,
			byRequests: 2400, bySpec: 3600, // 0.8 · 3,000 and 0.8 · 4,500
		},
		{
			name: "after it, the main container", init: list{init3}, main: main100, initStatus: statuses{succeeded("init")}, mainStatus: since("main", minute),
			byRequests: 80, bySpec: 120, // 0.8 · 100 and 0.8 · 150
		},
		{
			name: "the main container pulls its image", init: list{init3}, main: main100, initStatus: statuses{succeeded("init")}, mainStatus: waits,
			byRequests: 100, bySpec: 150,
		},
		{
			name: "a larger main container waits with the difference", init: list{request("init", "1")}, main: request("main", "3"),
			initStatus: statuses{since("init", long)}, mainStatus: waits, byRequests: 2000, bySpec: 3000, // 3,000 − 1,000 and 4,500 − 1,500
		},
		{
			name: "an ended init container does not count beside the next one", init: list{init3, request("next", "200m")}, main: main100,
			initStatus: statuses{succeeded("init"), since("next", long)}, mainStatus: waits,
		},
		{
			name: "a sidecar is covered before the main container", init: list{sidecar}, main: request("main", "1"),
			initStatus: statuses{since("sidecar", long)}, mainStatus: since("main", minute), byRequests: 800, bySpec: 1200, // 0.8 · 1,000 and 0.8 · 1,500
		},
		{
			name: "and before an init container", init: list{sidecar, init3}, main: main100,
			initStatus: statuses{since("sidecar", long), since("init", minute)}, mainStatus: waits, byRequests: 2400, bySpec: 3600,
		},
		{
			name: "pod-level resources beyond those of the init container wait", whole: &corev1.ResourceRequirements{Requests: request("", "4").Resources.Requests},
			init: list{init3}, main: main100, initStatus: statuses{since("init", long)}, mainStatus: waits, byRequests: 1000, bySpec: 1500,
		},
		{
			name: "an init container without requests may use all of them", whole: &corev1.ResourceRequirements{Requests: request("", "4").Resources.Requests},
			init: list{request("init", "")}, main: main100, initStatus: statuses{since("init", long)}, mainStatus: waits,
		},
		{
			// The API server derives the pod's request of 3 from its init container, because the pod limits its memory.
			name: "a derived pod-level request ends with its init container", whole: &corev1.ResourceRequirements{
				Requests: init3.Resources.Requests, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			}, init: list{init3}, main: main100, initStatus: statuses{succeeded("init")}, mainStatus: since("main", minute), byRequests: 80, bySpec: 120,
		},
		{name: "a restart does not renew it", init: list{init3}, main: main100, initStatus: statuses{again}, mainStatus: waits},
		{name: "nor does a restart of the whole pod", init: list{init3}, main: request("main", "4"), initStatus: statuses{again}, mainStatus: ranBefore},
		{
			name: "the default is of the main container", init: list{request("init", "")}, main: request("main", ""),
			initStatus: statuses{since("init", long)}, mainStatus: waits, bySpec: 1000,
		},
		{
			name: "long after binding, requests cap it", init: list{limited}, main: main100, initStatus: statuses{since("init", minute)}, mainStatus: waits,
			bound: time.Hour, byRequests: 800, bySpec: 800, // 0.8 · 1,000
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := boundAgo(max(tc.bound, minute), "1")
			pod.Spec = corev1.PodSpec{Containers: list{tc.main}, InitContainers: tc.init, Resources: tc.whole}
			pod.Status.StartTime, pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = ago(long), tc.initStatus, statuses{tc.mainStatus}
			info := framework.NewNodeInfo(pod)
			info.SetNode(newNode(t, "n").Node())
			bySpec := podusage.BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000, MaxRequestRatio: 10}
			for e, want := range map[podusage.Estimator]float64{podusage.ByRequests{}: tc.byRequests, bySpec: tc.bySpec} {
				model, _ := newModel(e, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
				view := model.View(framework.NewCycleState())
				of := view.Pods(info)[0].Resources[load.CPU]
				if got := view.Estimate(info)[load.CPU].Pending; math.Abs(got-want) > 1e-3 || of.Pending != got {
					t.Errorf("%T: pending %v milliCPU on the node and %v of the pod, want %v", e, got, of.Pending, want)
				}
				if math.Abs(of.Usage*(1-of.Coverage)-of.Pending) > 1e-3 {
					t.Errorf("%T: %+v: pending is not the uncovered usage", e, of)
				}
			}
		})
	}
}

func TestPending_FallsToTheRequestWithTheWindow(t *testing.T) {
	model, publisher := newModel(cpuOnly{millis: 500}, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := framework.NewNodeInfo(boundAgo(2*window-time.Minute, "200m"))
	info.SetNode(newNode(t, "n").Node())
	for _, step := range []struct {
		end  time.Duration
		want float64
	}{{0, 500}, {59 * time.Second, 500}, {time.Minute, 200}} {
		republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, -step.end)})
		check.Equal(t, fmt.Sprintf("pending once the window ends %v later", step.end), step.want,
			model.View(framework.NewCycleState()).Estimate(info)[load.CPU].Pending)
	}
}

func TestPods(t *testing.T) {
	named := func(name, cpu, memory string, pod *corev1.Pod) *corev1.Pod {
		pod.Name = name
		pod.Spec = st.MakePod().Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}).Obj().Spec
		return pod
	}
	pods := []*corev1.Pod{
		named("assumed", "1", "1Gi", podOf("", nil)),
		named("young", "1", "1Gi", podOf(corev1.PodRunning, nil, ago(time.Minute))),
		named("ended", "1", "1Gi", podOf(corev1.PodSucceeded, nil, ago(10*time.Second))),
		named("old", "1", "2Gi", podOf(corev1.PodRunning, nil, ago(30*time.Minute))),
		named("huge", "7", "1Gi", podOf("", nil)), // of 6 cores
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(newNode(t, "n").Node())
	type row struct {
		name        string
		since       time.Time
		cpu, memory PodResourceLoad
	}
	since := map[string]time.Time{"young": now.Add(-time.Minute), "old": now.Add(-30 * time.Minute)}
	for _, tc := range []struct {
		name     string
		measured load.NodeLoad
		want     []row
	}{
		// The window of cpu shows a minute of five of the young pod. Memory was last measured as that pod started.
		{
			name:     "of a node whose load is fresh",
			measured: load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.5, 0, time.Minute)}, want: []row{
				{"assumed", time.Time{}, PodResourceLoad{1000, 0, 1000}, PodResourceLoad{gib, 0, gib}},
				{"young", since["young"], PodResourceLoad{1000, 0.2, 800}, PodResourceLoad{gib, 0, gib}},
				{"old", since["old"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{2 * gib, 1, 0}},
				{"huge", time.Time{}, PodResourceLoad{6000, 0, 6000}, PodResourceLoad{gib, 0, gib}},
			},
		},
		{
			name:     "of a node whose memory was measured too long ago count requests",
			measured: load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.5, 0, time.Hour)}, want: []row{
				{"assumed", time.Time{}, PodResourceLoad{1000, 0, 1000}, PodResourceLoad{gib, 1, 0}},
				{"young", since["young"], PodResourceLoad{1000, 0.2, 800}, PodResourceLoad{gib, 1, 0}},
				{"old", since["old"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{2 * gib, 1, 0}},
				{"huge", time.Time{}, PodResourceLoad{6000, 0, 6000}, PodResourceLoad{gib, 1, 0}},
			},
		},
		{
			name: "of a node that was never measured count requests", want: []row{
				{"assumed", time.Time{}, PodResourceLoad{1000, 1, 0}, PodResourceLoad{gib, 1, 0}},
				{"young", since["young"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{gib, 1, 0}},
				{"old", since["old"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{2 * gib, 1, 0}},
				{"huge", time.Time{}, PodResourceLoad{7000, 1, 0}, PodResourceLoad{gib, 1, 0}},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loads := map[string]load.NodeLoad{"other": {load.CPU: measurement(0.25, 0, 0)}}
			if tc.measured != (load.NodeLoad{}) {
				loads["n"] = tc.measured
			}
			model, _ := newModel(podusage.ByRequests{}, loads)
			var got []row
			view := model.View(framework.NewCycleState())
			for _, p := range view.Pods(info) {
				for r := range load.ResourceCount {
					if of, uncovered := p.Resources[r], view.Uncovered(info, p.Pod, r); uncovered != 1-of.Coverage {
						t.Errorf("the uncovered share of %s of pod %s is %v, want 1 - %v", r, p.Pod.Name, uncovered, of.Coverage)
					}
				}
				got = append(got, row{p.Pod.Name, p.Since, p.Resources[load.CPU], p.Resources[load.Memory]})
			}
			check.Equal(t, "pods", tc.want, got, cmp.AllowUnexported(row{}))
		})
	}
}
