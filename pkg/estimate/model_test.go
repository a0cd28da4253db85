package estimate

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

const (
	window = 5 * time.Minute
	maxAge = 5 * time.Minute
	gib    = 1 << 30
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// flat estimates so many milliCPU for every pod, and ten times as many bytes.
type flat float64

func (f flat) Estimate(*corev1.Pod) podusage.Amounts {
	return podusage.Amounts{load.CPU: float64(f), load.Memory: 10 * float64(f)}
}

func (f flat) PendingUsage(pod *corev1.Pod) (usage, byDefault podusage.Amounts) {
	return f.Estimate(pod), podusage.Amounts{}
}

func (f flat) Explain(*corev1.Pod) (x [load.ResourceCount]podusage.Breakdown) { return x }

// newNode has 8 cores and 16 GiB, of which 6 cores and 12 GiB are allocatable. Its two pods request 1 core and 1 GiB each.
func newNode(t *testing.T, name string) fwk.NodeInfo {
	t.Helper()
	resources := func(cpu, memory string) map[corev1.ResourceName]string {
		return map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
	}
	object := st.MakeNode().Name(name).Capacity(resources("8", "16Gi")).Obj()
	object.Status.Allocatable = st.MakeNode().Capacity(resources("6", "12Gi")).Obj().Status.Allocatable
	info := framework.NewNodeInfo(st.MakePod().Name("a").Req(resources("1", "1Gi")).Obj(),
		st.MakePod().Name("b").Req(resources("1", "1Gi")).Obj())
	info.SetNode(object)
	return info
}

func measurement(mean, stdDev float64, age time.Duration) load.Measurement {
	return load.Measurement{Stat: load.Stat{Mean: mean, StdDev: stdDev, Known: true}, Window: window, End: now.Add(-age)}
}

func publish(p *load.Publisher, nodes map[string]load.NodeLoad) {
	p.Publish(loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{window: nodes}, nil))
}

// republish publishes new load of the nodes of the latest snapshot, with the same index.
func republish(p *load.Publisher, n load.NodeLoad) {
	index := p.Latest().Index()
	table := load.NewTable(index, func(string) load.NodeLoad { return n })
	p.Publish(load.NewSnapshot(index, map[time.Duration]*load.Table{window: table}, nil))
}

// newModel returns a model of the nodes' load at now.
func newModel(e podusage.Estimator, nodes map[string]load.NodeLoad) (*Model, *load.Publisher) {
	p := load.NewPublisher()
	publish(p, nodes)
	return modelOn(NewSnapshots(p), e), p
}

func modelOn(s *Snapshots, e podusage.Estimator) *Model {
	return NewModel(s, Config{
		Window: window, Trust: load.Trust{RefreshInterval: 30 * time.Second, MaxAge: maxAge, DriftTolerance: 10}, Estimators: Fixed{e},
		Clock: clocktesting.NewFakePassiveClock(now),
	})
}

func TestEstimate(t *testing.T) {
	// What the two pods request, against the allocatable: 2,000m of 6,000m and 2 GiB of 12 GiB.
	cpuByRequests := ResourceEstimate{Mean: 2000, Base: 6000, Allocatable: 6000}
	memoryByRequests := ResourceEstimate{Mean: 2 * gib, Base: 12 * gib, Allocatable: 12 * gib}
	expired := func(r ResourceEstimate) ResourceEstimate { r.State = load.Expired; return r }

	for _, tc := range []struct {
		name  string
		given load.NodeLoad
		want  Estimate
	}{
		// 0.25 and 0.1 of 8,000m; 0.5 and 0.25 of 16 GiB.
		{
			name:  "of measured load is a fraction of capacity",
			given: load.NodeLoad{load.CPU: measurement(0.25, 0.1, 0), load.Memory: measurement(0.5, 0.25, 0)}, want: Estimate{
				load.CPU:    ResourceEstimate{Mean: 2000, StdDev: 800, Base: 8000, Allocatable: 6000, State: load.Fresh},
				load.Memory: ResourceEstimate{Mean: 8 * gib, StdDev: 4 * gib, Base: 16 * gib, Allocatable: 12 * gib, State: load.Fresh},
			},
		},
		{name: "of a node that was never measured is by requests", want: Estimate{load.CPU: cpuByRequests, load.Memory: memoryByRequests}},
		{
			name: "of a resource that was never measured is by requests", given: load.NodeLoad{load.CPU: measurement(0.5, 0, 0)},
			want: Estimate{load.CPU: ResourceEstimate{Mean: 4000, Base: 8000, Allocatable: 6000, State: load.Fresh}, load.Memory: memoryByRequests},
		},
		{
			name:  "is by requests beyond maxAge",
			given: load.NodeLoad{load.CPU: measurement(0.5, 0, maxAge), load.Memory: measurement(0.5, 0, maxAge+time.Nanosecond)},
			want:  Estimate{load.CPU: ResourceEstimate{Mean: 4000, Base: 8000, Allocatable: 6000, State: load.Fresh}, load.Memory: expired(memoryByRequests)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, _ := newModel(flat(0), map[string]load.NodeLoad{"n": tc.given})
			got := model.View(framework.NewCycleState()).Estimate(newNode(t, "n"))
			check.Equal(t, "estimate", tc.want, got)
		})
	}
}

func TestEstimateFollowsCapacity(t *testing.T) {
	model, _ := newModel(flat(0),
		map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.25, 0, 0)}})
	info := newNode(t, "n")
	for _, cores := range []int64{8, 16} {
		grown := info.Node().DeepCopy()
		grown.Status.Capacity[corev1.ResourceCPU] = *resource.NewQuantity(cores, resource.DecimalSI)
		info.SetNode(grown)
		// 0.25 of the capacity
		check.Equal(t, fmt.Sprintf("mean of %d cores: milliCPU", cores), float64(cores*250),
			model.View(framework.NewCycleState()).Estimate(info)[load.CPU].Mean)
	}
}

func TestUtilization(t *testing.T) {
	// (2,000 + 500 + 1,500) / 8,000 = 0.5
	check.Equal(t, "utilization", 0.5, (&ResourceEstimate{Mean: 2000, Pending: 500, Base: 8000}).Utilization(1500))
	check.Equal(t, "utilization of a node without capacity: it has no room", 1, (&ResourceEstimate{}).Utilization(0))
}

func TestKnows(t *testing.T) {
	for _, tc := range []struct {
		name        string
		nodes       map[string]load.NodeLoad
		cpu, memory bool
	}{
		{name: "nothing was ever measured"},
		{"all is too old", map[string]load.NodeLoad{"a": {load.CPU: measurement(0, 0, maxAge+1), load.Memory: measurement(0, 0, maxAge+1)}}, false, false},
		{"one node of two is fresh", map[string]load.NodeLoad{"a": {load.CPU: measurement(0, 0, maxAge+1)}, "b": {load.CPU: measurement(0, 0, maxAge)}}, true, false},
		{"each resource counts for itself", map[string]load.NodeLoad{"a": {load.Memory: measurement(0, 0, 0)}}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, _ := newModel(flat(0), tc.nodes)
			view := model.View(framework.NewCycleState())
			check.Equal(t, "Knows(CPU)", tc.cpu, view.Knows(load.CPU))
			check.Equal(t, "Knows(Memory)", tc.memory, view.Knows(load.Memory))
		})
	}
}

func TestCycleSeesOneSnapshot(t *testing.T) {
	model, publisher := newModel(flat(0), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	other := modelOn(model.Snapshots(), flat(0))
	n := newNode(t, "n")
	cycle, next := framework.NewCycleState(), framework.NewCycleState()

	first := model.View(cycle).Estimate(n)
	publish(publisher, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.75, 0, 0)}})

	for name, m := range map[string]*Model{"the same plugin": model, "another plugin": other} {
		check.Equal(t, name+": load in the same cycle, want the first", first, m.View(cycle).Estimate(n))
	}
	// 0.75 of 8,000m
	check.Equal(t, "the next cycle sees milliCPU", 6000.0, model.View(next).Estimate(n)[load.CPU].Mean)
}

func TestEstimateDoesNotAllocate(t *testing.T) {
	model, _ := newModel(flat(0),
		map[string]load.NodeLoad{"n": {load.CPU: measurement(0.5, 0.1, 0), load.Memory: measurement(0.5, 0.1, 0)}})
	n, view := newNode(t, "n"), model.View(framework.NewCycleState())
	view.Estimate(n)
	check.Equal(t, "allocations per estimate", 0.0, testing.AllocsPerRun(100, func() { view.Estimate(n) }))
}

func BenchmarkEstimate(b *testing.B) {
	model, _ := newModel(flat(0),
		map[string]load.NodeLoad{"n": {load.CPU: measurement(0.5, 0.1, 0), load.Memory: measurement(0.5, 0.1, 0)}})
	info := framework.NewNodeInfo()
	info.SetNode(
		st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "16Gi"}).Obj(),
	)
	view := model.View(framework.NewCycleState())
	b.ReportAllocs()
	for b.Loop() {
		view.Estimate(info)
	}
}

func TestModel_IsSafeForConcurrentUse(t *testing.T) {
	loads := map[string]load.NodeLoad{"a": {load.CPU: measurement(0.25, 0, 0)}, "b": {load.CPU: measurement(0.25, 0, 0)}}
	model, publisher := newModel(podusage.ByRequests{}, loads)
	infos := []fwk.NodeInfo{newNode(t, "a"), newNode(t, "b")}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 200 {
				// 0.25 of 8,000, and two pods that were just placed with 1,000 each.
				if e := model.View(framework.NewCycleState()).Estimate(infos[i%2]); e[load.CPU].Mean+e[load.CPU].Pending != 4000 {
					t.Errorf("estimate %+v", e[load.CPU])
					return
				}
			}
		})
	}
	for i := range 100 {
		if i%10 == 0 {
			publish(publisher, loads) // with another index
		} else {
			republish(publisher, load.NodeLoad{load.CPU: measurement(0.25, 0, 0)})
		}
	}
	group.Wait()
}

// A model of a quantile estimates by the quantile, and reserves usage until the quantile shows it. The 95th percentile of an hour
// does not show a load of three minutes. It rises over the measurement's span.
func TestModel_Quantile(t *testing.T) {
	p := load.NewPublisher()
	index := load.NewIndex([]string{"n"})
	table := func(mean float64, span time.Duration) *load.Table {
		m := measurement(mean, 0, 0)
		m.Window = span
		return load.NewTable(index, func(string) load.NodeLoad { return load.NodeLoad{load.CPU: m} })
	}
	q := load.Quantile{Window: time.Hour, Fraction: 0.95}
	p.Publish(load.NewSnapshot(index, map[time.Duration]*load.Table{time.Hour: table(0.25, time.Hour)}, nil).
		WithQuantiles(map[load.Quantile]*load.Table{q: table(0.5, 2*time.Minute)}))
	config := Config{
		Window: q.Window, Trust: load.Trust{RefreshInterval: 30 * time.Second, MaxAge: maxAge, DriftTolerance: 10},
		Estimators: Fixed{flat(1000)}, Clock: clocktesting.NewFakePassiveClock(now),
	}
	for _, tc := range []struct {
		name                  string
		fraction              float64
		running               time.Duration
		wantMean, wantPending float64
	}{
		{"the mean", 0, 3 * time.Minute, 2000, 950}, // 57 minutes of 60 do not show the pod
		{"the quantile shows nothing yet", 0.95, 3 * time.Minute, 4000, 1000},
		{"the quantile rises", 0.95, 4 * time.Minute, 4000, 500}, // for one minute of two
		{"the quantile has risen", 0.95, 5 * time.Minute, 4000, 0},
		{"a quantile that is not read", 1, time.Hour, 0, 0},
	} {
		pod := podOf(corev1.PodRunning, ago(tc.running))
		info := framework.NewNodeInfo(pod)
		info.SetNode(newNode(t, "n").Node())
		config.Fraction = tc.fraction
		model := NewModel(NewSnapshots(p), config)
		e := model.View(framework.NewCycleState()).Resource(info, load.CPU)
		if known := e.State == load.Fresh; known != (tc.wantMean > 0) {
			t.Errorf("%s: %v", tc.name, e.State)
		} else if known && (e.Mean != tc.wantMean || e.Pending != tc.wantPending) {
			t.Errorf("%s: mean %v and pending %v, want %v and %v", tc.name, e.Mean, e.Pending, tc.wantMean, tc.wantPending)
		}
		if loads := model.View(framework.NewCycleState()).Pods(info); tc.wantMean > 0 &&
			loads[0].Resources[load.CPU].Pending != tc.wantPending {
			t.Errorf("%s: pending of the pod is %v, want %v", tc.name, loads[0].Resources[load.CPU].Pending, tc.wantPending)
		}
		check.Equal(t, tc.name+": measured outside of a cycle", tc.wantMean, model.Measured(info.Node())[load.CPU].Mean)
	}
}
