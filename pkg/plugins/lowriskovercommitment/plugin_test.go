package lowriskovercommitment

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// The types of columns.
type (
	points  = map[string]int64
	loadsOf = map[string]load.NodeLoad
	list    = []*corev1.Pod
)

const kind = "LowRiskOverCommitmentArgs"

// podOf has a container that requests cpu and has a limit of it; both may be empty. It has run for an hour.
func podOf(name, request, limit string) *corev1.Pod {
	pod := st.MakePod().Namespace("ns").Name(name).UID(name).Container("image").Obj()
	resources := &pod.Spec.Containers[0].Resources
	if request != "" {
		resources.Requests = st.MakePod().Req(plugintest.CPU(request)).Obj().Spec.Containers[0].Resources.Requests
	}
	if limit != "" {
		resources.Limits = st.MakePod().Lim(plugintest.CPU(limit)).Obj().Spec.Containers[0].Resources.Limits
	}
	return plugintest.Running(pod, time.Hour)
}

// uniform is a cpu load that is anything in [0, 1] alike: the probability of at most x is x.
func uniform() load.NodeLoad {
	return load.NodeLoad{load.CPU: plugintest.Measurement(0.5, deviationOf(1.0/12)), load.Memory: plugintest.Measurement(0, 0)}
}

// expired is a high load of an hour ago.
func expired() load.NodeLoad {
	full := plugintest.Measurement(0.9, 0)
	full.End = plugintest.Now().Add(-time.Hour)
	return load.NodeLoad{load.CPU: full, load.Memory: full}
}

func TestScore(t *testing.T) {
	steady := load.NodeLoad{load.CPU: plugintest.Measurement(0.1, 0), load.Memory: plugintest.Measurement(0, 0)}
	// The memory of all pods is unlimited, and none is requested: it has no part in the score.
	const cpuAlone = "riskLimitWeights: {memory: 0}\n"
	starting := podOf("starting", "4", "4")
	starting.Status = corev1.PodStatus{}

	// All nodes have 8 cores.
	for _, tc := range []struct {
		name, args string
		load       loadsOf
		onA, onB   list
		pod        *corev1.Pod
		want       points
	}{
		// Limits, both: (10 − 8) / (10 − 5) = 0.4. Load, a: 1 − (4/8) / (6/8) = 1/3; b: none. a: 0.2 + 0.1667; b: 0.2.
		{
			name: "limits and load both count", load: loadsOf{"a": uniform(), "b": steady}, onA: list{podOf("x", "3", "4"), podOf("y", "1", "2")},
			onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 63, "b": 80},
		},
		// a: 0.25·0.4 + 0.75/3 = 0.35; b: 0.1.
		{
			name: "weights", args: "riskLimitWeights: {cpu: 0.25, memory: 0}", load: loadsOf{"a": uniform(), "b": steady}, onA: list{podOf("x", "4", "6")},
			onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 65, "b": 90},
		},
		// Measured with half the deviation, over four times as many samples: the load is uniform as well.
		{
			name: "the smoothing window", args: "smoothingWindowSize: 20",
			load: loadsOf{"a": {load.CPU: plugintest.Measurement(0.5, deviationOf(1.0/12)/2), load.Memory: plugintest.Measurement(0, 0)}, "b": steady},
			onA:  list{podOf("x", "4", "6")}, onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 63, "b": 80},
		},
		// a: limits min(8, 10·4) + 4: (12 − 8) / (12 − 5) = 0.571, halved. b: the limits, 8, are the capacity.
		{
			name: "a pod without a limit may use ten times its request, and all of the node at most, if Unlimited", args: "unlimitedPods: Unlimited",
			load: loadsOf{"a": steady, "b": steady}, onA: list{podOf("x", "4", "")},
			onB: list{podOf("z", "4", "4")}, pod: podOf("p", "1", "4"), want: points{"a": 71, "b": 100},
		},
		{
			name: "one container without a limit is enough, if Unlimited", args: "unlimitedPods: Unlimited", load: loadsOf{"a": steady, "b": steady},
			onA: list{twoContainers()}, pod: podOf("p", "1", "4"), want: points{"a": 71, "b": 100},
		},
		// a: limits 4 + 5, requests 4 + 1: (9 − 8) / (9 − 5) = 0.25, halved. b: (11 − 8) / (11 − 5) = 0.5, halved.
		{
			name: "a pod without a limit counts with its request", load: loadsOf{"a": steady, "b": steady}, onA: list{podOf("x", "4", "")},
			onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", "5"), want: points{"a": 88, "b": 75},
		},
		// a: requests 4 + 1, limits 4 + 5: (9 − 8) / (9 − 5) = 0.25, halved.
		{
			name: "the limits of some containers are no limit", load: loadsOf{"a": steady, "b": steady},
			onA: list{twoContainers()}, pod: podOf("p", "1", "5"), want: points{"a": 88, "b": 100},
		},
		// Limits, both: 6 + min(8, 10·1), (14 − 8) / (14 − 5) = 0.667, halved. Load, a: a sixth.
		{
			name: "the pod itself has no limit, if Unlimited", args: "unlimitedPods: Unlimited", load: loadsOf{"a": uniform(), "b": steady},
			onA: list{podOf("x", "4", "6")}, onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", ""), want: points{"a": 50, "b": 67},
		},
		// Its limit is 1. Limits, a: 6 + 1 < 8, none; b: (9 − 8) / (9 − 5) = 0.25, halved. Load, a: 1/3, halved; b: none.
		{
			name: "the pod itself has no limit", load: loadsOf{"a": uniform(), "b": steady}, onA: list{podOf("x", "4", "6")}, onB: list{podOf("z", "4", "8")},
			pod: podOf("p", "1", ""), want: points{"a": 83, "b": 88},
		},
		// Limits, both: (9.1 − 8) / (9.1 − 4.6) = 0.244, halved 0.122. Load, a: 0.1 + 4/8 is more than the
		// requests, 4.5/8: 1, halved.
		{
			name: "pods that the window does not cover yet count", load: loadsOf{"a": steady, "b": steady}, onA: list{podOf("x", "500m", "5"), starting},
			onB: list{podOf("y", "500m", "5"), podOf("covered", "4", "4")}, pod: podOf("p", "100m", "100m"), want: points{"a": 38, "b": 88},
		},
		{
			name: "a node without load is scored by its limits, if Requests", args: "missingLoad: Requests", load: loadsOf{"a": uniform()},
			onA: list{podOf("x", "4", "6")}, onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 63, "b": 80},
		},
		{
			name: "load that has expired counts as none", args: "missingLoad: Requests", load: loadsOf{"a": uniform(), "b": expired()},
			onA: list{podOf("x", "4", "6")}, onB: list{podOf("z", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 63, "b": 80},
		},
		{
			name: "a node without load gets the mean of the others", load: loadsOf{"a": uniform()},
			onA: list{podOf("x", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 63, "b": 63},
		},
		// a: limits 0.01 + 5 + 4 + 1 = 10.01, requests 5.501: 2.01 / 4.509 = 0.446, halved. b: limits 0.001 + min(8, 40) + 1 =
		// 9.001, requests 5.001: 1.001 / 4 = 0.25, halved.
		{
			name: "a limit on the node counts up to ten times the request", load: loadsOf{"a": steady, "b": steady},
			onA: list{podOf("x", "1m", "1000"), podOf("y", "500m", "9223372036854775807"), podOf("z", "4", "4")},
			onB: list{podOf("x", "1m", ""), podOf("z", "4", "1E")}, pod: podOf("p", "1", "1"), want: points{"a": 78, "b": 87},
		},
		// a: limits 0.01 + 0 + 7 + 2, requests 5.001: 1.01 / 4.009 = 0.252, halved. b: 1 / 4, halved.
		{
			name: "without a limit, it counts as little, if Unlimited", args: "unlimitedPods: Unlimited", load: loadsOf{"a": steady, "b": steady},
			onA: list{podOf("x", "1m", ""), podOf("y", "", ""), podOf("z", "4", "7")}, onB: list{podOf("z", "4", "7")}, pod: podOf("p", "1", "2"),
			want: points{"a": 87, "b": 88},
		},
		// a: limits 1 + 7 + 1, requests 6: 1/3, halved. b: limits 8 + 7 + 1, requests 6: 0.8, halved.
		{
			name: "a container that fails claims its request alone", load: loadsOf{"a": steady, "b": steady},
			onA: list{failing(podOf("x", "1", "8")), podOf("z", "4", "7")}, onB: list{podOf("x", "1", "8"), podOf("z", "4", "7")},
			pod: podOf("p", "1", "1"), want: points{"a": 83, "b": 60},
		},
		// As before. Load, b: 0.1 + 1/8 is less than the requests.
		{
			name: "so does a pod that has not started two windows after its binding", load: loadsOf{"a": steady, "b": steady},
			onA: list{bound(podOf("x", "1", "8"), 10*time.Minute), podOf("z", "4", "7")},
			onB: list{bound(podOf("x", "1", "8"), 9*time.Minute), podOf("z", "4", "7")}, pod: podOf("p", "1", "1"), want: points{"a": 83, "b": 60},
		},
		// a: (9 − 8) / (9 − 9): beyond all bounds. b: the limits, 8, are the capacity.
		{
			name: "requests that take more than there is", load: loadsOf{"a": steady, "b": steady}, onA: list{podOf("x", "8", "8")},
			onB: list{podOf("z", "6", "7")}, pod: podOf("p", "1", "1"), want: points{"a": 0, "b": 100},
		},
		// Load, b: 1 − 6/8.
		{
			name: "requests that take more than there is, where limits do not count", args: "riskLimitWeights: {cpu: 0, memory: 0}\nunlimitedPods: Unlimited",
			load: loadsOf{"a": steady, "b": uniform()}, onA: list{podOf("x", "8", "8")}, onB: list{podOf("z", "6", "")}, pod: podOf("p", "1", "1"),
			want: points{"a": 100, "b": 75},
		},
		{
			name: "a pod that requests nothing and has no limits is not scored", load: loadsOf{"a": uniform(), "b": steady},
			onA: list{podOf("x", "4", "6")}, pod: podOf("p", "", ""), want: points{"a": 0, "b": 0},
		},
		{name: "no load is known", onA: list{podOf("x", "4", "6")}, pod: podOf("p", "1", "4"), want: points{"a": 0, "b": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := tc.args
			if args == "" || args[0] != 'r' {
				args = cpuAlone + args
			}
			pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, args), tc.load)
			got := plugintest.Scores(t, pl, tc.pod, plugintest.Node("a", plugintest.CPU("8"), tc.onA...),
				plugintest.Node("b", plugintest.CPU("8"), tc.onB...))
			check.Equal(t, "scores", tc.want, got)
		})
	}
}

// failing is the pod, whose image cannot be pulled.
func failing(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodPending
	waiting := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: waiting}},
	}
	return pod
}

// bound is the pod, bound so long ago, which has not started.
func bound(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(plugintest.Now().Add(-ago))},
	}}
	return pod
}

// twoContainers is a pod that requests 4 cores. One of its containers has a limit, of 6.
func twoContainers() *corev1.Pod {
	pod := podOf("two", "3", "6")
	pod.Spec.Containers = append(pod.Spec.Containers, podOf("", "1", "").Spec.Containers...)
	return pod
}

// Of two resources, the riskier decides.
func TestScore_RiskierResource(t *testing.T) {
	both := func(cpu, memory string) *corev1.Pod {
		pod := st.MakePod().Name("p").Req(plugintest.CPUAndMemory("1", "1Gi")).Obj()
		pod.Spec.Containers[0].Resources.Limits = st.MakePod().Lim(plugintest.CPUAndMemory(cpu, memory)).Obj().Spec.Containers[0].Resources.Limits
		return pod
	}
	idle := load.NodeLoad{load.CPU: plugintest.Measurement(0, 0), load.Memory: plugintest.Measurement(0, 0)}
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, ""), loadsOf{"n": idle})
	node := plugintest.Node("n", plugintest.CPUAndMemory("8", "8Gi"))
	for _, tc := range []struct {
		pod  *corev1.Pod
		want int64
	}{
		{both("8", "8Gi"), 100},
		{both("15", "8Gi"), 75}, // (15 − 8) / (15 − 1) = 0.5, halved
		{both("8", "15Gi"), 75},
		{both("15", "29Gi"), 63}, // (29 − 8) / (29 − 1) = 0.75, halved 0.375
	} {
		check.Equal(t, fmt.Sprintf("limits %v: score", tc.pod.Spec.Containers[0].Resources.Limits), tc.want,
			plugintest.Scores(t, pl, tc.pod, node)["n"])
	}
}

// A pod that comes, or goes, counts at once; so does other load.
func TestScore_FollowsTheNode(t *testing.T) {
	loads := plugintest.NewLoads()
	measure := func(n load.NodeLoad) { loads.Measure(loadsOf{"n": n}, nil) }
	measure(uniform())
	plugin := check.Value(Describe().New(t.Context(), plugintest.Args(t, kind, "riskLimitWeights: {memory: 0}"), plugintest.NewHandle(), loads.Deps()))(t)
	node, pod := plugintest.Node("n", plugintest.CPU("8"), podOf("x", "2", "4")), podOf("p", "1", "4")
	expect := func(when string, want int64) {
		t.Helper()
		check.Equal(t, when+": score", want, plugintest.Scores(t, plugin.(minor.ScorePlugin), pod, node)["n"])
	}
	expect("at first", 75) // load: 1 − (2/8) / (4/8) = 0.5, halved; limits: 8 of 8
	expect("again", 75)
	added := podOf("y", "2", "2")
	node.AddPodInfo(check.Value(framework.NewPodInfo(added))(t))
	expect("with another pod", 63) // load: 1 − (4/8) / (6/8) = 1/3; limits: (10 − 8) / (10 − 5) = 0.4
	measure(load.NodeLoad{load.CPU: plugintest.Measurement(0.1, 0), load.Memory: plugintest.Measurement(0, 0)})
	expect("with other load", 80)
	check.OK(t, node.RemovePod(ktesting.NewLogger(t, ktesting.NewConfig()), added))
	expect("without the other pod", 100)
}

// Limits are compared with what the node has, and not with what it offers to pods.
func TestScore_Capacity(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, "riskLimitWeights: {memory: 0}"), loadsOf{"n": uniform()})
	node := plugintest.Node("n", plugintest.CPU("8"), podOf("x", "2", "4"))
	object := node.Node().DeepCopy()
	object.Status.Allocatable = st.MakeNode().Capacity(plugintest.CPU("4")).Obj().Status.Capacity
	node.SetNode(object)
	// Limits: 8 of 8. Load: 1 − (2/8) / (4/8) = 0.5, halved.
	check.Equal(t, "score", int64(75), plugintest.Scores(t, pl, podOf("p", "1", "4"), node)["n"])
}

// PreScore skips pods without requests and limits.
func TestPreScore_BestEffort(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, ""), loadsOf{"n": uniform()}).(minor.PreScorePlugin)
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		skip bool
	}{
		{"nothing", podOf("p", "", ""), true}, {"a request", podOf("p", "1m", ""), false}, {"a limit", podOf("p", "", "1"), false},
		{"memory", st.MakePod().Req(plugintest.CPUAndMemory("0", "1Mi")).Obj(), false},
	} {
		check.Equal(t, fmt.Sprintf("pod with %s: skipped", tc.name), tc.skip,
			pl.PreScore(t.Context(), framework.NewCycleState(), tc.pod, nil).IsSkip())
	}
}

// Pods are signed alike if and only if they are scored alike.
func TestSignPod(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, ""), nil).(minor.SignPlugin)
	sign := func(pod *corev1.Pod) []minor.SignFragment {
		fragments, status := pl.SignPod(t.Context(), pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return fragments
	}
	same := sign(podOf("a", "1", "2"))
	if diff := cmp.Diff(same, sign(podOf("b", "1", "2"))); diff != "" {
		t.Errorf("pods with the same spec are signed differently:\n%s", diff)
	}
	for _, other := range []*corev1.Pod{podOf("c", "1", "3"), podOf("d", "2", "2"), podOf("e", "1", "")} {
		if cmp.Equal(same, sign(other)) {
			t.Errorf("pod %s is signed like one of other requests or limits", other.Name)
		}
	}
}

func TestExplain(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, "riskLimitWeights: {memory: 0}"), loadsOf{"n": uniform()})
	node := plugintest.Node("n", plugintest.CPUAndMemory("8", "8Gi"), podOf("x", "4", "6"))
	terms := pl.(*LowRiskOverCommitment).Explain(t.Context(), framework.NewCycleState(), podOf("p", "1", "4"), node)
	check.Equal(t, "explained as, want 63.33", 100*(1-0.2-1.0/6), terms.Score(), cmpopts.EquateApprox(0, 1e-9))
	var got []string
	for _, term := range terms.List() {
		got = append(got, term.String())
	}
	want := []string{
		"cpu measured 50%",
		"cpu deviation 12.91%",
		"cpu pending 0%",
		"cpu of the pod 12.5%",
		"cpu requests of all pods 62.5%",
		"cpu limits of all pods 125%",
		"cpu risk by limits 40%",
		"cpu risk by load 33.33%",
		"cpu risk 36.67%",
		"memory measured 0%",
		"memory deviation 0%",
		"memory pending 0%",
		"memory of the pod 0%",
		"memory requests of all pods 0%",
		"memory limits of all pods 0%",
		"memory risk by limits 0%",
		"memory risk by load 0%",
		"memory risk 0%",
	}
	check.Equal(t, "terms", want, got)
}
