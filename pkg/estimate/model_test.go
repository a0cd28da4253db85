package estimate

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	window = 5 * time.Minute
	maxAge = 5 * time.Minute
	gib    = 1 << 30
)

var settings = Settings{Window: window, RefreshInterval: 30 * time.Second, MaxAge: maxAge, DriftTolerance: 10}

// nothing is expected of any pod.
type nothing struct{}

func (nothing) Of(fwk.PodInfo) (cpuMillis, memoryBytes float64) { return 0, 0 }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// node has 8 cores and 16 GiB, of which 6 cores and 12 GiB are allocatable, and two pods that request 1 core and 1 GiB each.
func node(t *testing.T, name string) fwk.NodeInfo {
	t.Helper()
	resources := func(cpu, memory string) map[corev1.ResourceName]string {
		return map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
	}
	object := st.MakeNode().Name(name).Capacity(resources("8", "16Gi")).Obj()
	object.Status.Allocatable = st.MakeNode().Capacity(resources("6", "12Gi")).Obj().Status.Allocatable
	info := framework.NewNodeInfo(
		st.MakePod().Name("a").Req(resources("1", "1Gi")).Obj(),
		st.MakePod().Name("b").Req(resources("1", "1Gi")).Obj(),
	)
	info.SetNode(object)
	return info
}

func reading(mean, stdDev float64, age time.Duration) Reading {
	return Reading{Stat: Stat{Mean: mean, StdDev: stdDev, Known: true}, Window: window, End: now.Add(-age)}
}

func publish(p *Publisher, nodes map[string]NodeLoad) {
	p.Publish(NewSnapshot(map[time.Duration]*Table{window: TableOf(nodes)}))
}

func modelOf(nodes map[string]NodeLoad) (*Model, *Publisher) {
	p := NewPublisher()
	publish(p, nodes)
	return NewModel(p, settings, nothing{}, clocktesting.NewFakePassiveClock(now)), p
}

func TestEstimate(t *testing.T) {
	// What the two pods request, against the allocatable: 2,000m of 6,000m and 2 GiB of 12 GiB.
	cpuByRequests := ResourceEstimate{Mean: 2000, Base: 6000, Allocatable: 6000}
	memoryByRequests := ResourceEstimate{Mean: 2 * gib, Base: 12 * gib, Allocatable: 12 * gib}
	expired := func(r ResourceEstimate) ResourceEstimate { r.State = Expired; return r }

	for _, tc := range []struct {
		name  string
		given NodeLoad
		want  Estimate
	}{
		{
			name:  "measured load is a fraction of capacity",
			given: NodeLoad{CPU: reading(0.25, 0.1, 0), Memory: reading(0.5, 0.25, 0)},
			// 0.25 and 0.1 of 8,000m; 0.5 and 0.25 of 16 GiB.
			want: Estimate{
				CPU:    ResourceEstimate{Mean: 2000, StdDev: 800, Base: 8000, Allocatable: 6000, State: Fresh},
				Memory: ResourceEstimate{Mean: 8 * gib, StdDev: 4 * gib, Base: 16 * gib, Allocatable: 12 * gib, State: Fresh},
			},
		},
		{
			name: "a node that was never measured is judged by requests",
			want: Estimate{CPU: cpuByRequests, Memory: memoryByRequests},
		},
		{
			name:  "one resource that was never measured is judged by requests",
			given: NodeLoad{CPU: reading(0.5, 0, 0)},
			want:  Estimate{CPU: ResourceEstimate{Mean: 4000, Base: 8000, Allocatable: 6000, State: Fresh}, Memory: memoryByRequests},
		},
		{
			name:  "load is trusted up to maxAge",
			given: NodeLoad{CPU: reading(0.5, 0, maxAge), Memory: reading(0.5, 0, maxAge+time.Nanosecond)},
			want:  Estimate{CPU: ResourceEstimate{Mean: 4000, Base: 8000, Allocatable: 6000, State: Fresh}, Memory: expired(memoryByRequests)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, _ := modelOf(map[string]NodeLoad{"n": tc.given})
			got := model.View(framework.NewCycleState()).Estimate(node(t, "n"))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("estimate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANodeMayGrow(t *testing.T) {
	model, _ := modelOf(map[string]NodeLoad{"n": {CPU: reading(0.25, 0, 0), Memory: reading(0.25, 0, 0)}})
	info := node(t, "n")
	for _, cores := range []int64{8, 16} {
		grown := info.Node().DeepCopy()
		grown.Status.Capacity[corev1.ResourceCPU] = *resource.NewQuantity(cores, resource.DecimalSI)
		info.SetNode(grown)
		// 0.25 of the capacity
		if got, want := model.View(framework.NewCycleState()).Estimate(info)[CPU].Mean, float64(cores*250); got != want {
			t.Errorf("mean of %d cores: %v milliCPU, want %v", cores, got, want)
		}
	}
}

func TestUtilizationCountsThePodThatComes(t *testing.T) {
	// (2,000 + 500 + 1,500) / 8,000 = 0.5
	if got := (&ResourceEstimate{Mean: 2000, Pending: 500, Base: 8000}).Utilization(1500); got != 0.5 {
		t.Errorf("utilization = %v, want 0.5", got)
	}
	if got := (&ResourceEstimate{}).Utilization(0); got != 1 {
		t.Errorf("utilization of a node without capacity = %v, want 1: it has no room", got)
	}
}

func TestLoadIsKnownWhileOneNodeIsFresh(t *testing.T) {
	for _, tc := range []struct {
		name        string
		nodes       map[string]NodeLoad
		cpu, memory bool
	}{
		{name: "nothing was ever measured"},
		{"all is too old", map[string]NodeLoad{"a": {CPU: reading(0, 0, maxAge+1), Memory: reading(0, 0, maxAge+1)}}, false, false},
		{"one node of two is fresh", map[string]NodeLoad{"a": {CPU: reading(0, 0, maxAge+1)}, "b": {CPU: reading(0, 0, maxAge)}}, true, false},
		{"each resource counts for itself", map[string]NodeLoad{"a": {Memory: reading(0, 0, 0)}}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, _ := modelOf(tc.nodes)
			view := model.View(framework.NewCycleState())
			if got := view.KnowsCPU(); got != tc.cpu {
				t.Errorf("KnowsCPU() = %v, want %v", got, tc.cpu)
			}
			if got := view.KnowsMemory(); got != tc.memory {
				t.Errorf("KnowsMemory() = %v, want %v", got, tc.memory)
			}
		})
	}
}

func TestAWindowNobodyAskedForHasNoLoad(t *testing.T) {
	p := NewPublisher()
	publish(p, map[string]NodeLoad{"n": {CPU: reading(0.5, 0, 0)}})
	if got := p.Latest().Over(time.Minute).Node("n"); got != (NodeLoad{}) {
		t.Errorf("known over another window: %+v, want nothing", got)
	}
}

func TestADecisionSeesOneSnapshot(t *testing.T) {
	model, publisher := modelOf(map[string]NodeLoad{"n": {CPU: reading(0.25, 0, 0)}})
	other := NewModel(publisher, settings, nothing{}, clocktesting.NewFakePassiveClock(now))
	n := node(t, "n")
	decision, next := framework.NewCycleState(), framework.NewCycleState()

	first := model.View(decision).Estimate(n)
	publish(publisher, map[string]NodeLoad{"n": {CPU: reading(0.75, 0, 0)}})

	for name, m := range map[string]*Model{"the same plugin": model, "another plugin": other} {
		if diff := cmp.Diff(first, m.View(decision).Estimate(n)); diff != "" {
			t.Errorf("%s sees another load in the same decision (-first +later):\n%s", name, diff)
		}
	}
	// 0.75 of 8,000m
	if got := model.View(next).Estimate(n)[CPU].Mean; got != 6000 {
		t.Errorf("the next decision sees %v milliCPU, want 6000", got)
	}
}

func TestPinGivesAllGoroutinesOfADecisionTheSameValue(t *testing.T) {
	const goroutines = 16
	var pin Pin[int]
	for range 200 {
		state := framework.NewCycleState()
		var seen [goroutines]*int
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				v := pin.Get(state)
				if v == nil {
					mine := i
					v, _ = pin.Set(state, &mine)
				}
				seen[i] = v
			})
		}
		wg.Wait()
		for i, v := range seen {
			if v != seen[0] {
				t.Fatalf("goroutine %d sees %p, goroutine 0 sees %p", i, v, seen[0])
			}
		}
	}
}

func TestTheFirstToSetAPinWins(t *testing.T) {
	var pin Pin[int]
	first, second := 1, 2
	decision, next := framework.NewCycleState(), framework.NewCycleState()
	if held, won := pin.Set(decision, &first); held != &first || !won {
		t.Errorf("the first to set gets %v, %v; want its own value, true", held, won)
	}
	if held, won := pin.Set(decision, &second); held != &first || won {
		t.Errorf("the second to set gets %v, %v; want the first's value, false", held, won)
	}
	if held, won := pin.Set(next, &second); held != &second || !won {
		t.Errorf("the next decision gets %v, %v; want its own value, true", held, won)
	}
}

func TestAnEstimateAllocatesNothing(t *testing.T) {
	model, _ := modelOf(map[string]NodeLoad{"n": {CPU: reading(0.5, 0.1, 0), Memory: reading(0.5, 0.1, 0)}})
	n, view := node(t, "n"), model.View(framework.NewCycleState())
	view.Estimate(n)
	if allocs := testing.AllocsPerRun(100, func() { view.Estimate(n) }); allocs != 0 {
		t.Errorf("%v allocations per estimate, want 0", allocs)
	}
}

func TestMemoryOfModelsPerNodeIsBounded(t *testing.T) {
	const count, bound, ofFurtherUsage = 2000, 1536, 384
	loads, infos := map[string]NodeLoad{}, make([]fwk.NodeInfo, count)
	for i := range infos {
		name := fmt.Sprint("n", i)
		loads[name] = NodeLoad{CPU: reading(0.5, 0.1, 0), Memory: reading(0.5, 0.1, 0)}
		var pods []*corev1.Pod
		for range 20 {
			pods = append(pods, podOf(corev1.PodRunning, nil, ago(time.Minute)))
		}
		info := framework.NewNodeInfo(pods...)
		info.SetNode(node(t, name).Node())
		infos[i] = info
	}
	for usages := 1; usages <= 2; usages++ {
		p := NewPublisher()
		publish(p, loads)
		var models []*Model
		for _, usage := range []Usage{nothing{}, Requests{}}[:usages] {
			models = append(models, NewModel(p, settings, usage, clocktesting.NewFakePassiveClock(now)))
		}
		before := heap()
		for _, model := range models {
			view := model.View(framework.NewCycleState())
			for _, info := range infos {
				view.Estimate(info)
			}
		}
		perNode, most := (heap()-before)/count, int64(bound+(usages-1)*ofFurtherUsage)
		t.Logf("%d bytes per node with 20 recent pods, by %d usages", perNode, usages)
		if perNode > most {
			t.Errorf("%d bytes per node with 20 recent pods, by %d usages, want at most %d", perNode, usages, most)
		}
		runtime.KeepAlive(models)
	}
	runtime.KeepAlive(infos)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkEstimate(b *testing.B) {
	model, _ := modelOf(map[string]NodeLoad{"n": {CPU: reading(0.5, 0.1, 0), Memory: reading(0.5, 0.1, 0)}})
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "16Gi"}).Obj())
	view := model.View(framework.NewCycleState())
	b.ReportAllocs()
	for b.Loop() {
		view.Estimate(info)
	}
}
