package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

func descheduler(t *testing.T, name, thresholds string) Descheduler {
	t.Helper()
	for _, d := range Deschedulers() {
		if d.Name == name {
			changed, err := d.WithThresholds(thresholds)
			if err != nil {
				t.Fatal(err)
			}
			return changed
		}
	}
	t.Fatalf("no descheduler %s", name)
	return Descheduler{}
}

// From 20:00 on, node a has 90 % by pods of 700m and 200m, and b has 40 %. To 80 %, 100m are too much on a.
//
// LowNodeUtilization looks at the last minute each five minutes: first at 25:00, tick 50. The pod of 200m has the lower QoS class.
// LowNodeLoad looks at five minutes each two minutes. At 24:00 they have (8 × 90 + 2 × 30) / 10 = 78 %, at 26:00 90 %. The fifth round
// is at 34:00, tick 68.
func TestDeschedulers(t *testing.T) {
	for _, tc := range []struct {
		name, of, thresholds string
		change               func(*input.Input)
		pod, tick            int
	}{
		{"lowest QoS class first", "LowNodeUtilization", "45/80",
			func(in *input.Input) { in.Workloads[2].Requests = input.Amounts{} }, 2, 50},
		{"largest first", "LowNodeLoad", "45/80", nil, 0, 68},
		{"no node is below the low threshold", "LowNodeUtilization", "40/80", nil, -1, 0},
		{"no node is above the high threshold", "LowNodeUtilization", "45/90", nil, -1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := growing()
			if tc.change != nil {
				tc.change(in)
			}
			p := policy(t, report.Stock)
			p = p.WithDescheduler(descheduler(t, tc.of, tc.thresholds), halfMinutes)
			e, err := newEngine(klog.NewContext(t.Context(), logr.Discard()), in, p)
			if err != nil {
				t.Fatal(err)
			}
			pod, at := -1, 0
			for tick := range 75 {
				if err := e.tick(t.Context(), tick); err != nil {
					t.Fatal(err)
				}
				for i := range e.pods {
					if e.pods[i].restarts > 0 && pod < 0 {
						pod, at = i, tick
					}
				}
			}
			if pod != tc.pod || at != tc.tick {
				t.Errorf("moves pod %d at tick %d, want pod %d at tick %d", pod, at, tc.pod, tc.tick)
			}
		})
	}
}

// A node of ten pods of 100m each is 700m above 30 %. The other node is large and empty.
func TestDescheduler_OfAWorkload(t *testing.T) {
	for _, tc := range []struct{ workloads, want int }{
		{1, 2},  // of ten replicas, two
		{2, 4},  // of five replicas each, two
		{5, 5},  // of two replicas each, one
		{10, 7}, // of ten workloads with a replica each, as many as are too much
	} {
		t.Run(fmt.Sprint(tc.workloads), func(t *testing.T) {
			in := tiny(make([]input.Workload, tc.workloads))
			in.Nodes[1].Capacity.CPUMillis = 10_000
			for i := range 10 {
				in.Pods = append(in.Pods, steady(i%tc.workloads, 0, time.Hour, 100))
			}
			d := descheduler(t, "LowNodeLoad", "20/30")
			d.rounds = 1
			e, err := newEngine(klog.NewContext(t.Context(), logr.Discard()), in, policy(t, report.Stock).WithDescheduler(d, halfMinutes))
			if err != nil {
				t.Fatal(err)
			}
			e.arrive(0)
			for i := range e.pods {
				e.pods[i].demand = e.demandOf(i, 0)
				e.nodes[0].running = append(e.nodes[0].running, i)
			}
			for range 4 {
				e.measured.add(0, podusage.Amounts{load.CPU: 1})
				e.measured.add(1, podusage.Amounts{})
				e.measured.next()
			}
			plan, err := e.mover.plan(t.Context())
			if err != nil || len(plan.Moves) != tc.want {
				t.Errorf("%d moves, error %v, want %d", len(plan.Moves), err, tc.want)
			}
		})
	}
}

func TestDescheduler_Thresholds(t *testing.T) {
	for _, wrong := range []string{"", "40", "40/", "80/40", "-1/40", "40/101", "40/80x", "40/80/90", "a/b"} {
		if _, err := Deschedulers()[0].WithThresholds(wrong); err == nil || !strings.Contains(err.Error(), "such as 40/80") {
			t.Errorf("%q: error %v, want one that shows thresholds", wrong, err)
		}
	}
}
