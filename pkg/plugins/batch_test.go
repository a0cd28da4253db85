package plugins_test

import (
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
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/minortest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/plugintest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
)

// newFramework makes the scheduler's own framework of a profile, and its informers.
func newFramework(
	t *testing.T,
	profile *schedconfig.KubeSchedulerProfile,
	loads *plugintest.Loads,
	activator minor.PodActivator,
	nodes ...*corev1.Node,
) (framework.Framework, informers.SharedInformerFactory) {
	t.Helper()
	metrics.Register()
	registry := intree.NewInTreeRegistry()
	if err := registry.Merge(registryOn(loads, unregistered)); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	options := append(minortest.FrameworkOn(cache.NewSnapshot(nil, nodes)),
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory))
	f, err := frameworkruntime.NewFramework(t.Context(), registry, profile, options...)
	if err != nil {
		t.Fatal(err)
	}
	q := queue.NewTestQueue(t.Context(), f.QueueSortFunc())
	t.Cleanup(q.Close)
	f.SetPodNominator(q)
	f.SetPodActivator(activator)
	return f, factory
}

// profileOf is a profile with the plugin enabled at all of its extension points, and no stock plugins that filter or score.
func profileOf(t *testing.T, name string) *schedconfig.KubeSchedulerProfile {
	t.Helper()
	enabled := func(name string) schedconfig.PluginSet {
		return schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: name}}}
	}
	return &schedconfig.KubeSchedulerProfile{
		SchedulerName: "default-scheduler",
		Plugins: &schedconfig.Plugins{
			QueueSort:  enabled("PrioritySort"),
			Bind:       enabled("DefaultBinder"),
			MultiPoint: enabled(name),
		},
		PluginConfig: []schedconfig.PluginConfig{{Name: name, Args: plugintest.Args(t, kinds()[name], least(kinds()[name]))}},
	}
}

// activations holds the pods of each call of Activate.
type activations chan map[string]*corev1.Pod

// Activate implements minor.PodActivator.
func (a activations) Activate(_ klog.Logger, pods map[string]*corev1.Pod) { a <- pods }

// A node that was batched for a pod with a waiver is refused to a pod without one.
func TestBatch_Waiver(t *testing.T) {
	for _, name := range []string{loadthreshold.Name, nodemetrics.Name} {
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
					info, err := f.SnapshotSharedLister().NodeInfos().Get(node)
					if err != nil {
						t.Fatal(err)
					}
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
			if first := hint(state); first != "b" {
				t.Fatalf("the node to try first is %q, want that of the batch", first)
			}
			if filter("b").IsSuccess() {
				t.Error("the pod without a waiver gets the node")
			}
		})
	}
}
