package generate

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// aggregates are what a scenario comes to, over the counted hours if every pod runs from its arrival on.
type aggregates struct {
	pods, workloads                 int
	demand, requests                float64 // over the CPU capacity
	memoryRequests                  float64
	unrequested, limited, recurring float64 // shares of workloads
}

func aggregatesOf(in *input.Input) aggregates {
	a := aggregates{pods: len(in.Pods), workloads: len(in.Workloads)}
	var capacity, memory float64
	for i := range in.Nodes {
		capacity += in.Nodes[i].Capacity.CPUMillis * in.Counted.Hours()
		memory += in.Nodes[i].Capacity.MemoryBytes * in.Counted.Hours()
	}
	n, bursts := input.NewNoise(), map[int]map[string]bool{}
	for i := range in.Pods {
		p := &in.Pods[i]
		if bursts[p.Workload] == nil {
			bursts[p.Workload] = map[string]bool{}
		}
		bursts[p.Workload][fmt.Sprint(p.Arrival)] = true
		from, to := max(p.Arrival, in.Length-in.Counted), min(p.Arrival+p.Lifetime, in.Length)
		if to <= from {
			continue
		}
		requests := &in.Workloads[p.Workload].Requests
		a.requests += requests.CPUMillis * (to - from).Hours() / capacity
		a.memoryRequests += requests.MemoryBytes * (to - from).Hours() / memory
		d := in.DemandOf(p, n)
		for tick := input.Ticks(from); tick < input.Ticks(to); tick++ {
			a.demand += float64(d.At(tick)) * input.Tick.Hours() / capacity
		}
	}
	share := 1 / float64(len(in.Workloads))
	for i := range in.Workloads {
		w := &in.Workloads[i]
		switch {
		case w.Requests.CPUMillis == 0:
			a.unrequested += share
		case w.Limits.CPUMillis > 0:
			a.limited += share
		}
		if len(bursts[i]) > 1 {
			a.recurring += share
		}
	}
	return a
}

func TestInput_Aggregates(t *testing.T) {
	traces := Synthetic(1)
	for i, want := range []struct{ demand, requests, pods float64 }{
		{0.44, 0.73, 13900}, {0.54, 0.88, 17000}, {0.24, 0.40, 7600}, {0.44, 0.73, 13900},
	} {
		s := Scenarios()[i]
		t.Run(s.Name, func(t *testing.T) {
			in := check.Value(Input(traces, s, 100, 1))(t)
			a := aggregatesOf(in)
			t.Logf("%+v", a)
			for _, f := range []struct {
				name                 string
				got, want, tolerance float64
			}{
				{"demand", a.demand, want.demand, 0.01},
				{"requests", a.requests, want.requests, 0.06},
				{"requests of memory, so that CPU binds", a.memoryRequests, 0.15, 0.1},
				{"pods", float64(a.pods), want.pods, 0.08 * want.pods},
				{"workloads without requests", a.unrequested, 0.15, 0.03},
				{"workloads with a limit", a.limited, 0.3, 0.03},
			} {
				if f.got < f.want-f.tolerance || f.got > f.want+f.tolerance {
					t.Errorf("%s: %.3f, want %.3f ± %.3f", f.name, f.got, f.want, f.tolerance)
				}
			}
			if s.Name == "base" && (a.workloads < 1550 || a.workloads > 1750) {
				t.Errorf("%d workloads, want about 1,650", a.workloads)
			}
			if s.Name == "new" && a.recurring > 0 {
				t.Errorf("%.3f of the workloads come twice", a.recurring)
			}
		})
	}
}

// flat are traces whose machines use from 5 to 30 %.
func flat() *Traces {
	t := &Traces{Name: "flat"}
	for i := range 50 {
		row := make([]float32, samplesPerDay)
		for j := range row {
			row[j] = 0.05 + 0.25*float32((i*7+j*13)%50)/50
		}
		t.Machines = append(t.Machines, row)
	}
	return t
}

func generated(t testing.TB, s Scenario, nodes int, seed uint64) *input.Input {
	t.Helper()
	return check.Value(Input(flat(), s, nodes, seed))(t)
}

func TestInput_SameSeedSamePods(t *testing.T) {
	base := Scenarios()[0]
	first := generated(t, base, 10, 1)
	if !reflect.DeepEqual(first, generated(t, base, 10, 1)) {
		t.Error("the same seed yields other pods")
	}
	if reflect.DeepEqual(first.Pods, generated(t, base, 10, 2).Pods) {
		t.Error("another seed yields the same pods")
	}
}
