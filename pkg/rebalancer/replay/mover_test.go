package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	replays "github.com/plimsoll-scheduler/plimsoll/pkg/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// tiny is an hour of two nodes of one core and 1 GiB.
func tiny(workloads []input.Workload, pods ...input.Pod) *input.Input {
	in := &input.Input{
		Name: "tiny", Start: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), Length: time.Hour, Counted: time.Hour,
		Workloads: workloads, Pods: pods,
	}
	for _, name := range []string{"a", "b"} {
		in.Nodes = append(in.Nodes, input.Node{Name: name, Zone: "z", Capacity: input.Amounts{CPUMillis: 1000, MemoryBytes: 1 << 30}})
	}
	return in
}

// steady is a pod without noise that uses that much.
func steady(workload int, arrival, lifetime time.Duration, millis float32) input.Pod {
	return input.Pod{Workload: workload, Arrival: arrival, Lifetime: lifetime, Trace: []float32{1}, CPUMillis: millis, Noise: -1}
}

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

// policy is the stock policy, or that of known.yaml.
func policy(t *testing.T, name string) engine.Policy {
	t.Helper()
	if name == report.Stock {
		return check.Value(engine.BuiltinPolicy(name))(t)
	}
	known := check.Value(engine.ReadPolicies("../../replay/testdata/known.yaml"))(t)
	return known[slices.IndexFunc(known, func(p engine.Policy) bool { return p.Name == name })]
}

// run replays with a rebalancer. prepare is called with it before, unless it is nil.
func run(t *testing.T, in *input.Input, policy engine.Policy, c *api.Configuration, prepare func(*mover), flags ...string) report.Run {
	t.Helper()
	moves, kind := engine.Moves{Kind: Kind()}, Kind()
	moves.Kind.Open = func(string) (func(sim.MoverInput) sim.Mover, error) {
		return func(in sim.MoverInput) sim.Mover {
			m := newMover(in, c)
			if prepare != nil {
				prepare(m)
			}
			return m
		}, nil
	}
	set := pflag.NewFlagSet(kind.Name, pflag.ContinueOnError)
	moves.AddFlags(set)
	check.OK(t, set.Parse(flags))
	check.OK(t, moves.Read())
	return check.Value(engine.Run(t.Context(), in, moves.AddTo(policy)))(t)
}

// small allows moves in a cluster of two nodes and three pods.
func small() *api.Configuration {
	c := api.Default()
	c.MaxHotNodesPercent, c.MaxPodsPercentPerHour = 50, 100
	c.Unprotected = []api.Protection{api.SingleReplicas}
	return c
}

// The mean of 5 minutes passes 80 % at 24:30: nine of ten ticks have 90 %. At the fifth refresh, at 26:30, the third pod goes. It uses
// the node for one more tick.
func TestMover(t *testing.T) {
	with := run(t, growing(), policy(t, "PredictedPeak"), small(), nil)
	check.Equal(t, "hot minutes", 7, with.HotMinutes)
	check.Equal(t, "moves, landed, returned", [3]int{1, 1, 0}, [3]int{with.Moves, with.Landed, with.Returned})
}

// The stock profile reads no load, so the mean of 5 minutes is compared with 80 %. The first and the third pod share a node, because the
// second one requests more. That one ends at 22:00. From 20:00 on, the node has 90 %. At 26:30 the third pod goes to the empty node. Its
// replacement runs between two refreshes, when the load is still trusted.
func TestMover_WithoutLoadPlugin(t *testing.T) {
	in := growing()
	in.Workloads[1].Requests.CPUMillis, in.Workloads[2].Requests.CPUMillis, in.Pods[1].Lifetime = 700, 200, 20*time.Minute
	got := run(t, in, policy(t, report.Stock), small(), nil)
	check.Equal(t, "moves, landed, returned", [3]int{1, 1, 0}, [3]int{got.Moves, got.Landed, got.Returned})
}

// The node is hot from 26:30 on, until the third pod ends.
func TestMover_Stays(t *testing.T) {
	none := small()
	none.MaxMovesPerHour = 0
	if got := run(t, growing(), policy(t, "PredictedPeak"), none, nil); got.HotMinutes != 27.5 || got.Moves != 0 {
		t.Errorf("%v hot minutes and %d moves, want 27.5 and none", got.HotMinutes, got.Moves)
	}
}

// The replay begins at 03:00. If a window opens at 03:30, the third pod uses its node until 30:30. With a window until 03:26, it never moves.
func TestMover_Windows(t *testing.T) {
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
		got := run(t, growing(), policy(t, "PredictedPeak"), c, nil)
		if got.HotMinutes != tc.hot || got.Moves != tc.moves {
			t.Errorf("%s: %v hot minutes, %d moves; want %v, %d", tc.schedule, got.HotMinutes, got.Moves, tc.hot, tc.moves)
		}
	}
}

// Three moves of two namespaces have failed at the start, so the circuit breaker is open for 25 minutes, from the first tick on. Then the
// third pod moves at 26:30, as without failures. Within an hour, nothing moves.
func TestMover_Breaker(t *testing.T) {
	for _, tc := range []struct {
		duration time.Duration
		hot      float64
		moves    int
	}{{25 * time.Minute, 7, 1}, {time.Hour, 27.5, 0}} {
		c := small()
		c.BreakerDuration.Duration, c.MaxPodsPercentPerHour = tc.duration, 200 // six moves: the failed ones count
		fail := func(m *mover) {
			m.cluster.Now = tiny(nil).Start
			for uid, namespace := range map[types.UID]string{"1": "x", "2": "y", "3": "y"} {
				m.history.Begin(&plan.Move{Namespace: namespace, UID: uid}, m.cluster.Now)
				check.Equal(t, "the outcome", plan.NotReady, m.history.End(t.Context(), m.cluster, c, uid, nil))
			}
		}
		if got := run(t, growing(), policy(t, "PredictedPeak"), c, fail); got.HotMinutes != tc.hot || got.Moves != tc.moves {
			t.Errorf("%v hot minutes, %d moves; want %v, %d", got.HotMinutes, got.Moves, tc.hot, tc.moves)
		}
	}
}

// Three of six nodes are at 90 % from their growth on, as above, and a pod of 120m moves off each. The evicted pods take 10 minutes to
// end, and the replay ends before that. There are two places, and two of four replicas may be missing, so two pods move.
func TestMover_UnderWay(t *testing.T) {
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
			got := run(t, in, policy(t, report.Stock), c, nil, "--termination", "10m")
			check.Equal(t, "moves", 2, got.Moves)
		})
	}
}

// Days of 5 nodes with limits that allow several moves under way.
func TestMover_RepeatsToTheBit(t *testing.T) {
	in := check.Value(generate.Input(generate.Synthetic(1), generate.Scenarios()[0], 5, 1))(t)
	in.Length, in.Counted = 4*time.Hour, 4*time.Hour
	in.Pods = slices.DeleteFunc(in.Pods, func(p input.Pod) bool { return p.Arrival >= in.Length })
	c := small()
	c.LinePercent, c.Refreshes, c.MinReliefPercent, c.MaxHotNodesPercent, c.MaxNodesPercentInFlight = 50, 1, 1, 100, 100
	runs := [2]report.Run{}
	for i := range runs {
		runs[i] = run(t, in, policy(t, "PredictedPeak"), c, nil)
	}
	check.Equal(t, "the second run (want: the first)", runs[0], runs[1])
	if runs[0].Moves < 5 {
		t.Errorf("%d moves, want some to repeat", runs[0].Moves)
	}
}

// hotNodes is a file of an hour of six nodes of 1000m, of which three get a pod of 780m and one of 120m from 20:00 on. The others are
// empty from 22:00 on. Stock requests spread the pods so.
func hotNodes() string {
	lines := []string{`{"format":"plimsoll.replay/v1","name":"hot","start":"2026-01-01T00:00:00Z","lengthSeconds":3600,"countedSeconds":3600}`}
	for _, node := range []string{"a", "b", "c", "d", "e", "f"} {
		lines = append(lines, fmt.Sprintf(`{"node":{"name":%q,"capacity":{"cpuMillis":1000,"memoryBytes":1e9}}}`, node))
	}
	for i, requests := range []int{600, 700, 200, 200, 200} {
		lines = append(lines, fmt.Sprintf(`{"workload":{"namespace":"n%d","name":"w","requests":{"cpuMillis":%d}}}`, i, requests))
	}
	for workload, pod := range []string{
		`"arrivalSeconds":0,"lifetimeSeconds":7200,"cpuMillis":[100,100,100,100,780]`,
		`"arrivalSeconds":60,"lifetimeSeconds":1200,"cpuMillis":[100]`,
		`"arrivalSeconds":120,"lifetimeSeconds":7200,"cpuMillis":[120]`,
	} {
		for i := range 3 {
			if workload >= 2 { // each its own
				workload = 2 + i
			}
			lines = append(lines, fmt.Sprintf(`{"pod":{"workload":%d,%s}}`, workload, pod))
		}
	}
	return strings.Join(lines, "\n")
}

const header = "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"

// Reports tell policies that move pods by the end of their names.
func TestKind_Name(t *testing.T) {
	check.Equal(t, "end of a policy's name", report.Rebalanced, "+"+Kind().Name)
}

func TestKind_Limits(t *testing.T) {
	load := check.File(t, "hot.jsonl", hotNodes())
	for most := range 3 {
		limits := check.File(t, "limits.yaml", fmt.Sprintf(header+
			"maxHotNodesPercent: 50\nmaxPodsPercentPerHour: 100\nunprotected: [SingleReplicas]\nmaxMovesPerHour: %d\n", most))
		out := check.Value(check.Execute(t.Context(), replays.Command(Kind()), "--load", load, "--policies", "stock+rebalance",
			"--rebalancer-config", limits, "-o", "jsonpath={.reports[0].policies[0].runs[0].moves}"))(t)
		check.Equal(t, "moves", strconv.Itoa(most), out)
	}
}

func TestKind_Errors(t *testing.T) {
	load, config := check.File(t, "hot.jsonl", hotNodes()), check.File(t, "config.yaml", `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: packing, plugins: {score: {enabled: [{name: TargetLoadPacking}]}}}]
`)
	invalid := check.File(t, "invalid.yaml", header+"maxMovesPerHour: -1\n")
	for _, tc := range []struct {
		policies string
		args     []string
		want     string
	}{
		{"nobody+rebalance", nil, `--policies: unknown policy "nobody"`},
		{"packing", nil, `--policies: unknown policy "packing"`},
		{"stock+magic", nil, `--policies: "stock+magic": nothing moves pods by the name of "magic"; write rebalance`},
		{"stock+rebalance=1/2", nil, `--policies: "stock+rebalance=1/2": nothing moves pods`},
		{"stock", []string{"--rebalancer-config", invalid}, "--rebalancer-config: no effect: no policy of --policies moves pods"},
		{"stock", []string{"--termination", "1m"}, "--termination: no effect: no policy of --policies moves pods"},
		{"packing+rebalance", []string{"--rebalancer-config", invalid},
			"--rebalancer-config: " + invalid + ": maxMovesPerHour: Invalid value: -1: must be in [0, 10000]"},
		{"stock+rebalance", []string{"--rebalancer-config", invalid + "x"}, "--rebalancer-config: "},
		{"stock+rebalance", []string{"--termination", "0s"}, "--termination: 0s; write from 30s to 1h0m0s"},
		{"stock+rebalance", []string{"--startup", "2h"}, "--startup: 2h0m0s; write from 0s to 1h0m0s"},
	} {
		args := append([]string{"--load", load, "--config", config, "--policies", tc.policies}, tc.args...)
		_, err := check.Execute(t.Context(), replays.Command(Kind()), args...)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s, %s: %v, want %s", tc.policies, tc.args, err, tc.want)
		}
	}
}
