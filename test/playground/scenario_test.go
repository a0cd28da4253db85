package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func exampleResult() workedExample {
	return workedExample{
		measured: map[string]float64{"worker-1": 0.25, "worker-2": 0.5, "worker-3": 0.1}, landed: "worker-1", explained: "worker-1",
		why: "Node:  worker-1\n",
	}
}

func TestWorkedExample(t *testing.T) {
	want := `Three 8-core workers, the target ◎ at 40 %, and a pod that uses next to nothing: it must go to
the node with the highest score. A measurement may be off by 1.25 %, the share of one pod of 100m.
  node        measured   score
  worker-1      25.0 %    77.5  ████████····◎·················  <- the pod
  worker-2      50.0 %    33.3  ████████████◎██···············
  worker-3      10.0 %    55.0  ███·········◎·················
`
	wrong := testResult(t, exampleResult, want)
	wrong("a pod on another node is wrong", func(r *workedExample) { r.landed = "worker-3" }, "the pod is on worker-3, must be on worker-1")
	wrong("an explanation of another node is wrong", func(r *workedExample) { r.explained = "worker-3" },
		"kubectl plimsoll explain would choose worker-3, the scheduler chose worker-1")
	wrong("a load that is off by one pod's share is allowed", func(r *workedExample) { r.measured["worker-1"] += 0.0125 }, "<nil>")
	// (100 − 40)·27/40 + 40 = 80.5. One pod's share is (100 − 40)·1.25/40 = 1.9 points of the score.
	wrong("a load that is off by more is wrong", func(r *workedExample) { r.measured["worker-1"] = 0.27 }, "worker-1 scores 80.5, must be 77.5 ± 1.9")
}

// contestResultOf returns a result in which the nodes got these pods in each profile.
func contestResultOf(plimsoll, stock func(contestNode) int) contestResult {
	r := contestResult{
		plimsoll: placement{profile: "plimsoll", pods: map[string]int{}, measured: map[string]float64{}},
		stock:    placement{profile: "default-scheduler", pods: map[string]int{}, measured: map[string]float64{}},
	}
	for _, n := range contestNodes() {
		r.plimsoll.pods[n.name], r.stock.pods[n.name] = plimsoll(n), stock(n)
		r.plimsoll.measured[n.name] = n.load + contestShare*float64(plimsoll(n))
		r.stock.measured[n.name] = n.load + contestShare*float64(stock(n))
	}
	return r
}

// requestsLieResult is a correct result. The load-aware profile places eight pods on each of the five most loaded quiet nodes. The
// stock profile places four on each busy node.
func requestsLieResult() contestResult {
	return contestResultOf(func(n contestNode) int {
		if n.load > 0.085 && n.load < 0.5 {
			return 8
		}
		return 0
	}, func(n contestNode) int {
		if n.load > 0.5 {
			return 4
		}
		return 0
	})
}

func TestRequestsLie(t *testing.T) {
	want := `40 pods at once for each profile; each requests 100m and uses 200m of 8 cores.
Requests are small on busy-* nodes, and large on quiet-* nodes.
A bar is a node's CPU 10 to 40 s after all pods were bound, ◎ the target at 40 %, +n its pods.
A measurement may be off by two pods' shares: a node is above the target only above 45 %.
          plimsoll                                     default-scheduler
quiet-01  █···········◎·················   4.0 %       █···········◎·················   4.0 %
quiet-02  ██··········◎·················   5.0 %       ██··········◎·················   5.0 %
quiet-03  ██··········◎·················   6.0 %       ██··········◎·················   6.0 %
quiet-04  ██··········◎·················   7.0 %       ██··········◎·················   7.0 %
quiet-05  ██··········◎·················   8.0 %       ██··········◎·················   8.0 %
quiet-06  █████████···◎·················  29.0 %  +8   ███·········◎·················   9.0 %
quiet-07  █████████···◎·················  30.0 %  +8   ███·········◎·················  10.0 %
quiet-08  █████████···◎·················  31.0 %  +8   ███·········◎·················  11.0 %
quiet-09  ██████████··◎·················  32.0 %  +8   ████········◎·················  12.0 %
quiet-10  ██████████··◎·················  33.0 %  +8   ████········◎·················  13.0 %
busy-01   ████████████◎███████████······  81.0 %       ████████████◎██████████████···  91.0 %  +4
busy-02   ████████████◎████████████·····  82.0 %       ████████████◎███████████████··  92.0 %  +4
busy-03   ████████████◎████████████·····  83.0 %       ████████████◎███████████████··  93.0 %  +4
busy-04   ████████████◎████████████·····  84.0 %       ████████████◎███████████████··  94.0 %  +4
busy-05   ████████████◎█████████████····  85.0 %       ████████████◎████████████████·  95.0 %  +4
busy-06   ████████████◎█████████████····  86.0 %       ████████████◎████████████████·  96.0 %  +4
busy-07   ████████████◎█████████████····  87.0 %       ████████████◎████████████████·  97.0 %  +4
busy-08   ████████████◎█████████████····  88.0 %       ████████████◎████████████████·  98.0 %  +4
busy-09   ████████████◎██████████████···  89.0 %       ████████████◎█████████████████  99.0 %  +4
busy-10   ████████████◎██████████████···  90.0 %       ████████████◎█████████████████ 100.0 %  +4
hottest   busy-10 at 90.0 %                            busy-10 at 100.0 %
on busy   0 of 40 pods                                 40 of 40 pods
`
	wrong := testResult(t, requestsLieResult, want)
	wrong("two pods' shares above the target are allowed", func(r *contestResult) { r.plimsoll.measured["quiet-07"] = 0.449 }, "<nil>")
	wrong("more above the target is wrong", func(r *contestResult) { r.plimsoll.measured["quiet-07"] = 0.451 },
		"plimsoll filled quiet-07 above 45 %, which is two pods' shares above the target, while there is room on "+
			"quiet-01, quiet-02, quiet-03, quiet-04, quiet-05, quiet-06, quiet-08, quiet-09, quiet-10")
	wrong("a pod on a busy node is wrong", func(r *contestResult) { r.plimsoll.pods["busy-03"], r.plimsoll.pods["quiet-06"] = 1, 7 },
		"plimsoll filled busy-03 above 45 %, which is two pods' shares above the target, while there is room on "+
			"quiet-01, quiet-02, quiet-03, quiet-04, quiet-05, quiet-06, quiet-07, quiet-08, quiet-09, quiet-10")
	wrong("half of the stock profile's pods on quiet nodes is wrong",
		func(r *contestResult) { r.stock.pods = map[string]int{"quiet-01": 20, "busy-01": 20} },
		"default-scheduler put 20 pods on busy nodes, must be more than half of them because their requests are small")
	wrong("a node as hot as under the stock profile is wrong",
		func(r *contestResult) { r.plimsoll.measured = maps.Clone(r.stock.measured) },
		"the hottest node is at 100.0 % under plimsoll, must be below the 100.0 % under default-scheduler")
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
	wrong("a pod that more nodes do not help is wrong", func(r *lookAround) { r.placed = 1 }, "what-if places 1 of 2 pods on 2 more nodes, must be 2 of 2")
	wrong("a pod that does not wait is wrong", func(r *lookAround) { r.waiting, r.placed = 1, 1 }, "what-if places 1 of 1 pods on 2 more nodes, must be 2 of 2")
}

func movingResult() moving {
	return moving{
		before: map[string]float64{crowded: 0.6, quiet: 0.125}, hot: map[string]float64{crowded: 0.875},
		after: map[string]float64{crowded: 0.675, quiet: 0.325},
		moves: []plan.Record{{
			Moving: plan.Moving{Move: plan.Move{Pod: "cart-1", From: crowded, To: quiet}}, Node: quiet, Outcome: plan.Landed,
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
	wrong("another pod is wrong", func(r *moving) { r.moves[0].Pod = "orders-1" }, "orders-1 moved to quiet (Landed), must be cart-1 to quiet (Landed)")
	wrong("a pod that comes back is wrong", func(r *moving) { r.moves[0].Node, r.moves[0].Outcome = crowded, plan.Returned },
		"cart-1 moved to crowded (Returned), must be cart-1 to quiet (Landed)")
	wrong("a pod that left is wrong", func(r *moving) { delete(r.nodes, "report-1") }, `report-1 is on "", must be on crowded: it may not be evicted`)
}

func TestChosen(t *testing.T) {
	for value, want := range map[string]string{
		"":       "the worked example, requests lie, look around",
		"all":    "the worked example, requests lie, moving, look around",
		"moving": `SCENARIOS is "moving", but must be all, or unset`,
	} {
		scenarios, err := chosen(value)
		var names []string
		for _, s := range scenarios {
			names = append(names, s.name)
		}
		if err != nil {
			names = append(names, err.Error())
		}
		check.Equal(t, value, want, strings.Join(names, ", "))
	}
}

func TestShow(t *testing.T) {
	var b strings.Builder
	p := page{out: &b}
	check.Equal(t, "wrong", nil, show(p, "the worked example", exampleResult()))
	check.OK(t, verdict(p, 1, nil))
	check.Equal(t, "written", "\nTHE WORKED EXAMPLE\n"+written(exampleResult())+
		"\nSEE WHY: kubectl plimsoll explain example\n\nNode:  worker-1\n\nAll 1 scenarios ended as they must.\n", b.String())
}

func TestShow_NamesWhatIsWrong(t *testing.T) {
	var b strings.Builder
	p := page{out: &b}
	first, second := exampleResult(), requestsLieResult()
	first.landed = "worker-2"
	second.stock.pods = map[string]int{"busy-01": 20}
	second.plimsoll.pods["quiet-10"] = 7
	wrong := append(show(p, "the worked example", first), show(p, "requests lie", second)...)
	if err := verdict(p, 2, wrong); !errors.Is(err, errWrong) {
		t.Errorf("verdict() = %v, want %v", err, errWrong)
	}
	want := `
WRONG the worked example: the pod is on worker-2, must be on worker-1
WRONG requests lie: plimsoll placed 39 of 40 pods on its nodes; ` +
		`default-scheduler put 20 pods on busy nodes, must be more than half of them because their requests are small
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("the output does not end with\n%s\nbut is\n%s", want, b.String())
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
	lines := strings.Split(strings.TrimSpace(want), "\n")
	if len(lines) > 35 || slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > 100 }) {
		t.Errorf("%d lines, want at most 35, each of at most 100 columns", len(lines))
	}
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
