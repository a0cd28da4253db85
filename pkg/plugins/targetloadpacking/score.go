package targetloadpacking

import (
	"math"
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
)

// Terms are the terms of one node's score.
type Terms struct {
	// CPU is the measured and pending usage of the node.
	CPU estimate.ResourceEstimate
	// PodCPUMillis is what the pod to place will use, in milliCPU.
	PodCPUMillis float64
	// TargetPercent is the target utilization, in percent of capacity, in [1, 99].
	TargetPercent float64
}

// UtilizationPercent is the node's CPU utilization with the pod on it: measured, pending and the pod's, in percent of capacity.
func (t Terms) UtilizationPercent() float64 { return 100 * t.CPU.Utilization(t.PodCPUMillis) }

// Score is the score of the utilization, in [0, 100]. Above 100 percent it is minus the utilization, which NormalizeScore makes a
// score of.
func (t Terms) Score() float64 {
	if utilization := t.UtilizationPercent(); utilization > 100 {
		return -min(utilization, highest)
	}
	return loadscore.Packing(t.UtilizationPercent(), t.TargetPercent)
}

// highest caps the utilizations that are compared, in percent.
const highest = 10000

// isOverfull reports whether a score before NormalizeScore is that of a node above 100 percent.
func isOverfull(score int64) bool { return score <= -100 }

// normalizeOverfull replaces the scores of nodes above 100 percent. If another node has a score, they get the lowest. Otherwise
// they get 100 over the utilization.
func normalizeOverfull(scores minor.NodeScoreList) {
	all := !slices.ContainsFunc(scores, func(n minor.NodeScore) bool { return n.Score >= config.MinNodeScore })
	for i := range scores {
		switch score := scores[i].Score; {
		case !isOverfull(score):
		case all:
			scores[i].Score = int64(math.Round(-100 * float64(config.MaxNodeScore) / float64(score)))
		default:
			scores[i].Score = config.MinNodeScore
		}
	}
}

// List implements explain.Terms.
func (t Terms) List() []explain.Term {
	return append(explain.Resource(load.CPU, &t.CPU, t.PodCPUMillis, t.CPU.Base),
		explain.Term{Name: "cpu utilization", Value: t.UtilizationPercent(), Unit: "%"},
		explain.Term{Name: "target utilization", Value: t.TargetPercent, Unit: "%"})
}
