package estimate

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

func TestNodeMetrics(t *testing.T) {
	aged := func(value float64, age time.Duration) load.MetricValue {
		return load.MetricValue{Value: value, End: now.Add(-age)}
	}
	p := load.NewPublisher()
	m := NewNodeMetrics(NewSnapshots(p), maxAge, clocktesting.NewFakePassiveClock(now))
	p.Publish(loadtest.Snapshot(nil, map[string]load.MetricTable{
		"x":     {"a": aged(1, 0), "b": aged(2, maxAge), "c": aged(3, maxAge+1)},
		"y":     {"c": aged(0, 0), "d": aged(-4, 0)},
		"old":   {"a": aged(5, maxAge+1)},
		"empty": {},
	}))
	infos := map[string]fwk.NodeInfo{}
	for _, name := range []string{"a", "b", "c", "d", "elsewhere"} {
		infos[name] = newNode(t, name)
	}
	type known struct {
		value float64
		known bool
	}
	for name, view := range map[string]NodeMetricsView{"latest": m.Latest(), "of a cycle": m.View(framework.NewCycleState())} {
		for metric, want := range map[string]map[string]known{
			"x":        {"a": {1, true}, "b": {2, true}, "c": {3, false}, "d": {0, false}, "elsewhere": {0, false}},
			"y":        {"a": {0, false}, "c": {0, true}, "d": {-4, true}, "elsewhere": {0, false}},
			"old":      {"a": {5, false}, "d": {0, false}},
			"empty":    {"a": {0, false}, "elsewhere": {0, false}},
			"not read": {"a": {0, false}, "elsewhere": {0, false}},
		} {
			values, wantAny := view.Values(metric), metric == "x" || metric == "y"
			check.Equal(t, fmt.Sprintf("%s: some node has a value of %s", name, metric), wantAny, values.Any())
			for node, want := range want {
				// By name, and by the node twice: the second time the row is memoized.
				for _, row := range []int{view.RowOf(node), view.Row(infos[node]), view.Row(infos[node])} {
					value, ok := values.At(row)
					if ok != want.known || ok && value != want.value {
						t.Errorf("%s: %s of %s is %v, %v; want %v", name, metric, node, value, ok, want)
					}
				}
			}
		}
	}
	for metric, want := range map[string][2]float64{"x": {1, 3}, "y": {-4, 0}} {
		if lowest, highest, ok := m.Latest().Values(metric).Range(); !ok || lowest != want[0] || highest != want[1] {
			t.Errorf("values of %s are from %v to %v, %v; want %v", metric, lowest, highest, ok, want)
		}
	}
	for _, metric := range []string{"empty", "not read"} {
		if lowest, highest, ok := m.Latest().Values(metric).Range(); ok {
			t.Errorf("values of %s are from %v to %v, want none", metric, lowest, highest)
		}
	}
	check.Equal(t, "a node without any value has row", NoRow, m.Latest().RowOf("elsewhere"))
}

// bound is a pod that was bound that long ago, and still pulls its images.
func bound(ago time.Duration) *corev1.Pod {
	pod := podOf(corev1.PodPending, nil)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now.Add(-ago)},
	}}
	return pod
}

func TestRecentPods(t *testing.T) {
	running := func(since time.Duration) *corev1.Pod { return podOf(corev1.PodRunning, ago(since)) }
	for _, tc := range []struct {
		name string
		// age is that of the value.
		age  time.Duration
		pods []*corev1.Pod
		want float64
	}{
		{"no pods", 0, nil, 0},
		{"a pod that was assumed a moment ago", 0, []*corev1.Pod{podOf("", nil)}, 1},
		// (1 − 0) + (1 − 60/300) + (1 − 240/300)
		{"pods count less the longer they run", 0, []*corev1.Pod{running(0), running(time.Minute), running(4 * time.Minute)}, 2},
		{"a pod that runs for the window", 0, []*corev1.Pod{running(window)}, 0},
		// A value from a minute ago covers the first minute of two: 1 − 60/300.
		{"an older value covers less", time.Minute, []*corev1.Pod{running(2 * time.Minute)}, 0.8},
		// 1 − (360 − 240)/300
		{"an old value does not cover pods older than the window", 4 * time.Minute, []*corev1.Pod{running(6 * time.Minute)}, 0.6},
		{"a pod that ended", 0, []*corev1.Pod{podOf(corev1.PodSucceeded, ago(time.Minute))}, 0},
		{"a pod that pulls its images", 0, []*corev1.Pod{bound(2*window - time.Second)}, 1},
		{"a pod that does not start", 0, []*corev1.Pod{bound(2 * window)}, 0},
		{"a pod that does not start, by an older value", time.Minute, []*corev1.Pod{bound(2 * window)}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := load.NewPublisher()
			m := NewNodeMetrics(NewSnapshots(p), maxAge, clocktesting.NewFakePassiveClock(now))
			p.Publish(loadtest.Snapshot(nil, map[string]load.MetricTable{"x": {"a": {Value: 1, End: now.Add(-tc.age)}}}))
			pods, view := m.RecentPods(window), m.View(framework.NewCycleState())
			info := framework.NewNodeInfo(tc.pods...)
			info.SetNode(st.MakeNode().Name("a").Obj())
			row := view.Row(info)
			check.Equal(t, "pods are uncovered on a node that was not read", 0, pods.Uncovered(view, row, view.Values("x"), window, ""))
			pods.Read(view, row, info)
			check.Equal(t, "pods are uncovered", tc.want, pods.Uncovered(view, row, view.Values("x"), window, ""),
				cmpopts.EquateApprox(0, 1e-9))
			check.Equal(t, "pods are uncovered without a row", 0.0, pods.Uncovered(view, NoRow, view.Values("x"), window, ""))
		})
	}
}

// Pods of a started pod's own namespace all count, those of each other namespace up to maxForeign.
func TestRecentPods_OfNamespaces(t *testing.T) {
	p := load.NewPublisher()
	m := NewNodeMetrics(NewSnapshots(p), maxAge, clocktesting.NewFakePassiveClock(now))
	p.Publish(loadtest.Snapshot(nil, map[string]load.MetricTable{"x": {"a": {Value: 1, End: now}}}))
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name("a").Obj())
	for i := range 5 {
		for _, namespace := range []string{"shop", "tenant", "shop"} { // ten of shop, five of tenant
			pod := podOf(corev1.PodPending, nil)
			pod.Namespace, pod.Name = namespace, fmt.Sprint(namespace, i)
			info.AddPod(pod)
		}
	}
	started := podOf(corev1.PodRunning, ago(4*time.Minute)) // 1 − 240/300
	started.Namespace = "team"
	info.AddPod(started)
	pods, view := m.RecentPods(window), m.View(framework.NewCycleState())
	pods.Read(view, view.Row(info), info)
	// Of shop 10 or 3, of tenant 5 or 3, of team 0.2.
	for namespace, want := range map[string]float64{"shop": 13.2, "tenant": 8.2, "team": 6.2, "other": 6.2} {
		check.Equal(t, fmt.Sprintf("pods are uncovered for namespace %s", namespace), want,
			pods.Uncovered(view, view.Row(info), view.Values("x"), window, namespace), cmpopts.EquateApprox(0, 1e-9))
	}
}

// A node that has not changed is not read again. Read of a changed one, and after a change of the nodes, finds its pods.
func TestRecentPods_ReadsChanges(t *testing.T) {
	p := load.NewPublisher()
	m := NewNodeMetrics(NewSnapshots(p), maxAge, clocktesting.NewFakePassiveClock(now))
	publish := func(nodes ...string) {
		values := load.MetricTable{}
		for _, node := range nodes {
			values[node] = load.MetricValue{Value: 1, End: now}
		}
		p.Publish(loadtest.Snapshot(nil, map[string]load.MetricTable{"x": values}))
	}
	publish("a")
	pods := m.RecentPods(window)
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name("a").Obj())
	uncovered := func() float64 {
		view := m.View(framework.NewCycleState())
		pods.Read(view, view.Row(info), info)
		return pods.Uncovered(view, view.Row(info), view.Values("x"), window, "")
	}
	check.Equal(t, "pods on the empty node", 0.0, uncovered())
	info.AddPod(podOf("", nil))
	check.Equal(t, "pods after one was placed", 1.0, uncovered())
	if allocations := testing.AllocsPerRun(100, func() { view := m.Latest(); pods.Read(view, 0, info) }); allocations > 1 {
		t.Errorf("%v allocations for a node that has not changed, want that of the view alone", allocations)
	}
	publish("0", "a") // another index, in which a has another row
	check.Equal(t, "pods after a node was added", 1.0, uncovered())
}
