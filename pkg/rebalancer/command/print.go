package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// reasons returns each plan.Reason in words.
func reasons() map[plan.Reason]string {
	return map[plan.Reason]string{
		plan.AnotherEmptied:   "another node is emptied first",
		plan.AnotherMoves:     "another pod of the node moves first",
		plan.ControlPlane:     "control plane",
		plan.Cordoned:         "cordoned",
		plan.DaemonSet:        "pod of a DaemonSet",
		plan.DisruptionBudget: "PodDisruptionBudget allows no disruption",
		plan.Ending:           "terminating, or evicted by another component",
		plan.EvictionRefused:  "eviction refused",
		plan.FewNodes:         "no more than freeMinNodes in its pool or zone",
		plan.LittleRelief:     "too little relief for the node",
		plan.LoadNotLow:       "the others would not stay below freeBelowPercent",
		plan.MoveLimit:        "more pods than moves are left this hour",
		plan.NamespaceLimit:   "too many moves under way in its namespace",
		plan.NamespaceRests:   "earlier moves of its namespace failed",
		plan.NoController:     "no controller to recreate it",
		plan.NoOtherNode:      "no other node passes all filters",
		plan.NoRoom:           "destination would be too close to its load line",
		plan.NotConfirmed:     "not confirmed",
		plan.NotRunning:       "NotReady",
		plan.NotSimulated:     "beyond the limit of simulated decisions",
		plan.OptedOut:         "opted out by annotation",
		plan.OtherScheduler:   "placed by another scheduler",
		plan.PodGroup:         "pod of a pod group",
		plan.Resizing:         "in-place resize under way",
		plan.SimulationFailed: "its simulation failed",
		plan.StaticPod:        "static pod",
		plan.TooYoung:         "younger than minPodAge or two load windows",
		plan.UnknownLoad:      "unknown load",
		plan.WorkloadBarred:   "earlier move of its workload failed",
		plan.WorkloadLimit:    "too many unavailable replicas of its workload",
		plan.WouldReturn:      "scheduler would choose the same node again",
		"Evacuations":         "moved by another component, such as KubeVirt",
		"Jobs":                "pod of a Job, or not restarted after it ends",
		"LocalStorage":        "local storage",
		"OtherControllers":    "controller that may not create it again",
		"PersistentVolumes":   "persistent volumes",
		"ResourceClaims":      "resource claims",
		"SingleReplicas":      "only replica of its workload",
		"SystemNamespace":     "in namespace kube-system",
		"SystemPriority":      "system-critical priority",
	}
}

// Print prints nodes before and after the plan, the moves, and why the other pods stay.
func (r *Report) Print(p *terminal.Printer) {
	p.Printf("Plan by %s of profile %s. Nothing is moved.\n", r.Plugin, r.Profile)
	if r.Wait != "" {
		p.Printf("Moves wait (%s): %s.\n", r.WaitReason, r.Wait)
	}
	switch {
	case r.Stopped != "":
		p.Printf("No moves: %s.\n", r.Stopped)
	case len(r.Nodes) == 0:
		p.Printf("No node is hot.\n")
	case len(r.Moves) == 0:
		p.Printf("No pod can move.\n")
	}
	if len(r.Nodes) > 0 {
		var rows [][]string
		for _, n := range r.Nodes {
			rows = append(rows, []string{n.Name, strings.ToUpper(n.Resource), percent(n.Before), percent(n.After), percent(n.Line)})
		}
		p.Printf("\n")
		terminal.TextTable([]string{"NODE", "RESOURCE", "BEFORE", "AFTER", "LINE"}, rows).Print(p, true)
	}
	if len(r.Moves) > 0 {
		var rows [][]string
		for _, m := range r.Moves {
			to := strings.Join(append([]string{m.To}, m.Or...), " or ")
			rows = append(rows, []string{m.Namespace, m.Pod, m.Owner, m.From, to, percent(m.Relief)})
		}
		p.Printf("\n")
		terminal.TextTable([]string{"NAMESPACE", "POD", "OWNER", "FROM", "TO", "RELIEF"}, rows).Print(p, true)
	}
	r.printCosts(p)
	if len(r.Stay) > 0 {
		p.Printf("\nOther pods of hot nodes stay:\n")
		for _, s := range r.Stay {
			p.Printf("  %s: %s (%s)\n", text.Count(s.Pods, "pod"), s.Message, s.Reason)
		}
	}
	if len(r.Resting) > 0 {
		p.Printf("\nThe load does not show the last move yet of hot nodes: %s\n", text.FirstN(r.Resting))
	}
	if len(r.Deferred) > 0 {
		p.Printf("\nLimits of moves leave out hot nodes: %s\n", text.FirstN(r.Deferred))
	}
	r.printFree(p)
	for _, c := range r.SessionCordons {
		p.Printf("\nAn earlier command cordoned node %s at %s to empty it. %s left. Unless it still runs, %s\n",
			c.Node, c.Since, text.Count(c.Pods, "pod"), c.Uncordon)
	}
	for _, note := range r.Notes {
		p.Printf("\n%s\n", note)
	}
}

func (r *Report) printFree(p *terminal.Printer) {
	f := r.Free
	switch {
	case f == nil:
		return
	case f.Emptying != "" && f.Ends != "":
		p.Printf("\nNode %s is being emptied. It is to be uncordoned: %s.\n", f.Emptying, f.Ends)
	case f.Emptying != "":
		p.Printf("\nNode %s is being emptied, with %s to place elsewhere.\n", f.Emptying, text.Count(len(f.Moves), "pod"))
	case f.Stopped != "":
		p.Printf("\nNo node can be emptied now: %s.\n", f.Stopped)
	case f.Node == "":
		p.Printf("\nNo node can be emptied.\n")
	default:
		p.Printf("\nNode %s could be emptied, with %s to place elsewhere.\n", f.Node, text.Count(len(f.Moves), "pod"))
	}
	if len(f.Moves) > 0 {
		var rows [][]string
		for _, m := range f.Moves {
			rows = append(rows, []string{m.Namespace, m.Pod, m.Owner, strings.Join(append([]string{m.To}, m.Or...), " or ")})
		}
		p.Printf("\n")
		terminal.TextTable([]string{"NAMESPACE", "POD", "OWNER", "TO"}, rows).Print(p, true)
	}
	if len(f.Empty) > 0 {
		p.Printf("\nEmptied, and cordoned until the cluster needs room: %s\n", text.FirstN(f.Empty))
	}
	if len(f.Empty) > 0 && f.Emptying == "" && f.Ends != "" {
		p.Printf("One is to be uncordoned: %s.\n", f.Ends)
	}
	if len(f.Kept) > 0 {
		p.Printf("\nOther nodes stay:\n")
		for _, k := range f.Kept {
			p.Printf("  %s: %s (%s), such as %s\n", text.Count(k.Nodes, "node"), k.Message, k.Reason, k.Example)
		}
	}
}

func (r *Report) printCosts(p *terminal.Printer) {
	if len(r.DeletionCosts) == 0 {
		return
	}
	var rows [][]string
	for _, c := range r.DeletionCosts {
		rows = append(rows, []string{c.Namespace, c.Pod, c.Node, cmp.Or(c.Cost, "none")})
	}
	p.Printf("\nDeletion costs to write:\n\n")
	terminal.TextTable([]string{"NAMESPACE", "POD", "NODE", "COST"}, rows).Print(p, true)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v) }
