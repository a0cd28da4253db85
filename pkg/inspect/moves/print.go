package moves

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
)

// reasons returns each rebalance.Reason in words.
func reasons() map[rebalance.Reason]string {
	return map[rebalance.Reason]string{
		rebalance.AnotherMoves:     "another pod of the node moves first",
		rebalance.DaemonSet:        "pod of a DaemonSet",
		rebalance.DisruptionBudget: "PodDisruptionBudget allows no disruption",
		rebalance.Ending:           "terminating, or evicted by another component",
		rebalance.EvictionRefused:  "eviction refused",
		rebalance.LittleRelief:     "too little relief for the node",
		rebalance.NamespaceLimit:   "too many moves under way in its namespace",
		rebalance.NoController:     "no controller to recreate it",
		rebalance.NoOtherNode:      "no other node passes all filters",
		rebalance.NoRoom:           "destination would be too close to its load line",
		rebalance.NotRunning:       "NotReady",
		rebalance.NotSimulated:     "not among the pods simulated for the node",
		rebalance.OptedOut:         "opted out by annotation",
		rebalance.OtherScheduler:   "placed by another scheduler",
		rebalance.PodGroup:         "pod of a pod group",
		rebalance.Resizing:         "in-place resize under way",
		rebalance.StaticPod:        "static pod",
		rebalance.TooYoung:         "younger than minPodAge or two load windows",
		rebalance.WorkloadBarred:   "earlier move of its workload failed",
		rebalance.WorkloadLimit:    "too many unavailable replicas of its workload",
		rebalance.WouldReturn:      "scheduler would choose the same node again",
		"Evacuations":              "moved by another component, such as KubeVirt",
		"Jobs":                     "pod of a Job",
		"LocalStorage":             "local storage",
		"PersistentVolumes":        "persistent volumes",
		"ResourceClaims":           "resource claims",
		"SingleReplicas":           "only replica of its workload",
		"SystemNamespace":          "in namespace kube-system",
		"SystemPriority":           "system-critical priority",
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
	for _, note := range r.Notes {
		p.Printf("\n%s\n", note)
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
