package plugins_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// A refused pod waits for no node that the stock filters rule out for it.
func TestRequeue_StockFilters(t *testing.T) {
	node := func() *st.NodeWrapper {
		return st.MakeNode().
			Name("a").
			Label("pool", "this").
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourcePods: "100"})
	}
	tainted := func(effect corev1.TaintEffect) *st.NodeWrapper {
		return node().Taints([]corev1.Taint{{Key: "pool", Value: "this", Effect: effect}})
	}
	pod := func() *st.PodWrapper { return podOf("p", 0, "1") }
	for _, tc := range []struct {
		name string
		node *st.NodeWrapper
		pod  *st.PodWrapper
		want bool // whether the pod waits for the node
	}{
		{"any pod on any node", node(), pod(), true},
		{"a pod that selects the node", node(), pod().NodeSelector(map[string]string{"pool": "this"}), true},
		{"a pod that selects other nodes", node(), pod().NodeSelector(map[string]string{"pool": "other"}), false},
		{"a pod with affinity to the node", node(), pod().NodeAffinityIn("pool", []string{"this"}, st.NodeSelectorTypeMatchExpressions), true},
		{"a pod with affinity to other nodes", node(), pod().NodeAffinityIn("pool", []string{"other"}, st.NodeSelectorTypeMatchExpressions), false},
		{"an unschedulable node", node().Unschedulable(true), pod(), false},
		{"an unschedulable node that is tolerated", node().Unschedulable(true), pod().Toleration(corev1.TaintNodeUnschedulable), true},
		{"a taint", tainted(corev1.TaintEffectNoSchedule), pod(), false},
		{"a taint that evicts", tainted(corev1.TaintEffectNoExecute), pod(), false},
		{"a taint that prefers other nodes", tainted(corev1.TaintEffectPreferNoSchedule), pod(), true},
		{"a taint that is tolerated", tainted(corev1.TaintEffectNoSchedule), pod().Toleration("pool"), true},
	} {
		for _, plugin := range []string{"LoadThreshold", "NodeMetrics"} {
			t.Run(plugin+"/"+tc.name, func(t *testing.T) {
				loads := plugintest.NewLoads()
				measure := func(cpu, m float64) {
					loads.Measure(map[string]load.NodeLoad{"a": {load.CPU: plugintest.Measurement(cpu, 0)}},
						map[string]load.MetricTable{"m": {"a": {Value: m, End: plugintest.Now()}}})
				}
				measure(0.95, 9)
				profile := &decode(t, limited("Reject", "Reject", plugin)).Profiles[0]
				multiPoint := &profile.Plugins.MultiPoint
				multiPoint.Enabled = slices.DeleteFunc(multiPoint.Enabled,
					func(p schedconfig.Plugin) bool { return p.Name == "DynamicResources" }) // it needs a manager
				activated := make(activations, 10)
				f, factory := newFramework(t, profile, loads, activated, tc.node.Obj())
				if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(tc.node.Obj()); err != nil {
					t.Fatal(err)
				}

				anywhere := podOf("anywhere", 0, "1").Obj()
				anywhere.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				for _, pod := range []*corev1.Pod{tc.pod.Obj(), anywhere} {
					if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
						t.Fatal(err)
					}
					state, statuses := framework.NewCycleState(), framework.NewDefaultNodeToStatus()
					if _, status, _ := f.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
						t.Fatal(status)
					}
					info, err := f.SnapshotSharedLister().NodeInfos().Get("a")
					if err != nil {
						t.Fatal(err)
					}
					statuses.Set("a", f.RunFilterPlugins(t.Context(), state, pod, info))
					f.RunPostFilterPlugins(t.Context(), state, pod, statuses)
				}
				measure(0.1, 1)
				want := []string{"default/anywhere"}
				if tc.want {
					want = append(want, "default/p")
				}
				// The check that began last may have seen p alone, before anywhere. That of anywhere has seen both.
				got := map[string]*corev1.Pod{}
				for got[want[0]] == nil {
					select {
					case pods := <-activated:
						maps.Copy(got, pods)
					case <-time.After(patience):
						t.Fatalf("activated %v, want %v", slices.Sorted(maps.Keys(got)), want)
					}
				}
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
					t.Errorf("activated (-want +got):\n%s", diff)
				}
			})
		}
	}
}
