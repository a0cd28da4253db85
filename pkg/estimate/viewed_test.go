package estimate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// podsWithout are two pods of namespace a without requests, and one of namespace b with a request of 500 milliCPU.
func podsWithout(t *testing.T, change func(*corev1.Pod)) fwk.NodeInfo {
	t.Helper()
	pods := []*corev1.Pod{
		st.MakePod().Namespace("a").Name("a0").Container("i").Obj(),
		st.MakePod().Namespace("a").Name("a1").Container("i").Obj(),
		st.MakePod().Namespace("b").Name("b0").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "500m"}).Obj(),
	}
	for _, pod := range pods {
		change(pod)
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(newNode(t, "n").Node())
	return info
}

func TestView_For(t *testing.T) {
	const mib = 1 << 20
	running := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			started := boundAgo(ago, "0").Status
			pod.Status.Conditions = started.Conditions
			pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &started.Conditions[0].LastTransitionTime
		}
	}
	// The default is 1 core and 1 GiB. To other namespaces, all of one namespace counts at most 100 milliCPU and 200 MiB.
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   map[string]podusage.Amounts
	}{
		{
			"just bound", func(*corev1.Pod) {}, map[string]podusage.Amounts{
				"":  {2*1000 + 500, 3 * gib},
				"a": {2*1000 + 500, 2*gib + 200*mib},
				"b": {100 + 500, 200*mib + gib},
				"c": {100 + 500, 200*mib + 200*mib},
			},
		},
		{
			"half covered", running(window / 2), map[string]podusage.Amounts{
				"":  {1000 + 250, 1.5 * gib},
				"a": {1000 + 250, gib + 200*mib},
				"b": {100 + 250, 200*mib + gib/2},
				"c": {100 + 250, 200*mib + 200*mib},
			},
		},
		{
			"below the bound together", running(window * 96 / 100), map[string]podusage.Amounts{
				"":  {0.04 * 2500, 0.04 * 3 * gib},
				"a": {0.04 * 2500, 0.04 * 3 * gib},
				"c": {0.04 * 2500, 0.04 * 3 * gib},
			},
		},
		{
			"bound for two windows, without a start", func(pod *corev1.Pod) { pod.Status.Conditions = boundAgo(2*window, "0").Status.Conditions },
			map[string]podusage.Amounts{"": {500, 0}, "a": {500, 0}, "c": {500, 0}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := podusage.ByRequests{Default: podusage.Amounts{load.CPU: 1000, load.Memory: gib}}
			n := load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.25, 0, 0)}
			model, _ := newModel(e, map[string]load.NodeLoad{"n": n})
			view, info := model.View(framework.NewCycleState()), podsWithout(t, tc.change)
			for namespace, want := range tc.want {
				of := view.For(st.MakePod().Namespace(namespace).Obj()).Estimate(info)
				near := cmp.Comparer(func(a, b float64) bool { return max(a-b, b-a) <= 1e-6*a+1e-9 })
				if diff := cmp.Diff(want, podusage.Amounts{of[load.CPU].Pending, of[load.Memory].Pending}, near); diff != "" {
					t.Errorf("pending for a pod of %q (-want +got):\n%s", namespace, diff)
				}
			}
		})
	}
}

func TestView_ForAllocatesNothingPerNode(t *testing.T) {
	model, _ := newModel(podusage.BySpec{DefaultCPUMillis: 1000, MaxRequestRatio: 10},
		map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := podsWithout(t, func(*corev1.Pod) {})
	view := model.View(framework.NewCycleState()).For(st.MakePod().Namespace("c").Obj())
	if allocs := testing.AllocsPerRun(100, func() { view.Resource(info, load.CPU) }); allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}
