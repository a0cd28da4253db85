package moves

import (
	"fmt"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
)

// reasons says what each rebalance.Reason means.
func reasons() map[rebalance.Reason]string {
	return map[rebalance.Reason]string{
		rebalance.AnotherMoves:     "another pod of the node moves first",
		rebalance.DaemonSet:        "belongs to a DaemonSet",
		rebalance.DisruptionBudget: "a PodDisruptionBudget allows no disruption",
		rebalance.Ending:           "is ending",
		rebalance.EvictionRefused:  "its eviction was refused",
		rebalance.LittleRelief:     "takes too little off the node",
		rebalance.NamespaceLimit:   "enough pods of its namespace are moving",
		rebalance.NoController:     "has no controller: nobody would recreate it",
		rebalance.NoOtherNode:      "the scheduler finds no node for it",
		rebalance.NoRoom:           "its destination would be too close to the line",
		rebalance.NotRunning:       "is not ready",
		rebalance.NotSimulated:     "larger pods of the node were simulated",
		rebalance.OptedOut:         "an annotation keeps it",
		rebalance.OtherScheduler:   "is of another scheduler",
		rebalance.PodGroup:         "belongs to a pod group",
		rebalance.Resizing:         "is being resized",
		rebalance.StaticPod:        "is a static pod",
		rebalance.TooYoung:         "is too young",
		rebalance.WorkloadBarred:   "a move of its workload failed",
		rebalance.WorkloadLimit:    "too many replicas of its workload are unavailable",
		rebalance.WouldReturn:      "the scheduler would place it there again",
		"Jobs":                     "belongs to a Job",
		"LocalStorage":             "has local storage",
		"PersistentVolumes":        "has persistent volumes",
		"ResourceClaims":           "has resource claims",
		"SingleReplicas":           "is the only replica of its workload",
		"SystemNamespace":          "is in kube-system",
		"SystemPriority":           "has system-critical priority",
	}
}

// Print prints nodes before and after the plan, the moves, and why the other pods stay.
func (r *Report) Print(p *terminal.Printer) {
	p.Printf("Plan by %s of profile %s. Nothing is moved.\n", r.Plugin, r.Profile)
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
	if len(r.Stay) > 0 {
		p.Printf("\nOther pods of hot nodes stay:\n")
		for _, s := range r.Stay {
			p.Printf("  %s: %s (%s)\n", text.Count(s.Pods, "pod"), s.Message, s.Reason)
		}
	}
	if len(r.Deferred) > 0 {
		p.Printf("\nLimits of moves leave out hot nodes: %s\n", text.FirstN(r.Deferred))
	}
	for _, note := range r.Notes {
		p.Printf("\n%s\n", note)
	}
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v) }
