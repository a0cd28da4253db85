// Package soak runs the load plugins for half an hour of simulated time in a cluster whose pods and nodes come and go, on the
// scheduler's own cache and framework, and looks at what is left behind.
package soak

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	stockplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

const (
	nodeCount = 5000
	podCount  = 2 * nodeCount

	step   = 30 * time.Second
	warmUp = 10 * time.Minute
	length = 30 * time.Minute

	// In each step so many pods are placed by the plugins, so many are refused and deleted, so many are placed by somebody
	// else, and so many nodes are replaced.
	placed, refused, foreign, replaced = 5, 20, 400, 200

	// growth is by how much the heap may have grown since the warm-up, as a share of it. It is so little that one small thing
	// left behind by each node, or by each refused pod, is too much.
	growth = 0.02
)

const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: LoadThreshold}
      - {name: NodeMetrics}
      - {name: TargetLoadPacking}
      - {name: LoadVariationRiskBalancing}
  pluginConfig:
  - name: LoadThreshold
    args: {whenNoneFits: Reject, metricProvider: &source {type: Prometheus, address: "http://prometheus"}}
  - name: NodeMetrics
    args:
      metricProvider: *source
      metrics:
      - {name: a, query: perf_metric_a, prefer: Lower, reject: "> 0.9"}
      - {name: b, query: perf_metric_b, prefer: Higher}
  - {name: TargetLoadPacking, args: {metricProvider: *source}}
  - {name: LoadVariationRiskBalancing, args: {metricProvider: *source}}
`

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// soak is a cluster as the scheduler sees it, and what runs in it. Its population does not grow.
type soak struct {
	t         *testing.T
	ctx       context.Context
	clock     *clocktesting.FakeClock
	stub      *promstub.Server
	watcher   *loadwatcher.Watcher
	cache     cache.Cache
	snapshot  *cache.Snapshot
	framework framework.Framework
	nodes     clientcache.Indexer
	names     []string
	// pods are those that are placed, the oldest first.
	pods    []*corev1.Pod
	created int
}

// Model and Metrics implement plugins.Models.
func (s *soak) Model(_ context.Context, _ fwk.Handle, spec config.LoadSpec, usage podusage.Estimator) (*estimate.Model, error) {
	settings := settingsOf(spec)
	s.watcher.Want(settings)
	return estimate.NewModel(s.watcher.Publisher(), settings, usage, s.clock), nil
}

func (s *soak) Metrics(_ context.Context, _ fwk.Handle, spec config.LoadSpec, expressions []string) (*estimate.NodeMetrics, error) {
	settings := settingsOf(spec)
	settings.Window, settings.Metrics = 0, expressions
	s.watcher.Want(settings)
	return estimate.NewNodeMetrics(s.watcher.Publisher(), settings.MaxAge, s.clock), nil
}

func settingsOf(spec config.LoadSpec) load.Settings {
	return load.Settings{
		Window:          spec.Window.Duration,
		RefreshInterval: spec.RefreshInterval.Duration,
		MaxAge:          spec.MaxAge.Duration,
		DriftTolerance:  spec.DriftTolerance,
	}
}

// HasSynced and Names implement loadwatcher.Nodes.
func (s *soak) HasSynced() bool { return true }

func (s *soak) Names() []string { return s.nodes.ListKeys() }

// Activate implements framework.PodActivator: there is no queue.
func (s *soak) Activate(klog.Logger, map[string]*corev1.Pod) {}

func (s *soak) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func newSoak(t *testing.T) *soak {
	s := &soak{
		t:        t,
		ctx:      klog.NewContext(t.Context(), klog.Logger{}),
		clock:    clocktesting.NewFakeClock(start),
		snapshot: cache.NewEmptySnapshot(),
		nodes:    clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, clientcache.Indexers{}),
	}
	s.stub = &promstub.Server{Now: s.clock.Now}
	server := httptest.NewServer(s.stub)
	t.Cleanup(server.Close)
	source, err := prometheus.New(prometheus.Config{Address: server.URL}, corelisters.NewNodeLister(s.nodes))
	s.must(err)
	s.watcher = loadwatcher.NewWatcher(source, source.Name(), s, s.clock, loadwatcher.NewMetrics(metrics.NewKubeRegistry()))
	schedulermetrics.Register()
	s.cache = cache.New(s.ctx, nil, false)

	object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(configuration), nil, nil)
	s.must(err)
	registry := stockplugins.NewInTreeRegistry()
	s.must(registry.Merge(plugins.NewRegistry(s, metrics.NewKubeRegistry().MustRegister)))
	client := fake.NewClientset()
	s.framework, err = frameworkruntime.NewFramework(s.ctx, registry, &object.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0],
		frameworkruntime.WithSnapshotSharedLister(s.snapshot),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
	)
	s.must(err)
	s.framework.SetPodActivator(s)

	for range nodeCount {
		s.addNode()
	}
	for range podCount {
		s.place(s.newPod("100m"), s.names[s.created%nodeCount])
	}
	return s
}

func (s *soak) addNode() {
	s.created++
	name := fmt.Sprintf("node-%06d", s.created)
	node := st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
		Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi", corev1.ResourcePods: "110"}).Obj()
	s.must(s.nodes.Add(node))
	s.cache.AddNode(klog.FromContext(s.ctx), node)
	s.names = append(s.names, name)
}

// replaceNode takes the oldest node away, with its pods, and brings a new one, with as many.
func (s *soak) replaceNode() {
	name := s.names[0]
	s.names = s.names[1:]
	object, _, err := s.nodes.GetByKey(name)
	s.must(err)
	kept, gone := make([]*corev1.Pod, 0, len(s.pods)), 0
	for _, pod := range s.pods {
		if pod.Spec.NodeName != name {
			kept = append(kept, pod)
			continue
		}
		s.must(s.cache.RemovePod(klog.FromContext(s.ctx), pod))
		gone++
	}
	s.pods = kept
	s.must(s.nodes.Delete(object))
	s.must(s.cache.RemoveNode(klog.FromContext(s.ctx), object.(*corev1.Node)))
	s.addNode()
	for range gone {
		s.place(s.newPod("100m"), s.names[len(s.names)-1])
	}
}

func (s *soak) newPod(cpu string) *corev1.Pod {
	s.created++
	name := fmt.Sprintf("pod-%06d", s.created)
	return st.MakePod().Namespace("soak").Name(name).UID(name).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: "64Mi"}).Obj()
}

// place has the pod run on the node from now on.
func (s *soak) place(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &metav1.Time{Time: s.clock.Now()}
	s.must(s.cache.AddPod(klog.FromContext(s.ctx), pod))
	s.pods = append(s.pods, pod)
}

// decide is a scheduling cycle of the pod. It returns the node with the highest score, or nothing if there is none.
func (s *soak) decide(pod *corev1.Pod) string {
	s.must(s.cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot))
	all, err := s.snapshot.NodeInfos().List()
	s.must(err)
	state, statuses := framework.NewCycleState(), framework.NewDefaultNodeToStatus()
	if _, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, pod); !status.IsSuccess() {
		s.t.Fatal(status.AsError())
	}
	var feasible []fwk.NodeInfo
	for _, node := range all {
		if status := s.framework.RunFilterPlugins(s.ctx, state, pod, node); !status.IsSuccess() {
			statuses.Set(node.Node().Name, status)
			continue
		}
		feasible = append(feasible, node)
	}
	if len(feasible) == 0 {
		s.framework.RunPostFilterPlugins(s.ctx, state, pod, statuses)
		return ""
	}
	if status := s.framework.RunPreScorePlugins(s.ctx, state, pod, feasible); !status.IsSuccess() {
		s.t.Fatal(status.AsError())
	}
	scores, status := s.framework.RunScorePlugins(s.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		s.t.Fatal(status.AsError())
	}
	best := scores[0]
	for _, node := range scores {
		if node.TotalScore > best.TotalScore {
			best = node
		}
	}
	return best.Name
}

// next is one step of the simulated time.
func (s *soak) next() {
	s.clock.Step(step)
	for range replaced {
		s.replaceNode()
	}
	s.stub.SetInstances(s.names)
	s.must(s.watcher.Refresh(s.ctx))
	for range placed {
		pod := s.newPod("100m")
		node := s.decide(pod)
		if node == "" {
			s.t.Fatal("a small pod finds no node")
		}
		s.place(pod, node)
	}
	for range refused {
		if node := s.decide(s.newPod("8")); node != "" {
			s.t.Fatalf("a pod as large as a node passes the load line on %s", node)
		}
	}
	for i := range foreign {
		s.place(s.newPod("100m"), s.names[(s.created+i)%nodeCount])
	}
	for _, pod := range s.pods[:len(s.pods)-podCount] {
		s.must(s.cache.RemovePod(klog.FromContext(s.ctx), pod))
	}
	s.pods = append([]*corev1.Pod(nil), s.pods[len(s.pods)-podCount:]...)
}

// left is what there is of a process when nothing of it is under way.
type left struct {
	heap       uint64
	goroutines int
}

func leftover() left {
	for range 2 { // what sync.Pools hold lives for one more collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return left{heap: m.HeapAlloc, goroutines: runtime.NumGoroutine()}
}

func TestMemoryAndGoroutinesAreFlat(t *testing.T) {
	s := newSoak(t)
	var warm left
	for at := step; at <= length; at += step {
		s.next()
		if at == warmUp {
			warm = leftover()
		}
	}
	end := leftover()
	t.Logf("%d nodes, %d pods: %.1f MiB and %d goroutines after %v, %.1f MiB and %d after %v; %d pods and nodes were created",
		nodeCount, podCount, mebibytes(warm.heap), warm.goroutines, warmUp, mebibytes(end.heap), end.goroutines, length, s.created)
	if grown := float64(end.heap)/float64(warm.heap) - 1; grown > growth {
		t.Errorf("the heap has grown by %.0f %%, want at most %.0f %%", 100*grown, 100*growth)
	}
	if end.goroutines > warm.goroutines {
		t.Errorf("%d goroutines, want %d as after the warm-up", end.goroutines, warm.goroutines)
	}
}

func mebibytes(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
