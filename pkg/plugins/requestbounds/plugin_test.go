package requestbounds

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

const gpu = "example.com/gpu"

func build(t testing.TB) *RequestBounds {
	t.Helper()
	plugin := check.Value(Describe().New(t.Context(), nil, plugintest.NewHandle(), plugintest.NewLoads().Deps()))(t)
	return plugin.(*RequestBounds)
}

// cluster is two nodes. The larger has 8 cores, 32Gi of memory, 4 GPUs and 110 pods, and is not the first.
func cluster() []fwk.NodeInfo {
	large := plugintest.CPUAndMemory("8", "32Gi")
	large[gpu], large[corev1.ResourcePods] = "4", "110"
	return []fwk.NodeInfo{plugintest.Node("small", plugintest.CPUAndMemory("4", "16Gi")), plugintest.Node("large", large)}
}

// with returns a pod with one container for each list of requests, such as "memory=5Ei,cpu=1".
func with(lists ...string) *corev1.Pod {
	pod := st.MakePod().Namespace("ns").Name("p").UID("p").SchedulerName("default-scheduler").Obj()
	for i, list := range lists {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: requests(list)})
	}
	return pod
}

func requests(list string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: listOf(list)}
}

func listOf(list string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for _, pair := range strings.Split(list, ",") {
		name, quantity, _ := strings.Cut(pair, "=")
		all[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return all
}

// Bounds: 1,000 · 32Gi is 32000Gi, 1,000 · 8 cores are 8k, 1,000 · 4 GPUs are 4k. 2⁶³ − 1 is 9223372036854775807, which is 8Ei − 1.
func TestPreFilter(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	edit := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		change(pod)
		return pod
	}
	initContainer := func(list string, policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers,
				corev1.Container{Name: fmt.Sprint("init-", list), RestartPolicy: policy, Resources: requests(list)})
		}
	}
	overhead := func(list string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Overhead = listOf(list) }
	}
	wholePod := func(list string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { r := requests(list); pod.Spec.Resources = &r }
	}
	const tooMany, tooLarge = "more than the scheduler can count", "more than 1000 times what the largest node has"
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []fwk.NodeInfo
		want  string // in the reason; empty if the pod passes
	}{
		{"no requests", with(), cluster(), ""},
		{"usual requests", with("cpu=1,memory=1Gi", "cpu=500m"), cluster(), ""},
		{"a sum that wraps to a negative int64", with("memory=5Ei", "memory=5Ei"), cluster(), "10Ei of memory, " + tooMany},
		{"a sum that wraps to 0", with("memory=4Ei", "memory=4Ei", "memory=4Ei", "memory=4Ei"), cluster(), "16Ei of memory, " + tooMany},
		{"one quantity of 9E", with("memory=9E"), cluster(), "9E of memory, " + tooLarge + " (32Gi): lower its requests"},
		{"two quantities of 9E", with("memory=9E", "memory=9E"), cluster(), "18E of memory, " + tooMany},
		{"a quantity that the scheduler takes for 0", with("memory=1e30"), cluster(), "1e+30 of memory, " + tooMany},
		{"a quantity that is slow to add", with("memory=1e800000000", "memory=1"), cluster(), "+Inf of memory, " + tooMany},
		{"zero, written with a large exponent", with("memory=0e999"), cluster(), ""},
		{"milliCPU beyond int64", with("cpu=9223372036854775807m", "cpu=1m"), cluster(), "of cpu, " + tooMany},
		{"milliCPU of one quantity beyond int64", with("cpu=9P", "cpu=1P"), cluster(), "10P of cpu, " + tooMany},
		{"a fraction that is rounded up to 2⁶³", with(gpu+"x=9223372036854775807", gpu+"x=1n"), cluster(), "of " + gpu + "x, " + tooMany},
		{"exactly 1,000 times the largest memory", with("memory=32000Gi"), cluster(), ""},
		{"one byte more", with("memory=32000Gi", "memory=1"), cluster(), "of memory, " + tooLarge + " (32Gi)"},
		{"exactly 1,000 times the most cores", with("cpu=7999", "cpu=1"), cluster(), ""},
		{"one milliCPU more", with("cpu=8000", "cpu=1m"), cluster(), "8000001m of cpu, " + tooLarge + " (8)"},
		{"a little more, in many containers", with(strings.Split(strings.Repeat("memory=321Gi ", 100), " ")[:100]...), cluster(), "32100Gi of memory"},
		{"an extended resource, exactly 1,000 times", with(gpu + "=4k"), cluster(), ""},
		{"an extended resource, one more", with(gpu + "=4001"), cluster(), "4001 of " + gpu + ", " + tooLarge + " (4)"},
		{"an extended resource that no node has", with("example.com/none=9223372036854775807"), cluster(), ""},
		{"its sum beyond int64", with("example.com/none=9223372036854775807", "example.com/none=1"), cluster(), "of example.com/none, " + tooMany},
		{"storage that no node has", with("ephemeral-storage=1Ei"), cluster(), ""},
		{"overhead", edit(with("memory=1Gi"), overhead("memory=32000Gi")), cluster(), "32001Gi of memory, " + tooLarge},
		{"overhead that wraps", edit(with("memory=4Ei"), overhead("memory=4Ei")), cluster(), "8Ei of memory, " + tooMany},
		// The init container runs alone: the maximum counts, which is 20000Gi.
		{"an init container", edit(with("memory=20000Gi"), initContainer("memory=20000Gi", nil)), cluster(), ""},
		{"a large init container", edit(with("memory=1Gi"), initContainer("memory=32001Gi", nil)), cluster(), "32001Gi of memory"},
		{"a sidecar", edit(with("memory=20000Gi"), initContainer("memory=20000Gi", &always)), cluster(), "40000Gi of memory"},
		{"a sidecar that wraps", edit(with("memory=5Ei"), initContainer("memory=5Ei", &always)), cluster(), "10Ei of memory, " + tooMany},
		{"requests of the whole pod", edit(with("memory=1Gi"), wholePod("memory=32001Gi")), cluster(), "32001Gi of memory"},
		{"requests of the whole pod replace those of containers", edit(with("memory=20000Gi", "memory=20000Gi"), wholePod("memory=1Gi")), cluster(), ""},
		{"no nodes", with("memory=7Ei"), nil, ""},
		{"no nodes, and a sum that wraps", with("memory=5Ei", "memory=5Ei"), nil, "10Ei of memory, " + tooMany},
		{"a part of the nodes", with("memory=16001Gi"), cluster()[:1], "16001Gi of memory, " + tooLarge + " (16Gi)"},
		{"all nodes", with("memory=16001Gi"), cluster(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, status := build(t).PreFilter(t.Context(), framework.NewCycleState(), tt.pod, tt.nodes)
			if tt.want == "" {
				if !status.IsSuccess() {
					t.Errorf("rejected: %v", status)
				}
				return
			}
			if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), tt.want) {
				t.Errorf("%v: %q, want %q", status.Code(), status.Message(), tt.want)
			}
		})
	}
}

// Usual pods cost no allocation. One that is near a bound is summed up.
func TestPreFilter_AllocatesNothing(t *testing.T) {
	pl, state, nodes := build(t), framework.NewCycleState(), cluster()
	pod := with("cpu=1,memory=1Gi,"+gpu+"=1", "cpu=500m,memory=500Mi")
	pod.Spec.Overhead = listOf("cpu=10m")
	check.Equal(t, "allocations", 0.0, testing.AllocsPerRun(100, func() { pl.PreFilter(t.Context(), state, pod, nodes) }))
}

// A rejected pod waits until a node covers a request that none covered, or its own requests go down.
func TestRequeue(t *testing.T) {
	node := func(name, cpu, memory string) *corev1.Node {
		return st.MakeNode().Name(name).Capacity(plugintest.CPUAndMemory(cpu, memory)).Obj()
	}
	other := with("memory=1Gi")
	other.UID = "other"
	for _, tt := range []struct {
		name        string
		pod         *corev1.Pod
		before, now any
		want        fwk.QueueingHint
	}{
		// 1,000 · 33Gi are 33000Gi.
		{"a new node is large enough", with("memory=33000Gi"), nil, node("n", "8", "33Gi"), fwk.Queue},
		{"a new node is too small", with("memory=33000Gi"), nil, node("n", "8", "32Gi"), fwk.QueueSkip},
		{"a new node is large enough for one of two requests", with("memory=33000Gi,cpu=9k"), nil, node("n", "8", "33Gi"), fwk.Queue},
		{"a node grows", with("memory=33000Gi"), node("n", "8", "32Gi"), node("n", "8", "33Gi"), fwk.Queue},
		{"a node grows too little", with("memory=33000Gi"), node("n", "8", "31Gi"), node("n", "8", "32Gi"), fwk.QueueSkip},
		{"a node grows that was large enough for a part", with("memory=33000Gi,cpu=1"), node("n", "8", "32Gi"), node("n", "9", "32Gi"), fwk.QueueSkip},
		{"no node helps", with("memory=5Ei", "memory=5Ei"), nil, node("n", "8", "1Pi"), fwk.QueueSkip},
		{"a quantity that is slow to add", with("memory=1e800000000", "memory=1"), nil, node("n", "8", "1Pi"), fwk.QueueSkip},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check.Value(build(t).isQueueableAfterNode(klog.Background(), tt.pod, tt.before, tt.now))(t)
			check.Equal(t, "isQueueableAfterNode", tt.want, got)
		})
	}
	for pod, want := range map[*corev1.Pod]fwk.QueueingHint{with("memory=1Gi"): fwk.Queue, other: fwk.QueueSkip} {
		check.Equal(t, fmt.Sprintf("pod %s", pod.UID), want,
			check.Value(build(t).isQueueableAfterPodScaleDown(klog.Background(), with("memory=5Ei"), with("memory=5Ei"), pod))(t))
	}
}

// The scheduler's own queue tries a rejected pod again when a larger node comes.
func TestRequeue_Queue(t *testing.T) {
	q := plugintest.QueueWithRefused(t, build(t), with("memory=33000Gi"))
	for _, tt := range []struct {
		memory string
		want   int // pods that wait on
	}{{"32Gi", 1}, {"33Gi", 0}} {
		node := st.MakeNode().Name("n").Capacity(plugintest.CPUAndMemory("8", tt.memory)).Obj()
		event := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
		q.MoveAllToActiveOrBackoffQueue(klog.Background(), event, nil, node, nil)
		check.Equal(t, fmt.Sprintf("pods wait after a node with %s", tt.memory), tt.want, len(q.UnschedulablePods()))
	}
}

// The plugin takes no arguments.
func TestNew_Args(t *testing.T) {
	args := plugintest.Args(t, "TargetLoadPackingArgs", "")
	_, err := Describe().New(t.Context(), args, plugintest.NewHandle(), plugintest.NewLoads().Deps())
	check.Error(t, err, "takes no arguments")
}
