package command

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func planOf() *plan.Plan {
	node := func(name string, cpu float64) plan.LoadedNode {
		return plan.LoadedNode{
			Name: name, Known: true, Measured: [load.ResourceCount]float64{load.CPU: cpu}, Line: [load.ResourceCount]float64{load.CPU: 0.8},
			Base: [load.ResourceCount]float64{load.CPU: 4000, load.Memory: 8e9},
		}
	}
	return &plan.Plan{
		Nodes: []plan.LoadedNode{node("a", 0.9), node("b", 0.5), node("c", 0.85), node("d", 0.5)}, Hot: []string{"a", "c"},
		Moves: []plan.Move{{
			Namespace: "ns", Pod: "web-1", Owner: plan.Owner{Kind: "ReplicaSet", Name: "web"}, From: "a", To: "b", Or: []string{"d"}, Resource: load.CPU, Line: 0.8,
			FromBefore: 0.9, FromAfter: 0.7, ToAfter: 0.7, Usage: 800, Disruption: 1,
		}},
		Stay: map[plan.Reason]int{plan.LittleRelief: 2, plan.NoController: 1}, Simulated: 1,
	}
}

func printed(r *Report) string {
	p := &terminal.Printer{}
	r.Print(p)
	return p.String()
}

func TestReport(t *testing.T) {
	r := &Report{Profile: "s", Plugin: "P"}
	r.add(&plan.Status{Plan: planOf()})
	want := []NodeChange{
		{Name: "a", Hot: true, Resource: "cpu", Line: 80, Before: 90, After: 70},
		{Name: "c", Hot: true, Resource: "cpu", Line: 80, Before: 85, After: 85},
		{Name: "b", Resource: "cpu", Line: 80, Before: 50, After: 70},
	}
	check.Equal(t, "nodes", want, r.Nodes)
	const text = `Plan by P of profile s. Nothing is moved.

NODE  RESOURCE  BEFORE  AFTER   LINE
a     CPU       90.0 %  70.0 %  80.0 %
c     CPU       85.0 %  85.0 %  80.0 %
b     CPU       50.0 %  70.0 %  80.0 %

NAMESPACE  POD    OWNER           FROM  TO      RELIEF
ns         web-1  ReplicaSet web  a     b or d  20.0 %

Other pods of hot nodes stay:
  2 pods: too little relief for the node (LittleRelief)
  1 pod: no controller to recreate it (NoController)
`
	check.Equal(t, "text", text, printed(r))
}

// TestReport_Destination moves a pod to b because of CPU of a, then one because of memory of c. b has 4 CPUs and 8 GB.
func TestReport_Destination(t *testing.T) {
	p := planOf()
	p.Nodes[2].Measured, p.Nodes[2].Line = [load.ResourceCount]float64{0.5, 0.95}, [load.ResourceCount]float64{0.8, 0.9}
	p.Nodes[1].Measured, p.Nodes[1].Line = [load.ResourceCount]float64{0.5, 0.3}, [load.ResourceCount]float64{0.8, 0.9}
	// Pods of earlier moves use 200 milliCPU that b's load does not show yet: 50 % + 5 % + 20 % = 75 %.
	p.Moves[0].ToAfter = 0.75
	// The second pod uses 1.6 GB: 30 % + 20 % = 50 %.
	p.Moves = append(p.Moves, plan.Move{
		Namespace: "ns", Pod: "db-1", From: "c", To: "b", Resource: load.Memory, Line: 0.9, FromBefore: 0.95, FromAfter: 0.75,
		ToAfter: 0.5, Usage: 1.6e9, Disruption: 1,
	})
	r := &Report{}
	r.add(&plan.Status{Plan: p})
	want := []NodeChange{
		{Name: "a", Hot: true, Resource: "cpu", Line: 80, Before: 90, After: 70},
		{Name: "c", Hot: true, Resource: "memory", Line: 90, Before: 95, After: 75},
		{Name: "b", Resource: "cpu", Line: 80, Before: 55, After: 75},
		{Name: "b", Resource: "memory", Line: 90, Before: 30, After: 50},
	}
	check.Equal(t, "nodes", want, r.Nodes)
}

func TestReport_NoMoves(t *testing.T) {
	const head = "Plan by P of profile s. Nothing is moved.\n"
	paused := &Report{WaitReason: plan.Paused, Wait: "an annotation pauses moves"}
	for _, tc := range []struct {
		r    *Report
		p    *plan.Plan
		want string
	}{
		{&Report{}, &plan.Plan{}, "No node is hot.\n"},
		{&Report{}, &plan.Plan{Stopped: "3 of 4 nodes are hot"}, "No moves: 3 of 4 nodes are hot.\n"},
		{paused, &plan.Plan{}, "Moves wait (Paused): an annotation pauses moves.\nNo node is hot.\n"},
		{&Report{}, &plan.Plan{Nodes: planOf().Nodes, Hot: []string{"a"}, Resting: []string{"a"}}, `No pod can move.

NODE  RESOURCE  BEFORE  AFTER   LINE
a     CPU       90.0 %  90.0 %  80.0 %

Hot nodes whose load does not show their last move yet: a
`},
	} {
		r, want := tc.r, head+tc.want
		r.Profile, r.Plugin = "s", "P"
		r.add(&plan.Status{Plan: tc.p})
		check.Equal(t, "text", want, printed(r))
	}
}

func TestReasons_AllProtections(t *testing.T) {
	for _, p := range api.Protections() {
		if reasons()[plan.Reason(p)] == "" {
			t.Errorf("no text for %s", p)
		}
	}
}
