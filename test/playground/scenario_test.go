package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func exampleResult() workedExample {
	return workedExample{
		measured: map[string]float64{"worker-1": 0.25, "worker-2": 0.5, "worker-3": 0.1}, landed: "worker-1", explained: "worker-1",
		why: "Node:  worker-1\n",
	}
}

func TestWorkedExample(t *testing.T) {
	want := `Three 8-core workers, the load line | at 40 %, and a pod that uses next to nothing: it must go to
the node with the highest score. A measurement may be off by 1.25 %, the share of one pod of 100m.
  node        measured   score
  worker-1      25.0 %    77.5  ████████····|·················  <- the pod
  worker-2      50.0 %    33.3  ████████████|██···············
  worker-3      10.0 %    55.0  ███·········|·················
`
	wrong := testResult(t, exampleResult, want)
	wrong("a pod on another node is wrong", func(r *workedExample) { r.landed = "worker-3" },
		"the pod is on worker-3, must be on worker-1")
	wrong("an explanation of another node is wrong", func(r *workedExample) { r.explained = "worker-3" },
		"kubectl plimsoll explain would choose worker-3, the scheduler chose worker-1")
	wrong("a load that is off by one pod's share is allowed", func(r *workedExample) { r.measured["worker-1"] += 0.0125 }, "<nil>")
	// (100 − 40)·27/40 + 40 = 80.5. One pod's share is (100 − 40)·1.25/40 = 1.9 points of the score.
	wrong("a load that is off by more is wrong", func(r *workedExample) { r.measured["worker-1"] = 0.27 },
		"worker-1 scores 80.5, must be 77.5 ± 1.9")
}

// requestsLieResult is a correct result. The load-aware profile places eight pods on each of the five most loaded quiet nodes. The
// stock profile places four on each busy node.
func requestsLieResult() requestsLie {
	r := requestsLie{
		plimsoll: placement{profile: "plimsoll", pods: map[string]int{}, measured: map[string]float64{}},
		stock:    placement{profile: "default-scheduler", pods: map[string]int{}, measured: map[string]float64{}},
	}
	for i, n := range lieNodes() {
		r.plimsoll.measured[n.name], r.stock.measured[n.name] = n.load, n.load
		switch {
		case n.busy:
			r.stock.pods[n.name] = 4
			r.stock.measured[n.name] += 4 * lieShare
		case i >= 5:
			r.plimsoll.pods[n.name] = 8
			r.plimsoll.measured[n.name] += 8 * lieShare
		}
	}
	return r
}

func TestRequestsLie(t *testing.T) {
	want := `40 pods for each profile; each requests 100m and uses 200m. The requests on busy-* nodes are small,
those on quiet-* nodes large. A bar is a node's measured CPU, | the load line at 40 %, +n its pods.
A measurement may be off by one pod's share: a node is beyond the line only above 42.5 %.
          plimsoll                                     default-scheduler
quiet-01  █···········|·················   4.0 %       █···········|·················   4.0 %
quiet-02  ██··········|·················   5.0 %       ██··········|·················   5.0 %
quiet-03  ██··········|·················   6.0 %       ██··········|·················   6.0 %
quiet-04  ██··········|·················   7.0 %       ██··········|·················   7.0 %
quiet-05  ██··········|·················   8.0 %       ██··········|·················   8.0 %
quiet-06  █████████···|·················  29.0 %  +8   ███·········|·················   9.0 %
quiet-07  █████████···|·················  30.0 %  +8   ███·········|·················  10.0 %
quiet-08  █████████···|·················  31.0 %  +8   ███·········|·················  11.0 %
quiet-09  ██████████··|·················  32.0 %  +8   ████········|·················  12.0 %
quiet-10  ██████████··|·················  33.0 %  +8   ████········|·················  13.0 %
busy-01   ████████████|███████████······  81.0 %       ████████████|██████████████···  91.0 %  +4
busy-02   ████████████|████████████·····  82.0 %       ████████████|███████████████··  92.0 %  +4
busy-03   ████████████|████████████·····  83.0 %       ████████████|███████████████··  93.0 %  +4
busy-04   ████████████|████████████·····  84.0 %       ████████████|███████████████··  94.0 %  +4
busy-05   ████████████|█████████████····  85.0 %       ████████████|████████████████·  95.0 %  +4
busy-06   ████████████|█████████████····  86.0 %       ████████████|████████████████·  96.0 %  +4
busy-07   ████████████|█████████████····  87.0 %       ████████████|████████████████·  97.0 %  +4
busy-08   ████████████|█████████████····  88.0 %       ████████████|████████████████·  98.0 %  +4
busy-09   ████████████|██████████████···  89.0 %       ████████████|█████████████████  99.0 %  +4
busy-10   ████████████|██████████████···  90.0 %       ████████████|█████████████████ 100.0 %  +4
hottest   busy-10 at 90.0 %                            busy-10 at 100.0 %
> 80 %    10 nodes                                     10 nodes
on busy   0 of 40 pods                                 40 of 40 pods
`
	wrong := testResult(t, requestsLieResult, want)
	wrong("one pod's share above the load line is allowed", func(r *requestsLie) { r.plimsoll.measured["quiet-02"] = 0.424 }, "<nil>")
	wrong("more above the load line is wrong", func(r *requestsLie) { r.plimsoll.measured["quiet-02"] = 0.426 },
		"plimsoll filled quiet-02 to 42.6 %, above the load line by more than one pod's share")
	wrong("a pod on a busy node is wrong", func(r *requestsLie) { r.plimsoll.pods["busy-03"] = 1 },
		"plimsoll put 1 pod on busy nodes, must be none")
	wrong("half of the stock profile's pods on quiet nodes is wrong",
		func(r *requestsLie) { r.stock.pods = map[string]int{"quiet-01": 20, "busy-01": 20} },
		"default-scheduler put 20 pods on busy nodes, must be more than half of them because their requests are small")
	wrong("a node as hot as under the stock profile is wrong",
		func(r *requestsLie) { r.plimsoll.measured = maps.Clone(r.stock.measured) },
		"the hottest node is at 100.0 % under plimsoll, must be below the 100.0 % under default-scheduler")
}

// burstResult is a correct result. The load-aware profile fills the nine loaded nodes, and puts the other 21 pods on the idle one.
// The stock profile levels requests.
func burstResult() burst {
	r := burst{
		plimsoll: placement{profile: "plimsoll-1m", pods: map[string]int{}, measured: map[string]float64{}},
		stock:    placement{profile: "default-scheduler", pods: map[string]int{}, measured: map[string]float64{}},
	}
	room := map[string]int{
		"idle": 21, "loaded-1": 15, "loaded-2": 13, "loaded-3": 12, "loaded-4": 10, "loaded-5": 9, "loaded-6": 7, "loaded-7": 6,
		"loaded-8": 4, "loaded-9": 3,
	}
	for _, n := range burstNodes() {
		load := float64(n.cpuMillis) / 8000
		r.plimsoll.pods[n.name], r.stock.pods[n.name] = room[n.name], 8
		if n.cpuMillis == 0 {
			r.stock.pods[n.name] = 28
		}
		r.plimsoll.measured[n.name] = load + burstShare*float64(r.plimsoll.pods[n.name])
		r.stock.measured[n.name] = load + burstShare*float64(r.stock.pods[n.name])
	}
	r.plimsoll.measured["loaded-7"] += 0.0001 // the full nodes are equally hot but for rounding; make one the hottest
	return r
}

func TestBurst(t *testing.T) {
	// A full node is at 40 − ¾·1.25 = 39.06 %, the idle one at 21·1.25 = 26.25 %.
	want := `100 pods at once for each profile; each requests and uses 100m of 8 cores. One node is idle, nine
request 2 cores and use 1.63 to 2.83. A bar is a node's CPU, measured from 30 to 60 s after all pods
were bound, | the load line at 40 %, +n its pods. A measurement may be off by one pod's share: a
node is beyond the line only above 41.25 %.
          plimsoll-1m                                  default-scheduler
idle      ████████····|·················  26.2 % +21   ███████████·|·················  35.0 % +28
loaded-1  ████████████|·················  39.1 % +15   █████████···|·················  30.3 %  +8
loaded-2  ████████████|·················  39.1 % +13   ██████████··|·················  32.8 %  +8
loaded-3  ████████████|·················  39.1 % +12   ██████████··|·················  34.1 %  +8
loaded-4  ████████████|·················  39.1 % +10   ███████████·|·················  36.6 %  +8
loaded-5  ████████████|·················  39.1 %  +9   ███████████·|·················  37.8 %  +8
loaded-6  ████████████|·················  39.1 %  +7   ████████████|·················  40.3 %  +8
loaded-7  ████████████|·················  39.1 %  +6   ████████████|·················  41.6 %  +8
loaded-8  ████████████|·················  39.1 %  +4   ████████████|·················  44.1 %  +8
loaded-9  ████████████|·················  39.1 %  +3   ████████████|█················  45.3 %  +8
hottest   loaded-7 at 39.1 %                           loaded-9 at 45.3 %
> 41.25 % 0 nodes                                      3 nodes
with room 1 node                                       6 nodes
`
	wrong := testResult(t, burstResult, want)
	// 39.06 + 1.25 = 40.31 % is below 40 + 1.25 = 41.25 %; 39.06 + 2 · 1.25 = 41.56 % is not.
	wrong("one pod too many on a node is allowed", func(r *burst) { r.plimsoll.measured["loaded-2"] += burstShare }, "<nil>")
	wrong("two pods too many on a node are wrong", func(r *burst) { r.plimsoll.measured["loaded-2"] += 2 * burstShare },
		"plimsoll-1m filled loaded-2 above 41.25 %, which is one pod's share above the load line, while there is room on idle")
	wrong("two pods too many are wrong even if there is room for just one elsewhere",
		func(r *burst) {
			r.plimsoll.measured["loaded-2"] += 2 * burstShare
			r.plimsoll.measured["idle"] = target - burstShare
		},
		"plimsoll-1m filled loaded-2 above 41.25 %, which is one pod's share above the load line, while there is room on idle")
	wrong("the placement of the stock profile is wrong", func(r *burst) { r.plimsoll.measured = maps.Clone(r.stock.measured) },
		"plimsoll-1m filled loaded-7, loaded-8, loaded-9 above 41.25 %, which is one pod's share above the load line, "+
			"while there is room on idle, loaded-1, loaded-2, loaded-3, loaded-4, loaded-5")
	wrong("a node above the line while no other has room is allowed",
		func(r *burst) { r.plimsoll.measured["idle"], r.plimsoll.measured["loaded-2"] = 0.39, 0.42 }, "<nil>")
	wrong("a pod on a node of the other profile is wrong", func(r *burst) { r.plimsoll.pods["idle"]-- },
		"plimsoll-1m placed 99 of 100 pods on its nodes")
	wrong("a node that is not measured is wrong", func(r *burst) { delete(r.plimsoll.measured, "loaded-2") },
		"9 of 10 nodes are measured")
}

func outageResult() outage {
	return outage{created: 150, bound: 150, recovered: true, phases: []outagePhase{
		{phaseBefore, 3 * time.Second, decisions{total: 15}},
		{phaseStopped, 14 * time.Second, decisions{total: 70, requests: 40, skipped: 21}},
		{phaseBack, 10 * time.Second, decisions{total: 50, requests: 6, skipped: 40}},
		{phaseAfter, 3 * time.Second, decisions{total: 15}},
	}}
}

func TestOutage(t *testing.T) {
	want := `A pod is created every 200ms. Prometheus is stopped until all load has expired (after 10 s).
The load of one of the six nodes moves quickly and so expires earlier.
What the decisions were based on, by the scheduler's own metrics:
                    seconds  decisions  fresh load    requests*     no load**
Prometheus runs         3.0         15          15            0             0
it is stopped          14.0         70           9           40            21
it is back             10.0         50           4            6            40
load decides again      3.0         15          15            0             0
in all                 30.0        150          43           46            61
*  at least one node was scored by the requests of its pods, because its load had expired
** TargetLoadPacking skipped the pod, and the other plugins of the profile decided
150 of 150 pods are bound.
`
	wrong := testResult(t, outageResult, want)
	wrong("a pod that is not bound is wrong", func(r *outage) { r.bound-- }, "149 of 150 pods are bound")
	wrong("no decision by fresh load after the outage is wrong", func(r *outage) { r.recovered, r.phases = false, r.phases[:3] },
		"no decision was based on fresh load within 2m0s of the return of Prometheus")
	wrong("load that does not expire is wrong", func(r *outage) { r.phases[1].decisions.skipped = 0 },
		"no decision was made without load, although all load had expired")
	wrong("decisions without load after the outage are wrong", func(r *outage) { r.phases[3].decisions.skipped = 5 },
		"load decides again: 10 of 15 decisions were based on fresh load, must be at least 1; 5 on no load, must be 0")
}

func latencyResult() latencies {
	steps := latencySteps()
	steps[0].landed = map[string]string{"a": "web-2", "b": "web-2", "c": "web-2"}
	steps[1].landed = map[string]string{"d": "web-1", "e": "web-1"}
	steps[2].landed = map[string]string{}
	for i := range 20 {
		steps[2].landed[fmt.Sprint("many-", i)] = []string{"web-1", "web-1", "web-2", "web-3"}[i%4]
	}
	return steps
}

func TestLatency(t *testing.T) {
	want := `Three nodes that differ only in their HTTP latency. After three replicas, two nodes swap latencies.
Then 20 come at once. Each counts 0.05 s until its node's latency shows it, so they spread.
+n is the number of replicas that a node got.
         first 3 replicas     then 2 replicas      then 20 replicas
web-1      2.00 s               0.05 s  +2           0.05 s  +10
web-2      0.05 s  +3           2.00 s               0.40 s  +5
web-3      0.40 s               0.40 s               0.40 s  +5
`
	wrong := testResult(t, latencyResult, want)
	wrong("a replica on the node that was best before is wrong", func(r *latencies) { (*r)[1].landed["e"] = "web-2" },
		"1 of 2 replicas are on web-1, must be all because it has the best latency")
	wrong("a replica on no node is wrong", func(r *latencies) { delete((*r)[0].landed, "b") },
		"2 of 3 replicas are on web-2, must be all because it has the best latency")
	wrong("all replicas at once on the best node are wrong", func(r *latencies) {
		for name := range (*r)[2].landed {
			(*r)[2].landed[name] = "web-1"
		}
	}, "20 of 20 replicas are on web-1, must be 6 to 16\n0 of 20 replicas are on web-2, must be 2 to 6\n0 of 20 replicas are on web-3, must be 2 to 6")
}

func peaksResult() peaks {
	r := peaks{
		byMean: placement{profile: "by-mean", pods: map[string]int{"node-1": 2, "node-2": 2}, measured: map[string]float64{}},
		byPeak: placement{
			profile: "by-peak", pods: map[string]int{"node-1": 1, "node-2": 1, "node-3": 1, "node-4": 1}, measured: map[string]float64{},
		},
	}
	for _, pl := range []placement{r.byMean, r.byPeak} {
		for _, n := range peakNodes() {
			volatile := float64(pl.pods[n.name])
			pl.measured[n.name] = n.load + peakHighShare*volatile + peakMeanShare*(2-volatile)
		}
	}
	return r
}

func TestPeaks(t *testing.T) {
	want := `Eight workloads, whose pods request 800m and use that on average. Four are steady; the pods of the
other four are volatile: they use 2 cores a quarter of the time, else 400m. by-mean scores by
TargetLoadPacking, by-peak by PredictedPeak, which knows this from pods that ran before. Each places
one pod of every workload on four nodes of 8 cores. Then the volatile pods grow to 2 cores: a bar is
a node's CPU after that, | the 80 % above which it is hot, +n its volatile pods.
          by-mean                                      by-peak
node-1    ████████████████████████|█····  85.0 %  +2   █████████████████████···|·····  70.0 %  +1
node-2    ████████████████████████|█····  85.0 %  +2   █████████████████████···|·····  70.0 %  +1
node-3    ██████████████████······|·····  59.0 %       ██████████████████████··|·····  74.0 %  +1
node-4    ██████████████████······|·····  59.0 %       ██████████████████████··|·····  74.0 %  +1
hottest   node-1 at 85.0 %                             node-3 at 74.0 %
> 80 %    2 nodes                                      0 nodes
together  volatile pods on 2 nodes                     volatile pods on 0 nodes
`
	wrong := testResult(t, peaksResult, want)
	wrong("a load that is off by the measuring error is allowed", func(r *peaks) { r.byPeak.measured["node-3"] += measuringError },
		"<nil>")
	wrong("volatile pods together are wrong where peaks are known",
		func(r *peaks) { r.byPeak.pods = map[string]int{"node-1": 2, "node-2": 1, "node-3": 1} },
		"by-peak put volatile pods together on node-1, must keep them apart")
	wrong("a pod that is missing is wrong", func(r *peaks) { delete(r.byPeak.pods, "node-4") },
		"by-peak placed 3 of 4 volatile pods on its nodes")
	wrong("volatile pods apart are wrong where means alone are known", func(r *peaks) { r.byMean.pods = r.byPeak.pods },
		"by-mean kept the volatile pods apart, must put some together because it sees means alone")
	wrong("a hot node is wrong where peaks are known", func(r *peaks) { r.byPeak.measured["node-2"] = 0.83 },
		"by-peak made node-2 hot, must be none")
	wrong("a hottest node that is no cooler is wrong", func(r *peaks) { r.byMean.measured = r.byPeak.measured },
		"the hottest node is at 74.0 % under by-peak, must be below the 74.0 % under by-mean")
}

func overloadResult() overload {
	return overload{
		measured: overloaded(), relaxed: "full-3", rejected: "full-1",
		why:          "0/3 nodes are available: 3 node(s) above their cpu load line. preemption: 0/3 nodes are available.",
		afterRefusal: 13 * time.Millisecond, afterFall: 2300 * time.Millisecond,
	}
}

func TestOverload(t *testing.T) {
	// The mark of a line at 80 % is the cell after the 24th of 30. 95 % is 28.5 cells, rounded up, 90 % 27 and 85 % 25.5.
	want := `All nodes are above their load line | at 80 %. With whenNoneFits: Relax a pod is placed on the least
loaded node; with whenNoneFits: Reject it waits until the load of a node has fallen.
full-1    95.0 %  ████████████████████████|████·
full-2    90.0 %  ████████████████████████|██···
full-3    85.0 %  ████████████████████████|█····  <- Relax
Relax:  placed on full-3 0.013 s after it was refused
Reject: refused: 0/3 nodes are available: 3 node(s) above their cpu load line
        placed on full-1 2.3 s after the load of full-1 fell from 95 to 20 %
`
	wrong := testResult(t, overloadResult, want)
	wrong("a relaxed pod on another node is wrong", func(r *overload) { r.relaxed = "full-1" },
		"the pod with Relax is on full-1, must be on full-3, the least loaded node")
	wrong("a rejected pod on a node that is still full is wrong", func(r *overload) { r.rejected = "full-3" },
		"the pod with Reject is on full-3, must be on full-1, whose load fell")
	wrong("a rejected pod that did not wait is wrong", func(r *overload) { r.afterFall = -time.Second },
		"the pod with Reject was placed before the load fell")
	wrong("a pod that waited for the scheduler's flush is wrong", func(r *overload) { r.afterRefusal = 5 * time.Minute },
		"the pod with Relax was placed 5m0s after it was refused, must be less than 5m0s, after which the scheduler retries anyway")
}

func TestFirstSentence(t *testing.T) {
	for _, tt := range []struct{ name, message, want string }{
		{"it ends at the full stop", "0/1 nodes are available: why. More.", "0/1 nodes are available: why"},
		{"it ends at 80 characters", strings.Repeat("x", 200), strings.Repeat("x", 80)},
		{"a message without a full stop is kept", "no stop", "no stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "firstSentence", tt.want, firstSentence(tt.message))
		})
	}
}

func lookAroundResult() lookAround {
	return lookAround{top: "NAME\nworker-1\n", whatIf: "2 of 2 pods placed\n", waiting: 2, placed: 2}
}

func TestLookAround(t *testing.T) {
	want := `Six pods of a shop run on six nodes. Two pods of a report wait for 20Gi of memory: each node has
16Gi left.

kubectl plimsoll top

NAME
worker-1

kubectl plimsoll what-if --add-nodes=2 --like=worker-1

2 of 2 pods placed
`
	wrong := testResult(t, lookAroundResult, want)
	wrong("a pod that more nodes do not help is wrong", func(r *lookAround) { r.placed = 1 },
		"what-if places 1 of 2 pods on 2 more nodes, must be 2 of 2")
	wrong("a pod that does not wait is wrong", func(r *lookAround) { r.waiting, r.placed = 1, 1 },
		"what-if places 1 of 1 pods on 2 more nodes, must be 2 of 2")
}

func movingResult() moving {
	return moving{
		before: map[string]float64{crowded: 0.6, quiet: 0.125}, hot: map[string]float64{crowded: 0.875},
		after: map[string]float64{crowded: 0.675, quiet: 0.325},
		moves: []rebalance.Record{{
			Moving: rebalance.Moving{Move: rebalance.Move{Pod: "cart-1", From: crowded, To: quiet}}, Node: quiet, Outcome: rebalance.Landed,
		}},
		nodes: map[string]string{"report-1": crowded, "orders-1": crowded, "cart-x": quiet},
	}
}

func TestMoving(t *testing.T) {
	want := `Two nodes with their load line | at 80 %. Pod report-1 grows, and its node becomes hot.
report-1 is a single replica, and a PodDisruptionBudget allows no eviction of orders-1: both stay.
before
  crowded   60.0 %  ██████████████████······|·····
  quiet     12.5 %  ████····················|·····
hot
  crowded   87.5 %  ████████████████████████|█····
after the move
  crowded   67.5 %  ████████████████████····|·····
  quiet     32.5 %  ██████████··············|·····
cart-1 moved from crowded to quiet, expected on quiet: Landed
Then nothing moved for 1m0s.
`
	wrong := testResult(t, movingResult, want)
	wrong("a second move is wrong", func(r *moving) { r.moves = append(r.moves, r.moves[0]) }, "2 pods moved, must be 1, and none at rest")
	wrong("another pod is wrong", func(r *moving) { r.moves[0].Pod = "orders-1" },
		"orders-1 moved to quiet (Landed), must be cart-1 to quiet (Landed)")
	wrong("a pod that comes back is wrong", func(r *moving) { r.moves[0].Node, r.moves[0].Outcome = crowded, rebalance.Returned },
		"cart-1 moved to crowded (Returned), must be cart-1 to quiet (Landed)")
	wrong("a pod that left is wrong", func(r *moving) { delete(r.nodes, "report-1") },
		`report-1 is on "", must be on crowded: it may not be evicted`)
}

func TestShow_FitsOnScreen(t *testing.T) {
	all := []finding{
		{"the worked example", exampleResult()}, {"requests lie", requestsLieResult()}, {"burst", burstResult()},
		{"outage", outageResult()}, {"latency", latencyResult()}, {"peaks", peaksResult()}, {"overload", overloadResult()},
		{"moving", movingResult()}, {"look around", lookAroundResult()},
	}
	for _, f := range all {
		lines := strings.Split(strings.TrimRight(written(f.result), "\n"), "\n")
		if len(lines) > 35 {
			t.Errorf("%s has %d lines, want at most 35", f.scenario, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%d columns, want at most 100: %s", n, line)
			}
		}
	}
	var b strings.Builder
	check.OK(t, show(page{out: &b}, all))
	if !strings.HasSuffix(b.String(), "\nAll 9 scenarios ended as they must.\n") {
		t.Errorf("the summary does not end with the verdict:\n%s", b.String())
	}
}

func TestShowWhy(t *testing.T) {
	var b strings.Builder
	showWhy(page{out: &b}, []finding{{"requests lie", requestsLieResult()}, {"the worked example", exampleResult()}})
	if want := "\nSEE WHY: kubectl plimsoll explain example\n\nNode:  worker-1\n"; b.String() != want {
		t.Errorf("written %q, want %q", b.String(), want)
	}
}

func TestShow_NamesWhatIsWrong(t *testing.T) {
	var b strings.Builder
	first, second := exampleResult(), requestsLieResult()
	first.landed = "worker-2"
	second.plimsoll.pods["busy-01"] = 2
	second.plimsoll.measured["quiet-01"] = 0.5
	err := show(page{out: &b}, []finding{{"the worked example", first}, {"requests lie", second}})
	if !errors.Is(err, errWrong) {
		t.Errorf("show() = %v, want %v", err, errWrong)
	}
	want := `
WRONG the worked example: the pod is on worker-2, must be on worker-1
WRONG requests lie: plimsoll put 2 pods on busy nodes, must be none; ` +
		`plimsoll filled quiet-01 to 50.0 %, above the load line by more than one pod's share
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("the summary does not end with\n%s\nbut is\n%s", want, b.String())
	}
}

func TestPaintFor_FileHasNoColor(t *testing.T) {
	file := check.Value(os.CreateTemp(t.TempDir(), ""))(t)
	defer func() { _ = file.Close() }()
	if paintFor(file).on {
		t.Error("paintFor() of a file is on")
	}
}

// written returns what a result writes, without colors.
func written(r result) string {
	var b strings.Builder
	r.write(page{out: &b})
	return b.String()
}

// testResult compares what a correct result writes, and returns a function that checks a result after a change. The error "<nil>"
// means that there is none.
func testResult[R result](t *testing.T, correct func() R, want string) func(name string, change func(*R), want string) {
	t.Helper()
	check.Equal(t, "written", want, written(correct()))
	wrong := func(name string, change func(*R), want string) {
		t.Run(name, func(t *testing.T) {
			r := correct()
			change(&r)
			check.Equal(t, "error", want, fmt.Sprint(r.check()))
		})
	}
	wrong("a correct result is allowed", func(*R) {}, "<nil>")
	return wrong
}
