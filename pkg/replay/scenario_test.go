package replay

import (
	"fmt"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// aggregates are what a scenario comes to, over the counted hours if every pod runs from its arrival on.
type aggregates struct {
	pods, workloads        int
	demand, requests       float64 // over the CPU capacity
	memoryRequests         float64
	silent, limited, twice float64 // shares of workloads
}

func aggregatesOf(in *Input) aggregates {
	a := aggregates{pods: len(in.Pods), workloads: len(in.Workloads)}
	var capacity, memory float64
	for i := range in.Nodes {
		capacity += in.Nodes[i].Capacity[load.CPU] * in.Counted.Hours()
		memory += in.Nodes[i].Capacity[load.Memory] * in.Counted.Hours()
	}
	n, bursts := newNoise(), map[int]map[string]bool{}
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
		a.requests += requests[load.CPU] * (to - from).Hours() / capacity
		a.memoryRequests += requests[load.Memory] * (to - from).Hours() / memory
		d := in.demandOf(p, n)
		for tick := ticks(from); tick < ticks(to); tick++ {
			a.demand += float64(d.at(tick)) * Tick.Hours() / capacity
		}
	}
	share := 1 / float64(len(in.Workloads))
	for i := range in.Workloads {
		w := &in.Workloads[i]
		switch {
		case w.Requests[load.CPU] == 0:
			a.silent += share
		case w.Limits[load.CPU] > 0:
			a.limited += share
		}
		if len(bursts[i]) > 1 {
			a.twice += share
		}
	}
	return a
}

func TestGenerate_Aggregates(t *testing.T) {
	traces := Synthetic(1)
	for i, want := range []struct{ demand, requests, pods float64 }{
		{0.44, 0.73, 13900}, {0.54, 0.88, 17000}, {0.24, 0.40, 7600}, {0.44, 0.73, 13900},
	} {
		s := Scenarios()[i]
		t.Run(s.Name, func(t *testing.T) {
			in, err := Generate(traces, s, 100, 1)
			if err != nil {
				t.Fatal(err)
			}
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
				{"workloads that request nothing", a.silent, 0.15, 0.03},
				{"workloads with a limit", a.limited, 0.3, 0.03},
			} {
				if f.got < f.want-f.tolerance || f.got > f.want+f.tolerance {
					t.Errorf("%s: %.3f, want %.3f ± %.3f", f.name, f.got, f.want, f.tolerance)
				}
			}
			if s.Name == "base" && (a.workloads < 1550 || a.workloads > 1750) {
				t.Errorf("%d workloads, want about 1,650", a.workloads)
			}
			if s.Name == "new" && a.twice > 0 {
				t.Errorf("%.3f of the workloads come twice", a.twice)
			}
		})
	}
}
