package engine

import (
	"math"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// idle is an hour of nodes a, b and c, each with one replica of web from 0:30 on. They use 100m, 200m and 300m, so 20 % of the nodes. Of
// the other workloads, huge fits no node.
func idle(more ...input.Pod) *input.Input {
	var workloads []input.Workload
	for _, name := range []string{"web", "late"} {
		workloads = append(workloads, input.Workload{Namespace: "n", Name: name, Requests: input.Amounts{CPUMillis: 300}})
	}
	workloads = append(workloads, input.Workload{Namespace: "n", Name: "huge", Requests: input.Amounts{CPUMillis: 5000}})
	pods := []input.Pod{steady(0, 0, 2*time.Hour, 100), steady(0, 0, 2*time.Hour, 200), steady(0, 0, 2*time.Hour, 300)}
	in := tiny(workloads, append(pods, more...)...)
	in.Nodes = append(in.Nodes, in.Nodes[0])
	in.Nodes[2].Name = "c"
	return in
}

func late(at time.Duration) input.Pod { return steady(1, at, 2*time.Hour, 100) }
func huge(at time.Duration) input.Pod { return steady(2, at, 2*time.Hour, 0) }

// freeing leaves two of three nodes, and begins once an hour.
func freeing() *rebalancer.Configuration {
	c := small()
	c.Goals, c.FreeMinNodes, c.FreeRest = rebalancer.Goals(), 2, metav1.Duration{Duration: time.Hour}
	return c
}

// The pods are 10 minutes old at 10:30. Then a is cordoned: of nodes with equal disruption, the first one. Its pod is evicted at 11:00,
// and runs elsewhere from 12:00 on. So a is free for 48 of 60 minutes.
func TestFree(t *testing.T) {
	for _, tc := range []struct {
		name  string
		in    *input.Input
		costs MoveCosts
		// minutes are those in which a is free.
		minutes float64
		// window is how long pods may move; always if 0.
		window          time.Duration
		most, moves, up int
	}{
		{name: "a node is emptied", in: idle(), costs: halfMinutes, minutes: 48, most: 1, moves: 1},
		{name: "a window closes afterwards", in: idle(), costs: halfMinutes, window: 13 * time.Minute, minutes: 48, most: 1, moves: 1},
		// At 11:00, a is uncordoned, before its pod moves.
		{name: "a window closes meanwhile", in: idle(), costs: halfMinutes, window: 11 * time.Minute, up: 1},
		// The pod is decided at 30:15. At 30:30, a is uncordoned.
		{name: "a pod finds no node", in: idle(huge(30 * time.Minute)), costs: halfMinutes, minutes: 18.5, most: 1, moves: 1},
		// The pod is decided at 10:45. At 11:00, a is uncordoned, before its pod moves.
		{name: "a pod finds no node meanwhile", in: idle(huge(640 * time.Second)), costs: halfMinutes, up: 1},
		// The pod would run from 21:30 on. At 16:30 it is late.
		{name: "a replacement is not ready", in: idle(), costs: MoveCosts{30 * time.Second, 10 * time.Minute}, moves: 1, up: 1},
		{name: "the node fails", in: func() *input.Input {
			in := idle()
			in.Storms = []input.Storm{{At: 30 * time.Minute, LostUtilization: 0.001}}
			return in
		}(), costs: halfMinutes, minutes: 18, most: 1, moves: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := freeing()
			if tc.window > 0 {
				c.Windows = []rebalancer.Window{{Schedule: "0 3 * * *", Duration: metav1.Duration{Duration: tc.window}}}
			}
			policy := predictedPeak(t).WithRebalancer(c, tc.costs)
			got := replayOne(t, tc.in, policy)
			if math.Abs(got.FreedNodeHours-tc.minutes/60) > 1e-9 || math.Abs(got.FreedNodes-tc.minutes/60) > 1e-9 ||
				got.MostFreedNodes != tc.most || got.FreeMoves != tc.moves || got.Moves != tc.moves || got.GivenUp != tc.up || got.HotMinutes != 0 {
				t.Errorf("%+v, want %v minutes, %d nodes, %d moves, %d given up", got, tc.minutes, tc.most, tc.moves, tc.up)
			}
			again := replayOne(t, tc.in, policy)
			if diff := cmp.Diff(got, again, cmpopts.IgnoreFields(report.Run{}, "DecisionSeconds")); diff != "" {
				t.Errorf("replayed again (-first +second):\n%s", diff)
			}
		})
	}
	if got := replayOne(t, idle(), predictedPeak(t).WithRebalancer(small(), halfMinutes)); got.FreedNodes != 0 || got.Moves != 0 {
		t.Errorf("%+v, want no free node without the goal", got)
	}
}

// The scheduler spreads pods, and a is idle. It takes no pod at 20:15, while it is cordoned, but the one at 31:15. Before, a pod that finds
// no node has it uncordoned.
func TestFree_Cordons(t *testing.T) {
	in := idle(late(20*time.Minute), huge(30*time.Minute), late(31*time.Minute))
	e, err := newEngine(klog.NewContext(t.Context(), logr.Discard()), in, predictedPeak(t).WithRebalancer(freeing(), halfMinutes))
	if err != nil {
		t.Fatal(err)
	}
	for tick := range 63 {
		if err := e.tick(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
	}
	if first, last := e.pods[3].object.Spec.NodeName, e.pods[5].object.Spec.NodeName; first == "a" || first == "" || last != "a" {
		t.Errorf("on %q while a is cordoned, and on %q after that, want b or c, and a", first, last)
	}
}
