package plugins_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// patience is the deadline for what a test waits for.
const patience = 5 * time.Minute

// live is the whole scheduler in front of a fake API.
type live struct {
	*testing.T
	client *fake.Clientset
	loads  *plugintest.Loads
	// load is the nodes' cpu utilization, and metric their value of the metric m.
	load, metric map[string]float64
	register     func(...metrics.Registerable)
}

// newLive makes a cluster of the nodes of loads, with 8 cores each, and the given objects. It starts no scheduler.
func newLive(t *testing.T, loads, metric map[string]float64, objects ...runtime.Object) *live {
	for name := range loads {
		objects = append(objects, st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi", corev1.ResourcePods: "100"}).
			Obj())
	}
	l := &live{T: t, client: fake.NewClientset(objects...), loads: plugintest.NewLoads(), load: loads, metric: metric, register: unregistered}
	l.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject()
		switch action.GetSubresource() {
		case "binding":
			binding := object.(*corev1.Binding)
			found, err := l.client.Tracker().Get(action.GetResource(), action.GetNamespace(), binding.Name)
			if err != nil {
				return true, nil, err
			}
			pod := found.(*corev1.Pod).DeepCopy()
			pod.Spec.NodeName = binding.Target.Name
			return true, binding, l.client.Tracker().Update(action.GetResource(), pod, action.GetNamespace())
		case "eviction":
			return true, nil, l.client.Tracker().Delete(action.GetResource(), action.GetNamespace(), object.(*policyv1.Eviction).Name)
		}
		return false, nil, nil
	})
	l.publish()
	return l
}

func (l *live) publish() {
	nodes, values := map[string]load.NodeLoad{}, load.MetricTable{}
	for name, utilization := range l.load {
		nodes[name] = load.NodeLoad{load.CPU: plugintest.Measurement(utilization, 0)}
	}
	for name, value := range l.metric {
		values[name] = load.MetricValue{Value: value, End: plugintest.Now()}
	}
	l.loads.Measure(nodes, map[string]load.MetricTable{"m": values})
}

// decode returns a configuration with the defaults applied.
func decode(t testing.TB, whole string) *schedconfig.KubeSchedulerConfiguration {
	t.Helper()
	object, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode([]byte(whole), nil, nil)
	if err != nil {
		t.Fatalf("%v:\n%s", err, whole)
	}
	return object.(*schedconfig.KubeSchedulerConfiguration)
}

// prepare makes a scheduler with the configuration's profiles. Its informers run, and it makes no decisions.
func (l *live) prepare(configuration *schedconfig.KubeSchedulerConfiguration) *scheduler.Scheduler {
	l.Helper()
	ctx, factory := l.Context(), informers.NewSharedInformerFactory(l.client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: l.client.EventsV1()})
	broadcaster.StartRecordingToSink(ctx.Done())
	s, err := scheduler.New(ctx, l.client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(configuration.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registryOn(l.loads, l.register)))
	if err != nil {
		l.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		l.Fatal(err)
	}
	return s
}

func (l *live) start(configuration string) {
	l.Helper()
	go l.prepare(decode(l.T, configuration)).Run(l.Context())
}

func (l *live) create(pod *corev1.Pod) {
	l.Helper()
	if _, err := l.client.CoreV1().Pods(pod.Namespace).Create(l.Context(), pod, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// pod returns the pod of that name, or nil.
func (l *live) pod(name string) *corev1.Pod {
	pod, err := l.client.CoreV1().Pods(metav1.NamespaceDefault).Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return pod
}

func (l *live) eventually(what string, done func() bool) {
	l.Helper()
	err := wait.PollUntilContextTimeout(l.Context(), time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		l.Fatalf("waiting for %s: %v", what, err)
	}
}

// refused waits until the pod is refused for the reason.
func (l *live) refused(name, reason string) {
	l.Helper()
	l.eventually(name+" to be refused: "+reason, func() bool {
		for _, condition := range l.pod(name).Status.Conditions {
			if strings.Contains(condition.Message, reason) {
				return true
			}
		}
		return false
	})
}

// bound waits until the pod is on the node.
func (l *live) bound(name, node string) {
	l.Helper()
	l.eventually(name+" to be bound", func() bool { return l.pod(name).Spec.NodeName != "" })
	if got := l.pod(name).Spec.NodeName; got != node {
		l.Errorf("%s is on %s, want %s", name, got, node)
	}
}

func podOf(name string, priority int32, cpu string) *st.PodWrapper {
	return st.MakePod().Namespace(metav1.NamespaceDefault).Name(name).UID(name).SchedulerName("default-scheduler").
		Priority(priority).Req(plugintest.CPU(cpu))
}

func running(pod *st.PodWrapper) *corev1.Pod { return plugintest.Running(pod.Obj(), time.Hour) }

// limited is a configuration with both limits, in the order of the names. They are cpu up to 80 %, and the metric m up to 5.
func limited(loadThreshold, nodeMetrics string, names ...string) string {
	return fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: %s}]}}
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80}, whenNoneFits: %s}}
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://prometheus:9090"}
      metrics: [{name: latency, query: m, prefer: Lower, reject: "> 5"}]
      whenNoneFits: %s
`, strings.Join(names, "}, {name: "), loadThreshold, nodeMetrics)
}

// beyond is a cluster in which, by either limit, hot is beyond it and cool is not.
func beyond(t *testing.T, objects ...runtime.Object) *live {
	return newLive(t, map[string]float64{"hot": 0.95, "cool": 0.1}, map[string]float64{"hot": 9, "cool": 1}, objects...)
}

// A relaxed limit holds for preemption only where preemption helps below it.
func TestLive_PreemptionBelowLimit(t *testing.T) {
	web := podOf("web", 1000, "4").Label("app", "web")
	for _, tc := range []struct {
		name           string
		onCool, web    *st.PodWrapper
		want, wantGone string
	}{
		{"a lesser pod is below the limit", podOf("other", 2, "8"), web, "cool", "other"},
		{"what is below the limit outranks the pod", podOf("other", 2000, "8"), web, "hot", "batch"},
		{
			"below the limit the pod is kept out by something else", podOf("other", 1000, "1").Label("app", "web"),
			podOf("web", 1000, "4").Label("app", "web").PodAntiAffinityExists("app", corev1.LabelHostname, st.PodAntiAffinityWithRequiredReq), "hot", "batch",
		},
		{
			"below the limit it is a lesser pod that keeps the pod out", podOf("other", 2, "1").Label("app", "web"),
			podOf("web", 1000, "4").Label("app", "web").PodAntiAffinityExists("app", corev1.LabelHostname, st.PodAntiAffinityWithRequiredReq), "cool", "other",
		},
	} {
		for _, plugin := range []string{"LoadThreshold", "NodeMetrics"} {
			t.Run(plugin+"/"+tc.name, func(t *testing.T) {
				l := beyond(t, running(podOf("batch", 1, "8").Node("hot")), running(tc.onCool.Node("cool")))
				l.start(limited("Relax", "Relax", plugin))
				l.create(tc.web.Obj())
				l.bound("web", tc.want)
				for _, other := range []string{"batch", "other"} {
					check.Equal(t, other+" is evicted", other == tc.wantGone, l.pod(other) == nil)
				}
			})
		}
	}
}

// A pod that a limit keeps from preempting is tried again when it no longer does.
func TestLive_PreemptsOnceBelowLimit(t *testing.T) {
	for _, plugin := range []string{"LoadThreshold", "NodeMetrics"} {
		t.Run(plugin, func(t *testing.T) {
			l := beyond(t, running(podOf("batch", 1, "8").Node("hot")), running(podOf("db", 2000, "8").Node("cool")))
			l.start(limited("Reject", "Reject", plugin))
			l.create(podOf("web", 1000, "4").Obj())
			l.refused("web", "Insufficient cpu")
			l.load["hot"], l.metric["hot"] = 0.1, 1
			l.publish()
			l.bound("web", "hot")
		})
	}
}

// Limits that refuse a pod together, whether they relax or reject, lose no pod.
func TestLive_LimitsTogether(t *testing.T) {
	for _, names := range [][]string{{"NodeMetrics", "LoadThreshold"}, {"LoadThreshold", "NodeMetrics"}} {
		for _, tc := range []struct {
			name, loadThreshold, nodeMetrics string
			first, second                    func(*live)
		}{
			{"LoadThreshold rejects, and load falls first", "Reject", "Relax", (*live).coolDown, (*live).speedUp},
			{"LoadThreshold rejects, and load falls last", "Reject", "Relax", (*live).speedUp, (*live).coolDown},
			{"NodeMetrics rejects, and load falls first", "Relax", "Reject", (*live).coolDown, (*live).speedUp},
			{"NodeMetrics rejects, and load falls last", "Relax", "Reject", (*live).speedUp, (*live).coolDown},
			{"both reject, and load falls first", "Reject", "Reject", (*live).coolDown, (*live).speedUp},
			{"both reject, and load falls last", "Reject", "Reject", (*live).speedUp, (*live).coolDown},
		} {
			t.Run(strings.Join(names, "_")+"/"+tc.name, func(t *testing.T) {
				l := newLive(t, map[string]float64{"a": 0.95}, map[string]float64{"a": 9})
				l.start(limited(tc.loadThreshold, tc.nodeMetrics, names...))
				l.create(podOf("web", 0, "1").Obj())
				l.refused("web", "0/1 nodes are available")
				tc.first(l)
				tc.second(l)
				l.bound("web", "a")
			})
		}
	}
}

func (l *live) coolDown() { l.load["a"] = 0.1; l.publish() }

func (l *live) speedUp() { l.metric["a"] = 1; l.publish() }

// chartConfiguration is the configuration in the chart's default values.
func chartConfiguration(t *testing.T) string {
	t.Helper()
	content := check.Value(os.ReadFile(filepath.Join("..", "..", "manifests", "chart", "values.yaml")))(t)
	var values struct {
		Config map[string]any `json:"config"`
	}
	check.OK(t, yaml.Unmarshal(content, &values))
	values.Config["apiVersion"], values.Config["kind"] = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	whole := check.Value(yaml.Marshal(values.Config))(t)
	return string(whole)
}

// The chart's default profile never binds a pod whose requests wrap, and goes on to place others.
func TestLive_RequestBounds(t *testing.T) {
	pod := func(name string, memory ...string) *corev1.Pod {
		w := st.MakePod().Namespace(metav1.NamespaceDefault).Name(name).UID(name).SchedulerName("plimsoll")
		for _, quantity := range memory {
			w = w.Req(plugintest.CPUAndMemory("10m", quantity))
		}
		return w.Obj()
	}
	l := newLive(t, map[string]float64{"a": 0.1}, nil)
	l.start(chartConfiguration(t))
	for _, tt := range []struct {
		bad    *corev1.Pod
		reason string
	}{
		{pod("wraps-below-0", "5Ei", "5Ei"), "10Ei of memory, more than the scheduler can count"},
		{pod("wraps-to-0", "4Ei", "4Ei", "4Ei", "4Ei"), "16Ei of memory, more than the scheduler can count"},
		{pod("read-as-0", "1e30"), "1e+30 of memory, more than the scheduler can count"},
		{pod("too-large", "40000Gi"), "40000Gi of memory, more than 1000 times what the largest node has (32Gi)"},
	} {
		l.create(tt.bad)
		l.refused(tt.bad.Name, tt.reason)
		good := "beside-" + tt.bad.Name
		l.create(pod(good, "1Gi", "1Gi"))
		l.bound(good, "a")
		check.Equal(t, tt.bad.Name+" is bound to", "", l.pod(tt.bad.Name).Spec.NodeName)
	}
}

// configurations are the YAML blocks of a page, as whole configurations. A list of metrics becomes the arguments of
// NodeMetrics.
func configurations(t *testing.T, page string) []string {
	t.Helper()
	text := check.Value(os.ReadFile(filepath.Join("..", "..", page)))(t)
	var all []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		whole := block[1]
		if strings.HasPrefix(whole, "metrics:\n") {
			whole = fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: NodeMetrics}]}}
  pluginConfig:
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://prometheus:9090"}
      %s
`, strings.ReplaceAll(whole, "\n", "\n      "))
		}
		all = append(all, whole)
	}
	return all
}

// The scheduler accepts every configuration in the docs. Each plugin has a page with one.
func TestDocs_Configurations(t *testing.T) {
	pages := []string{"README.md", "docs/configure.md"}
	for _, name := range config.PluginNames() {
		dashed := regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(name, "$1-$2")
		pages = append(pages, "docs/plugins/"+strings.ToLower(dashed)+".md")
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			all := configurations(t, page)
			if len(all) == 0 {
				t.Error("no configuration")
			}
			for _, whole := range all {
				decoded := decode(t, whole)
				if err := validation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
					t.Errorf("%v:\n%s", err, whole)
				}
				newLive(t, nil, nil).prepare(decoded)
			}
		})
	}
}

// A refused pod waits for no node that the stock filters rule out for it.
func TestRequeue_StockFilters(t *testing.T) {
	node := func() *st.NodeWrapper {
		return st.MakeNode().Name("a").Label("pool", "this").
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
				check.OK(t, factory.Core().V1().Nodes().Informer().GetIndexer().Add(tc.node.Obj()))

				anywhere := podOf("anywhere", 0, "1").Obj()
				anywhere.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				for _, pod := range []*corev1.Pod{tc.pod.Obj(), anywhere} {
					check.OK(t, factory.Core().V1().Pods().Informer().GetIndexer().Add(pod))
					state, statuses := framework.NewCycleState(), framework.NewDefaultNodeToStatus()
					if _, status, _ := f.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
						t.Fatal(status)
					}
					info := check.Value(f.SnapshotSharedLister().NodeInfos().Get("a"))(t)
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
				check.Equal(t, "activated", want, slices.Sorted(maps.Keys(got)))
			})
		}
	}
}
