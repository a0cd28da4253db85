package command

import (
	"fmt"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// reasons returns each plan.Reason in words.
func reasons() map[plan.Reason]string {
	return map[plan.Reason]string{
		plan.AsksExtender:     "scheduler asks an extender, which cannot be simulated",
		plan.AnotherMoves:     "another pod of the node moves first",
		plan.DaemonSet:        "pod of a DaemonSet",
		plan.DisruptionBudget: "PodDisruptionBudget allows no disruption",
		plan.Ending:           "terminating",
		plan.EvictionRefused:  "eviction refused",
		plan.LittleRelief:     "too little relief for the node",
		plan.NamespaceLimit:   "too many moves of its namespace, under way or in this hour",
		plan.NamespaceRests:   "earlier moves of its namespace failed",
		plan.NoController:     "no controller to recreate it",
		plan.NoOtherNode:      "no other node passes all filters",
		plan.NoRoom:           "destination would be too close to its load line",
		plan.NotRunning:       "NotReady",
		plan.NotSimulated:     "beyond the limit of simulated decisions",
		plan.OptedOut:         "opted out by annotation",
		plan.OtherNamespace:   "its namespace is not selected",
		plan.OtherScheduler:   "placed by another scheduler",
		plan.PodGroup:         "pod of a pod group",
		plan.Resizing:         "in-place resize under way",
		plan.SimulationFailed: "its simulation failed",
		plan.StaticPod:        "static pod",
		plan.TooYoung:         "younger than minPodAge or two load windows",
		plan.WorkloadBarred:   "earlier move of its workload failed",
		plan.WorkloadLimit:    "too many unavailable replicas of its workload",
		plan.WouldReturn:      "scheduler would choose the same node again",
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
	if len(r.Stay) > 0 {
		p.Printf("\nOther pods of hot nodes stay:\n")
		for _, s := range r.Stay {
			p.Printf("  %s: %s (%s)\n", text.Count(s.Pods, "pod"), s.Message, s.Reason)
		}
	}
	if len(r.Resting) > 0 {
		p.Printf("\nHot nodes whose load does not show their last move yet: %s\n", text.FirstN(r.Resting))
	}
	if len(r.Deferred) > 0 {
		p.Printf("\nHot nodes that wait because of the limits of moves: %s\n", text.FirstN(r.Deferred))
	}
	for _, note := range r.Notes {
		p.Printf("\n%s\n", note)
	}
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v) }
