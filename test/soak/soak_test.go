// Package soak runs the load plugins in simulated time, in clusters whose pods and nodes come and go. It checks that memory and
// goroutines do not grow within half an hour.
package soak

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/heap"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// step is longer than the refresh interval of 30 s with its jitter of a tenth. So each step has a refresh.
const step = 35 * time.Second

// The profiles differ in what they do with a pod that the limits leave no node. It waits, or the limits are waived for it.
const (
	rejecting = "rejecting"
	relaxing  = "relaxing"
)

const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: rejecting
  plugins: &plugins
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: LoadThreshold}
      - {name: NodeMetrics}
      - {name: TargetLoadPacking}
      - {name: LoadVariationRiskBalancing}
      - {name: LowRiskOverCommitment}
      - {name: Peaks}
  pluginConfig:
  - name: LoadThreshold
    args: {whenNoneFits: Reject, metricProvider: &source {type: Prometheus, address: %q}}
  - name: NodeMetrics
    args: {whenNoneFits: Reject, metricProvider: *source, metrics: &metrics [
      {name: a, query: perf_metric_a, prefer: Lower, reject: "> 0.9"},
      {name: b, query: perf_metric_b, prefer: Higher}]}
  - &packing {name: TargetLoadPacking, args: {metricProvider: *source}}
  - &balancing {name: LoadVariationRiskBalancing, args: {metricProvider: *source}}
  - &overcommitment {name: LowRiskOverCommitment, args: {metricProvider: *source}}
  - &power {name: Peaks, args: {metricProvider: *source, nodePowerModels: [{k0: 120, k1: 35, k2: 0.015}]}}
- schedulerName: relaxing
  plugins: *plugins
  pluginConfig:
  - {name: LoadThreshold, args: {whenNoneFits: Relax, metricProvider: *source}}
  - {name: NodeMetrics, args: {whenNoneFits: Relax, metricProvider: *source, metrics: *metrics}}
  - *packing
  - *balancing
  - *overcommitment
  - *power
`

// timers is the number of timers that are set while all goroutines wait. One is of the source, which the profiles share. One is for
// each plugin with a limit in each profile.
const timers = 1 + 2*2

const window = 5 * time.Minute

// soak is a cluster as the scheduler sees it, and its pods. The number of its nodes does not change.
type soak struct {
	t     *testing.T
	ctx   context.Context
	clock *clocktesting.FakeClock
	stub  *promstub.Server
	sim   *sim.Scheduler
	// provider has all sources.
	provider *provider.Provider
	// source publishes the load of the nodes.
	source *load.Publisher
	nodes  []*corev1.Node
	// pods run on the nodes, the oldest first.
	pods    []*corev1.Pod
	created int
	// replaced are the plugins that replace stock ones, by name, of the last profile with them.
	replaced map[string]*pair

	mu sync.Mutex
	// activated are the pods that plugins want to be tried again, until takeActivated.
	activated map[types.UID]bool
}

func (s *soak) must(err error) {
	s.t.Helper()
	check.OK(s.t, err)
}

// eventually waits in real time for a condition. Simulated time does not pass.
func (s *soak) eventually(what string, holds func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.ctx, time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		s.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// newSoak returns a cluster of so many nodes, without pods.
func newSoak(t *testing.T, nodes int) *soak {
	s := startSoak(t, nodes, configuration, func(s *soak) http.Handler { return s.stub })
	s.waitForRefresh()
	return s
}

// startSoak is newSoak with a configuration that has a place for the address of the source. sourceOf returns the source's handler.
func startSoak(t *testing.T, nodes int, configuration string, sourceOf func(*soak) http.Handler) *soak {
	s := &soak{
		t: t, ctx: klog.NewContext(t.Context(), logr.Discard()),
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), activated: map[types.UID]bool{},
		replaced: map[string]*pair{},
	}
	s.stub = &promstub.Server{Now: s.clock.Now}
	server := check.Serve(t, sourceOf(s))
	var objects []apiruntime.Object
	for range nodes {
		objects = append(objects, s.newNode())
	}
	s.stub.SetInstances(s.names())

	object, _, err := scheme.Codecs.UniversalDecoder().Decode(fmt.Appendf(nil, configuration, server.URL), nil, nil)
	s.must(err)
	registry := metrics.NewKubeRegistry()
	s.provider = provider.New(s.clock, registry, sources.Account{})
	s.sim = check.Value(sim.New(s.ctx, sim.Options{
		Configuration: object.(*schedulerconfig.KubeSchedulerConfiguration),
		Plugins:       s.withStock(plugins.NewRegistry(s.provider, s.clock, registry.MustRegister)),
		Objects:       objects, Clock: s.clock, Activated: s.activate,
	}))(s.t)
	s.source = s.provider.Sources()[0].Readers[0].Snapshots().Publisher()
	return s
}

func (s *soak) activate(pods map[string]*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		s.activated[pod.UID] = true
	}
}

// takeActivated reports whether a plugin wants the pod to be tried again, since the last call for the pod.
func (s *soak) takeActivated(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.activated[pod.UID]
	delete(s.activated, pod.UID)
	return was
}

func (s *soak) waitForRefresh() {
	s.t.Helper()
	newest := s.nodes[len(s.nodes)-1].Name
	s.eventually("the load is refreshed", func() bool {
		m := s.source.Latest().Over(window).Node(newest)[load.CPU]
		return m.Known && m.End.Equal(s.clock.Now().Truncate(time.Millisecond)) && s.clock.Waiters() == timers
	})
}

func (s *soak) advance() {
	s.t.Helper()
	s.clock.Step(step)
	s.waitForRefresh()
}

func (s *soak) names() []string {
	names := make([]string, len(s.nodes))
	for i, node := range s.nodes {
		names[i] = node.Name
	}
	return names
}

func (s *soak) newNode() *corev1.Node {
	s.created++
	name := fmt.Sprintf("node-%06d", s.created)
	zone := fmt.Sprint("zone-", s.created%3)
	node := st.MakeNode().Name(name).Label(corev1.LabelHostname, name).Label(corev1.LabelTopologyZone, zone).
		Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi", corev1.ResourcePods: "110"}).Obj()
	s.nodes = append(s.nodes, node)
	return node
}

// replaceNode replaces the oldest node with its pods by a new one with as many pods. It returns the removed objects.
func (s *soak) replaceNode() *corev1.Node {
	node := s.nodes[0]
	s.nodes = slices.Delete(s.nodes, 0, 1)
	kept, removed := make([]*corev1.Pod, 0, len(s.pods)), 0
	for _, pod := range s.pods {
		if pod.Spec.NodeName != node.Name {
			kept = append(kept, pod)
			continue
		}
		s.must(s.sim.Remove(pod))
		removed++
	}
	s.pods = kept
	s.must(s.sim.Remove(node))
	s.must(s.sim.Add(s.newNode()))
	for range removed {
		s.run(s.newPod(rejecting, "100m"), s.nodes[len(s.nodes)-1].Name)
	}
	return node
}

func (s *soak) newPod(profile, cpu string) *corev1.Pod {
	s.created++
	name := fmt.Sprintf("pod-%06d", s.created)
	return st.MakePod().Namespace("soak").Name(name).UID(name).SchedulerName(profile).
		Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: "64Mi"}).Obj()
}

func (s *soak) newWaitingPod(profile, cpu string) *corev1.Pod {
	pod := s.newPod(profile, cpu)
	s.must(s.sim.Add(pod))
	return pod
}

// run adds the pod, running on the node from now on.
func (s *soak) run(pod *corev1.Pod, node string) {
	bound := s.bound(pod, node)
	s.must(s.sim.Add(bound))
	s.pods = append(s.pods, bound)
}

func (s *soak) bound(pod *corev1.Pod, node string) *corev1.Pod {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	bound.Status.Phase = corev1.PodRunning
	bound.Status.StartTime = &metav1.Time{Time: s.clock.Now()}
	return bound
}

func (s *soak) decide(pod *corev1.Pod) *sim.Result {
	s.t.Helper()
	d := check.Value(s.sim.Decide(s.ctx, pod))(s.t)
	s.compareReplaced(pod)
	return d
}

// place decides the waiting pod, which must find a node, and binds it.
func (s *soak) place(pod *corev1.Pod) {
	s.t.Helper()
	d := s.decide(pod)
	if d.Node == "" {
		s.t.Fatalf("%s pod %s finds no node: %v", pod.Spec.SchedulerName, pod.Name, d.Err)
	}
	s.must(s.sim.Assume(s.ctx, d))
	bound := s.bound(pod, d.Node)
	s.must(s.sim.Update(bound))
	s.pods = append(s.pods, bound)
}

// decideWithoutNode decides the waiting pod, which must find no node. It reports whether the limits are waived for its next
// attempt.
func (s *soak) decideWithoutNode(pod *corev1.Pod) (waived bool) {
	s.t.Helper()
	d := s.decide(pod)
	check.Require(s.t, fmt.Sprintf("node of %s pod %s, which passes the limits on", pod.Spec.SchedulerName, pod.Name), "", d.Node)
	return d.PostFilter.Status.IsSuccess() && s.takeActivated(pod)
}

// expectWaiver decides the waiting pod, which must find no node but have the limits waived.
func (s *soak) expectWaiver(pod *corev1.Pod) {
	s.t.Helper()
	if !s.decideWithoutNode(pod) {
		s.t.Fatalf("the limits are not waived for %s", pod.Name)
	}
}

// expectRefusal decides the waiting pod, which must find no node and have no limits waived.
func (s *soak) expectRefusal(pod *corev1.Pod) {
	s.t.Helper()
	if s.decideWithoutNode(pod) {
		s.t.Fatalf("the limits are waived for %s", pod.Name)
	}
}

const (
	nodeCount = 5000
	podCount  = 2 * nodeCount

	warmUp = 17 * step
	length = 41 * step

	// Numbers per step. They are of pods that each profile places, and of pods in each that find no node. Most of these are deleted.
	// Others are of pods that run without a decision, and of replaced nodes.
	placed, refused, foreign, replaced = 3, 10, 400, 200
	// peak is the number of steps from one peak to the next.
	peak = 8

	// growth is the limit of the heap's growth since the warm-up, as a share of it.
	growth = 0.02
)

type deleted struct {
	pods  []weak.Pointer[corev1.Pod]
	nodes []weak.Pointer[corev1.Node]
}

// held counts the objects that can still be reached.
func (d *deleted) held() (pods, nodes int) {
	runtime.GC()
	for _, p := range d.pods {
		if p.Value() != nil {
			pods++
		}
	}
	for _, n := range d.nodes {
		if n.Value() != nil {
			nodes++
		}
	}
	return pods, nodes
}

func (s *soak) next(n int, removed *deleted) {
	for range replaced {
		removed.nodes = append(removed.nodes, weak.Make(s.replaceNode()))
	}
	s.stub.SetInstances(s.names())
	if n%peak == 0 {
		s.peak(removed)
	}
	s.advance()
	for range placed {
		s.place(s.newWaitingPod(rejecting, "100m"))
		s.place(s.newWaitingPod(relaxing, "100m"))
	}
	for i := range refused {
		large, waived := s.newWaitingPod(rejecting, "8"), s.newWaitingPod(relaxing, "8")
		s.expectRefusal(large)
		s.expectWaiver(waived)
		if i == 0 {
			s.place(waived)
		} else {
			s.delete(waived, removed)
		}
		s.delete(large, removed)
	}
	for i := range foreign {
		s.run(s.newPod(rejecting, "100m"), s.nodes[(s.created+i)%nodeCount].Name)
	}
	for _, pod := range s.pods[:len(s.pods)-podCount] {
		s.must(s.sim.Remove(pod))
	}
	s.pods = append([]*corev1.Pod(nil), s.pods[len(s.pods)-podCount:]...)
}

// peak is a step in which all nodes are above their load lines. In the next, waiting pods find room again.
func (s *soak) peak(removed *deleted) {
	s.stub.SetUtilization(s.names(), 0.85, 0.95)
	s.advance()
	var waiting []*corev1.Pod
	for range refused {
		pod, lost, waived := s.newWaitingPod(rejecting, "100m"), s.newWaitingPod(rejecting, "100m"), s.newWaitingPod(relaxing, "100m")
		s.expectRefusal(pod)
		s.expectRefusal(lost)
		s.expectWaiver(waived)
		s.place(waived)
		s.delete(lost, removed)
		waiting = append(waiting, pod)
	}
	s.stub.SetInstances(s.names())
	s.advance()
	for _, pod := range waiting {
		s.eventually("the pod is tried again", func() bool { return s.takeActivated(pod) })
		s.place(pod)
	}
}

func (s *soak) delete(pod *corev1.Pod, removed *deleted) {
	s.must(s.sim.Remove(pod))
	removed.pods = append(removed.pods, weak.Make(pod))
}

type footprint struct {
	heap       int64
	goroutines int
}

func measure() footprint { return footprint{heap.Live(), runtime.NumGoroutine()} }

func TestMemoryAndGoroutines_DoNotGrow(t *testing.T) {
	s := newSoak(t, nodeCount)
	for range podCount {
		s.run(s.newPod(rejecting, "100m"), s.nodes[s.created%nodeCount].Name)
	}
	var warm footprint
	var removed deleted
	for n := 1; n <= int(length/step); n++ {
		s.next(n, &removed)
		if n == int(warmUp/step) {
			warm = measure()
		}
	}
	end := measure()
	for deadline := time.Now().Add(time.Minute); end.goroutines > warm.goroutines && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // some end late on a busy machine
		end.goroutines = runtime.NumGoroutine()
	}
	t.Logf("%d nodes, %d pods: %.1f MiB and %d goroutines after %v, %.1f MiB and %d after %v. %d pods and nodes were created",
		nodeCount, podCount, mebibytes(warm.heap), warm.goroutines, warmUp, mebibytes(end.heap), end.goroutines, length, s.created)
	if grown := float64(end.heap)/float64(warm.heap) - 1; grown > growth {
		t.Errorf("the heap has grown by %.1f %%, want at most %.0f %%", 100*grown, 100*growth)
	}
	if end.goroutines > warm.goroutines {
		t.Errorf("%d goroutines, want %d as after the warm-up", end.goroutines, warm.goroutines)
	}
	s.next(1, &deleted{}) // plugins hold the objects of the latest decision and the latest snapshot
	var pods, nodes int
	gone := func(context.Context) (bool, error) {
		pods, nodes = removed.held()
		return pods+nodes == 0, nil
	}
	if err := wait.PollUntilContextTimeout(s.ctx, 100*time.Millisecond, 5*time.Minute, true, gone); err != nil {
		t.Errorf("%d of %d deleted pods and %d of %d nodes are still held", pods, len(removed.pods), nodes, len(removed.nodes))
	}
	if n := len(s.activated); n > 0 {
		t.Errorf("%d pods are to be tried again that were placed or deleted", n)
	}
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
