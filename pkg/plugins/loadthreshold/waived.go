package loadthreshold

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// PreScore skips scoring unless the thresholds are waived for the pod.
func (pl *LoadThreshold) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if pl.gate.Waived(state) {
		return nil
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score scores nodes by their utilization with the pod, if the thresholds are waived for it.
func (pl *LoadThreshold) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if !pl.gate.Waived(state) {
		return config.MinNodeScore, nil
	}
	s := pl.filterState(state, pod)
	terms := pl.terms(s, node)
	for r := range load.ResourceCount {
		if state := terms.Node[r].State; terms.LinePercent[r] > 0 && state != load.Fresh {
			pl.counters.Fallback(&s.fallbacks, state)
		}
	}
	return int64(math.Round(terms.Score())), nil
}

// ScoreExtensions returns the plugin itself.
func (pl *LoadThreshold) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore scores the least loaded candidate 100 and the most loaded 0, because all of them are above their lines.
func (pl *LoadThreshold) NormalizeScore(
	_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	if !pl.gate.Waived(state) || len(scores) == 0 {
		return nil
	}
	least, most := scores[0].Score, scores[0].Score
	for _, n := range scores {
		least, most = min(least, n.Score), max(most, n.Score)
	}
	span := max(most-least, 1)
	for i := range scores {
		scores[i].Score = config.MaxNodeScore * (most - scores[i].Score) / span
	}
	return nil
}
