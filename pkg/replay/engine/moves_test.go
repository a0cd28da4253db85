package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
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

// once moves a pod at a tick.
type once struct {
	sim.MoverInput
	pod types.UID
	at  time.Time
}

func (m *once) Moves(ctx context.Context, now time.Time) (pods []*corev1.Pod, err error) {
	infos, err := m.Scheduler.NodeInfos(ctx)
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			if now.Equal(m.at) && pod.GetPod().UID == m.pod {
				pods = append(pods, pod.GetPod())
			}
		}
	}
	return pods, err
}

func (*once) Placed(types.UID, *corev1.Pod) {}

func (*once) Ready(context.Context, types.UID, *corev1.Pod, time.Time) bool { return true }

// moved returns the policy with a move of the third pod at 26:30, tick 53.
func moved(p Policy, termination, startup time.Duration) Policy {
	m := &Moves{Kind: sim.MoverKind{Name: "once"}, termination: termination, startup: startup}
	m.start = func(in sim.MoverInput) sim.Mover {
		return &once{in, "pod-2", tiny(nil).Start.Add(26*time.Minute + 30*time.Second)}
	}
	return m.AddTo(p)
}

func predictedPeak(t *testing.T) Policy {
	t.Helper()
	known := check.Value(ReadPolicies("../testdata/known.yaml"))(t)
	return known[slices.IndexFunc(known, func(p Policy) bool { return p.Name == "PredictedPeak" })]
}

// Without a move, the node is hot until the third pod ends at 47:30. With one, until the pod has used the node for one more tick.
func TestMoves(t *testing.T) {
	without := replayOne(t, growing(), predictedPeak(t))
	with := replayOne(t, growing(), moved(predictedPeak(t), 30*time.Second, 30*time.Second))
	if without.HotMinutes != 27.5 || without.Moves != 0 {
		t.Errorf("without moves %v hot minutes and %d moves, want 27.5 and none", without.HotMinutes, without.Moves)
	}
	if with.HotMinutes != 7 || with.Moves != 1 || with.Landed != 1 || with.Returned != 0 {
		t.Errorf("%v hot minutes, %d moves, %d landed, %d returned; want 7, one, which landed, and none", with.HotMinutes, with.Moves,
			with.Landed, with.Returned)
	}
}

// The pod starts at 7:30, tick 15, with 80 ticks to run. It is evicted at tick 53 with 42 left, and starts again at tick 55.
func TestMoves_RestOfLifetime(t *testing.T) {
	e := check.Value(newEngine(klog.NewContext(t.Context(), logr.Discard()), growing(), moved(predictedPeak(t), 30*time.Second, 30*time.Second)))(t)
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
func TestMoves_Clairvoyant(t *testing.T) {
	e := check.Value(newEngine(klog.NewContext(t.Context(), logr.Discard()), growing(), moved(policy(t, report.Clairvoyant), 30*time.Second, 30*time.Second)))(t)
	for tick := range 30 {
		check.OK(t, e.tick(t.Context(), tick))
		if p := &e.pods[2]; tick == 25 {
			check.OK(t, e.mover.evict(p.object, tick+1))
		}
	}
	sum := float32(0)
	for _, demand := range e.future.demand {
		sum += demand[80]
	}
	check.Equal(t, "milliCPU at tick 80", 1300, sum)
}

// With 90 s to terminate and 2 minutes to start, the source is hot for two ticks more than above. The pod starts at tick 53 + 3 + 4.
func TestMoves_Costs(t *testing.T) {
	slow := moved(predictedPeak(t), 90*time.Second, 2*time.Minute)
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

// A pod that is placed on a node within an hour after it was moved off has returned.
func TestMoves_Returns(t *testing.T) {
	at := tiny(nil).Start
	for _, tc := range []struct {
		name    string
		ago     time.Duration
		counted bool
		want    int
	}{
		{"an hour later", time.Hour, true, 1},
		{"more than an hour later", time.Hour + time.Second, true, 0},
		{"before figures count", time.Minute, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := check.Value(newEngine(t.Context(), tiny(nil), policy(t, report.Stock)))(t)
			e.clock.SetTime(at)
			e.pods = make([]podState, 8)
			m := &moving{
				engine: e, mover: &once{},
				underWay:   map[int]underWay{7: {counted: tc.counted}},
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
