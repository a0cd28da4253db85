package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// growing is a cluster of two nodes. At first the pods use 100m, 400m and 200m, and the third joins the first. From 20:00 on, the
// first uses 700m: its node has 90 %.
func growing() *input.Input {
	var workloads []input.Workload
	for _, name := range []string{"grows", "other", "moves"} {
		workloads = append(workloads, input.Workload{Namespace: "n", Name: name, Requests: input.Amounts{CPUMillis: 300}})
	}
	grows := steady(0, 0, 2*time.Hour, 1000)
	grows.Trace = []float32{0.1, 0.1, 0.1, 0.1, 0.7}
	return tiny(workloads, grows, steady(1, 2*time.Minute, 2*time.Hour, 400), steady(2, 7*time.Minute, 40*time.Minute, 200))
}

// rebalanced returns the policy with a rebalancer.
func rebalanced(p Policy, c *api.Configuration) Policy {
	return (&Rebalance{c: c, termination: 30 * time.Second, startup: 30 * time.Second}).AddTo(p)
}

// small allows moves in a cluster of two nodes and three pods.
func small() *api.Configuration {
	c := api.Default()
	c.MaxHotNodesPercent, c.MaxPodsPercentPerHour = 50, 100
	c.Unprotected = []api.Protection{api.SingleReplicas}
	return c
}

func predictedPeak(t *testing.T) Policy {
	t.Helper()
	known := check.Value(ReadPolicies("../testdata/known.yaml"))(t)
	return known[slices.IndexFunc(known, func(p Policy) bool { return p.Name == "PredictedPeak" })]
}

// Without a rebalancer, the node is hot until the third pod ends at 47:30. With one, the mean of 5 minutes passes 80 %
// at 24:30: nine of ten ticks have 90 %. At the fifth refresh, at 26:30, the third pod goes. It uses the node for one more tick.
func TestRebalance(t *testing.T) {
	without := replayOne(t, growing(), predictedPeak(t))
	with := replayOne(t, growing(), rebalanced(predictedPeak(t), small()))
	if without.HotMinutes != 27.5 || without.Moves != 0 {
		t.Errorf("without a rebalancer %v hot minutes and %d moves, want 27.5 and none", without.HotMinutes, without.Moves)
	}
	if with.HotMinutes != 7 || with.Moves != 1 || with.Landed != 1 || with.Returned != 0 {
		t.Errorf("%v hot minutes, %d moves, %d landed, %d returned; want 7, one, which landed, and none", with.HotMinutes, with.Moves,
			with.Landed, with.Returned)
	}
}

// The stock profile reads no load, so the mean of 5 minutes is compared with 80 %. The first and the third pod share a node, because the
// second one requests more. That one ends at 22:00. From 20:00 on, the node has 90 %. At 26:30 the third pod goes to the empty node. Its
// replacement runs between two refreshes, when the load is still trusted.
func TestRebalance_WithoutLoadPlugin(t *testing.T) {
	in := growing()
	in.Workloads[1].Requests.CPUMillis, in.Workloads[2].Requests.CPUMillis, in.Pods[1].Lifetime = 700, 200, 20*time.Minute
	run := replayOne(t, in, rebalanced(policy(t, report.Stock), small()))
	check.Equal(t, "moves, landed, returned", [3]int{1, 1, 0}, [3]int{run.Moves, run.Landed, run.Returned})
}

// The node is hot from 26:30 on, until the third pod ends.
func TestRebalance_Stays(t *testing.T) {
	none := small()
	none.MaxMovesPerHour = 0
	if run := replayOne(t, growing(), rebalanced(predictedPeak(t), none)); run.HotMinutes != 27.5 || run.Moves != 0 {
		t.Errorf("%v hot minutes and %d moves, want 27.5 and none", run.HotMinutes, run.Moves)
	}
}

// The replay begins at 03:00. If a window opens at 03:30, the third pod uses its node until 30:30. With a window until 03:26, it never moves.
func TestRebalance_Windows(t *testing.T) {
	for _, tc := range []struct {
		schedule string
		duration time.Duration
		hot      float64
		moves    int
	}{
		{"30 3 * * *", time.Hour, 10.5, 1},
		{"0 3 * * *", 26 * time.Minute, 27.5, 0},
	} {
		c := small()
		c.Windows = []api.Window{{Schedule: tc.schedule, Duration: metav1.Duration{Duration: tc.duration}}}
		run := replayOne(t, growing(), rebalanced(predictedPeak(t), c))
		if run.HotMinutes != tc.hot || run.Moves != tc.moves {
			t.Errorf("%s: %v hot minutes, %d moves; want %v, %d", tc.schedule, run.HotMinutes, run.Moves, tc.hot, tc.moves)
		}
	}
}

// A replay of a day from Thursday, 1 January, 03:00 on.
func TestCheck_Windows(t *testing.T) {
	in := &input.Input{Start: time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC), Length: 24 * time.Hour}
	for schedule, want := range map[string]bool{
		"": true, "0 2 * * 4": false, "1 2 * * 4": true, "0 3 * * 4": true, "59 2 * * 5": true, "0 3 * * 5": false, "0 3 * * 6": false,
	} {
		c := api.Default()
		if schedule != "" {
			c.Windows = []api.Window{{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}}}
		}
		policies := []Policy{predictedPeak(t), rebalanced(predictedPeak(t), c)}
		if err := Check(policies, []*input.Input{in}); (err == nil) != want {
			t.Errorf("windows at %q: error %v, want one: %t", schedule, err, !want)
		}
	}
}

// Three moves of two namespaces have failed at the start, so the circuit breaker is open for 25 minutes, from the first tick on. Then the
// third pod moves at 26:30, as without failures. Within an hour, nothing moves.
func TestRebalance_Breaker(t *testing.T) {
	for _, tc := range []struct {
		duration time.Duration
		hot      float64
		moves    int
	}{{25 * time.Minute, 7, 1}, {time.Hour, 27.5, 0}} {
		c := small()
		c.BreakerDuration.Duration, c.MaxPodsPercentPerHour = tc.duration, 200 // six moves: the failed ones count
		e := check.Value(newEngine(klog.NewContext(t.Context(), logr.Discard()), growing(), rebalanced(predictedPeak(t), c)))(t)
		for uid, namespace := range map[types.UID]string{"1": "x", "2": "y", "3": "y"} {
			m := e.mover
			m.history.Begin(&plan.Move{Namespace: namespace, UID: uid}, e.clock.Now())
			check.Equal(t, "the outcome", plan.NotReady, m.history.End(t.Context(), m.cluster(), c, uid, nil))
		}
		for tick := range input.Ticks(e.Length) {
			check.OK(t, e.tick(t.Context(), tick))
		}
		if run := e.figures.run(e); run.HotMinutes != tc.hot || run.Moves != tc.moves {
			t.Errorf("%v hot minutes, %d moves; want %v, %d", run.HotMinutes, run.Moves, tc.hot, tc.moves)
		}
	}
}

// The pod starts at 7:30, tick 15, with 80 ticks to run. It is evicted at tick 53 with 42 left, and starts again at tick 55.
func TestRebalance_RestOfLifetime(t *testing.T) {
	e := check.Value(newEngine(klog.NewContext(t.Context(), logr.Discard()), growing(), rebalanced(predictedPeak(t), small())))(t)
	p := &e.pods[2]
	for tick := range 56 {
		check.OK(t, e.tick(t.Context(), tick))
		if tick == 52 && (p.start != 15 || p.end != 95) {
			t.Errorf("runs in ticks [%d, %d), want [15, 95)", p.start, p.end)
		}
	}
	if p.start != 55 || p.end != 97 || p.node == e.pods[0].node || len(e.mover.underWay) != 0 {
		t.Errorf("after the move, runs in ticks [%d, %d) on node %d. Want [55, 97) on the other. Under way: %d moves, want none",
			p.start, p.end, p.node, len(e.mover.underWay))
	}
}

// Whoever knows the future counts a moved pod once. At tick 80 the pods use 700m, 400m and 200m.
func TestRebalance_Clairvoyant(t *testing.T) {
	e := check.Value(newEngine(klog.NewContext(t.Context(), logr.Discard()), growing(), rebalanced(policy(t, report.Clairvoyant), small())))(t)
	for tick := range 30 {
		check.OK(t, e.tick(t.Context(), tick))
		if p := &e.pods[2]; tick == 25 {
			move := plan.Move{From: e.Nodes[p.node].Name, UID: p.object.UID}
			check.OK(t, e.mover.evict(&move, tick+1))
		}
	}
	sum := float32(0)
	for _, demand := range e.future.demand {
		sum += demand[80]
	}
	check.Equal(t, "milliCPU at tick 80", 1300, sum)
}

// With 90 s to terminate and 2 minutes to start, the source is hot for two ticks more than above. The pod starts at tick 53 + 3 + 4.
func TestRebalance_Costs(t *testing.T) {
	slow := (&Rebalance{c: small(), termination: 90 * time.Second, startup: 2 * time.Minute}).AddTo(predictedPeak(t))
	if run := replayOne(t, growing(), slow); run.HotMinutes != 8 || run.Moves != 1 {
		t.Errorf("%v hot minutes and %d moves, want 8 and one", run.HotMinutes, run.Moves)
	}
	e := check.Value(newEngine(klog.NewContext(t.Context(), logr.Discard()), growing(), slow))(t)
	for tick := range 61 {
		check.OK(t, e.tick(t.Context(), tick))
	}
	if p := &e.pods[2]; p.start != 60 || p.end != 102 {
		t.Errorf("runs in ticks [%d, %d), want [60, 102)", p.start, p.end)
	}
}

// Three of six nodes are at 90 % from their growth on, as above, and a pod of 120m moves off each. The evicted pods take 10 minutes to
// end, and the replay ends before that. There are two places, and two of four replicas may be missing, so two pods move.
func TestRebalance_UnderWay(t *testing.T) {
	for _, tc := range []struct {
		name string
		// growth is in steps of 5 minutes.
		growth   []int
		inFlight float64
		ofOne    bool
	}{
		{"two places", []int{4, 4, 4}, 1, false},
		{"a second replica later", []int{4, 5, 20}, 100, true},
		{"a third replica later", []int{4, 4, 5}, 100, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := tiny(nil)
			in.Length, in.Counted = 35*time.Minute, 35*time.Minute
			for _, name := range []string{"c", "d", "e", "f"} {
				in.Nodes = append(in.Nodes, input.Node{Name: name, Zone: "z", Capacity: in.Nodes[0].Capacity})
			}
			workload := func(namespace, name string, requests float64) int {
				in.Workloads = append(in.Workloads, input.Workload{
					Namespace: namespace, Name: name, Requests: input.Amounts{CPUMillis: requests},
				})
				return len(in.Workloads) - 1
			}
			grows, ends, moves := workload("n", "grows", 600), workload("n", "ends", 700), workload("m", "moves", 200)
			for _, steps := range tc.growth {
				pod := steady(grows, 0, 2*time.Hour, 1000)
				pod.Trace = append(slices.Repeat([]float32{0.1}, steps), 0.78)
				in.Pods = append(in.Pods, pod)
			}
			for range tc.growth {
				in.Pods = append(in.Pods, steady(ends, time.Minute, 20*time.Minute, 100))
			}
			for i := range 4 {
				if !tc.ofOne {
					moves = workload(fmt.Sprint("m", i), "moves", 200)
				}
				in.Pods = append(in.Pods, steady(moves, 2*time.Minute, 2*time.Hour, 120))
			}
			c := small()
			c.MaxNodesPercentInFlight, c.ReplacementTimeout.Duration = tc.inFlight, 15*time.Minute
			slow := (&Rebalance{c: c, termination: 10 * time.Minute, startup: 30 * time.Second}).AddTo(policy(t, report.Stock))
			check.Equal(t, "moves", 2, replayOne(t, in, slow).Moves)
		})
	}
}

// A pod that is placed on a node within an hour after it was moved off has returned.
func TestRebalance_Returns(t *testing.T) {
	at := tiny(nil).Start
	for _, tc := range []struct {
		name string
		ago  time.Duration
		mark int
		want int
	}{
		{"an hour later", time.Hour, 0, 1},
		{"more than an hour later", time.Hour + time.Second, 0, 0},
		{"before figures count", time.Minute, -1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := check.Value(newEngine(t.Context(), tiny(nil), policy(t, report.Stock)))(t)
			e.clock.SetTime(at)
			e.pods = make([]podState, 8)
			m := &rebalancing{
				engine:     e,
				underWay:   map[int]underWay{7: {Move: plan.Move{From: "b", To: "c"}, mark: tc.mark}},
				departures: map[int][]departure{7: {{"a", at.Add(-tc.ago)}, {"b", at}}},
			}
			m.bound(7, "a")
			check.Equal(t, "returned", tc.want, e.figures.Returned)
		})
	}
}

// A pod uses 100m when it arrives at 2:00, and 40m when it starts again at 10:00. For 5 minutes it uses 100m; then the trace holds.
func TestDemand_Restarted(t *testing.T) {
	in := &input.Input{Workloads: make([]input.Workload, 1), Pods: []input.Pod{
		{Arrival: 2 * time.Minute, Trace: []float32{1, 0.2, 0.4, 1.25}, CPUMillis: 100, Noise: -1},
	}}
	d := in.DemandOf(&in.Pods[0], nil)
	d = d.Restarted(20)
	for tick, want := range map[int]float32{20: 100, 29: 100, 30: 125} {
		check.Equal(t, fmt.Sprintf("milliCPU in tick %d", tick), want, d.At(tick))
	}
}
