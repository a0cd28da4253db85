package plugins_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// newFramework makes the scheduler's own framework of a profile, and its informers.
func newFramework(
	t testing.TB, profile *schedconfig.KubeSchedulerProfile, loads *plugintest.Loads, activator minor.PodActivator,
	nodes ...*corev1.Node,
) (framework.Framework, informers.SharedInformerFactory) {
	t.Helper()
	return frameworkOf(t, profile, registryOn(loads, unregistered), activator, nodes...)
}

// frameworkOf returns a framework of the profile, with the plugins of the registry beside the stock ones.
func frameworkOf(
	t testing.TB, profile *schedconfig.KubeSchedulerProfile, plugins frameworkruntime.Registry, activator minor.PodActivator,
	nodes ...*corev1.Node,
) (framework.Framework, informers.SharedInformerFactory) {
	t.Helper()
	metrics.Register()
	registry := intree.NewInTreeRegistry()
	check.OK(t, registry.Merge(plugins))
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	options := append(minortest.FrameworkOn(cache.NewSnapshot(nil, nodes)),
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory))
	f := check.Value(frameworkruntime.NewFramework(t.Context(), registry, profile, options...))(t)
	q := queue.NewTestQueue(t.Context(), f.QueueSortFunc())
	t.Cleanup(q.Close)
	f.SetPodNominator(q)
	f.SetPodActivator(activator)
	return f, factory
}

// profileOf is a profile with the plugin at all of its extension points. No stock plugin filters or scores.
func profileOf(t *testing.T, name string) *schedconfig.KubeSchedulerProfile {
	t.Helper()
	enabled := func(name string) schedconfig.PluginSet {
		return schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: name}}}
	}
	return &schedconfig.KubeSchedulerProfile{
		SchedulerName: "default-scheduler",
		Plugins:       &schedconfig.Plugins{QueueSort: enabled("PrioritySort"), Bind: enabled("DefaultBinder"), MultiPoint: enabled(name)},
		PluginConfig:  []schedconfig.PluginConfig{{Name: name, Args: plugintest.Args(t, kinds()[name], least(kinds()[name]))}},
	}
}

// activations holds the pods of each call of Activate.
type activations chan map[string]*corev1.Pod

// Activate implements minor.PodActivator.
func (a activations) Activate(_ klog.Logger, pods map[string]*corev1.Pod) { a <- pods }

// A node that was batched for a pod with a waiver is refused to a pod without one.
func TestBatch_Waiver(t *testing.T) {
	for name := range limiters() {
		t.Run(name, func(t *testing.T) {
			loads := plugintest.NewLoads()
			beyond := load.MetricValue{Value: 6, End: plugintest.Now()}
			loads.Measure(
				map[string]load.NodeLoad{"a": {load.CPU: plugintest.Measurement(0.9, 0)}, "b": {load.CPU: plugintest.Measurement(0.95, 0)}},
				map[string]load.MetricTable{"m0": {"a": beyond, "b": beyond}},
			)
			var nodes []*corev1.Node
			for _, name := range []string{"a", "b"} {
				nodes = append(nodes, st.MakeNode().Name(name).Capacity(plugintest.CPUAndMemory("8", "16Gi")).Obj())
			}
			f, _ := newFramework(t, profileOf(t, name), loads, make(activations, 10), nodes...)
			podNamed := func(name string) *corev1.Pod {
				return st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName("default-scheduler").Obj()
			}
			attempt := func(pod *corev1.Pod) (fwk.CycleState, func(node string) *fwk.Status) {
				state := framework.NewCycleState()
				if _, status, _ := f.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
					t.Fatal(status)
				}
				return state, func(node string) *fwk.Status {
					info := check.Value(f.SnapshotSharedLister().NodeInfos().Get(node))(t)
					return f.RunFilterPlugins(t.Context(), state, pod, info)
				}
			}
			waived, plain := podNamed("waived"), podNamed("plain")
			state, filter := attempt(waived)
			statuses := framework.NewDefaultNodeToStatus()
			for _, node := range nodes {
				statuses.Set(node.Name, filter(node.Name))
			}
			if _, status := f.RunPostFilterPlugins(t.Context(), state, waived, statuses); !status.IsSuccess() {
				t.Fatalf("PostFilter: %v", status)
			}
			if _, filter = attempt(waived); !filter("a").IsSuccess() || !filter("b").IsSuccess() {
				t.Fatal("nothing is waived")
			}
			hint := minortest.Batch(t, f, waived, "a", "b", plain)

			state, filter = attempt(plain)
			check.Require(t, "the node to try first, want that of the batch", "b", hint(state))
			if filter("b").IsSuccess() {
				t.Error("the pod without a waiver gets the node")
			}
		})
	}
}

// From Kubernetes 1.37 on, the scheduler keeps what Score returned. For the next pod it scores the last node anew. It normalizes all
// scores in that pod's cycle, and the result must be that of one cycle.
func TestBatch_NormalizesScoresOfAnotherCycle(t *testing.T) {
	const nodes = 300
	for name := range kinds() {
		t.Run(name, func(t *testing.T) {
			loads := plugintest.NewLoads()
			measured := map[string]load.NodeLoad{}
			metrics := map[string]load.MetricTable{"m0": {}, "m1": {}, "m2": {}}
			var infos []fwk.NodeInfo
			for i := range nodes {
				node := fmt.Sprintf("n%d", i)
				of := plugintest.Measurement(0.1+0.8*float64(i)/nodes, 0.05)
				measured[node] = load.NodeLoad{load.CPU: of, load.Memory: of}
				for _, table := range metrics {
					table[node] = load.MetricValue{Value: 4 * float64(i) / nodes, End: plugintest.Now()}
				}
				infos = append(infos, plugintest.Node(node, plugintest.CPUAndMemory("8", "16Gi")))
			}
			loads.Measure(measured, metrics)
			pl := build(t, loads, name, "")
			pod := st.MakePod().Name("p").UID("p").Req(plugintest.CPUAndMemory("500m", "1Gi")).Obj()
			raw := func(infos ...fwk.NodeInfo) (fwk.CycleState, minor.NodeScoreList) {
				state := framework.NewCycleState()
				var list minor.NodeScoreList
				for _, n := range infos {
					score, status := pl.Score(t.Context(), state, pod, n)
					if !status.IsSuccess() {
						t.Fatal(status)
					}
					list = append(list, minor.NodeScore{Name: n.Node().Name, Score: score})
				}
				return state, list
			}
			normalized := func(state fwk.CycleState, list minor.NodeScoreList) minor.NodeScoreList {
				list = slices.Clone(list)
				if e := pl.ScoreExtensions(); e != nil {
					if status := e.NormalizeScore(t.Context(), state, pod, list); !status.IsSuccess() {
						t.Fatal(status)
					}
				}
				return list
			}
			first, all := raw(infos...)
			want := normalized(first, all)
			second, last := raw(infos[nodes-1])
			if got := normalized(second, append(slices.Clone(all[:nodes-1]), last...)); !slices.Equal(got, want) {
				t.Errorf("scores %v, want those of one cycle: %v", got, want)
			}
		})
	}
}
