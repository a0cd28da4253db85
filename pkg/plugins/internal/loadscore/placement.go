//go:build !kubernetes_1_34 && !kubernetes_1_35

package loadscore

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Placements implements fwk.PlacementScorePlugin for a plugin that embeds it and Extensions. The score of a placement is the mean,
// over the pods that it places, of the plugin's score of the pod's node with all these pods on it.
type Placements struct{ plugin minor.ScorePlugin }

// PlacementsOf returns the Placements of the plugin.
func PlacementsOf(plugin minor.ScorePlugin) Placements { return Placements{plugin} }

// ScorePlacement implements fwk.PlacementScorePlugin. The scheduler has taken the pods off the nodes again.
func (p Placements) ScorePlacement(
	ctx context.Context, state minor.PlacementCycleState, group fwk.PodGroupInfo, placement *fwk.PodGroupAssignments,
) (int64, *fwk.Status) {
	// All placements of the group share a cycle, so that one snapshot of the load decides. The pod to place uses nothing.
	cycle := groupCycle{CycleState: minor.GroupOf(state).(fwk.CycleState)} // the scheduler has one type for both
	if unscheduled := minor.UnscheduledPods(group); len(unscheduled) > 0 {
		cycle.first = unscheduled[0]
	}
	nobody := &corev1.Pod{}
	nobody.Namespace = group.GetNamespace()
	pods := map[string][]*corev1.Pod{}
	for _, a := range placement.ProposedAssignments {
		pods[a.GetNodeName()] = append(pods[a.GetNodeName()], a.GetPod())
	}
	var mean placementMean
	for _, node := range placement.Nodes {
		placed := pods[node.Node().Name]
		if len(placed) == 0 {
			continue
		}
		score, status := p.plugin.Score(ctx, cycle, nobody, with(placed, node, klog.FromContext(ctx)))
		if !status.IsSuccess() {
			return 0, status
		}
		mean.add(score, len(placed))
	}
	return mean.score(), nil
}

// with returns a copy of the node with the pods on it. Pods that are on the node already count once.
func with(pods []*corev1.Pod, node fwk.NodeInfo, logger klog.Logger) fwk.NodeInfo {
	node = node.Snapshot()
	for _, pod := range pods {
		_ = node.RemovePod(logger, pod)      // fails if it is not there
		info, _ := framework.NewPodInfo(pod) // fails if an affinity term is invalid, which load does not depend on
		node.AddPodInfo(info)
	}
	return node
}

func (p Placements) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return p }

func (p Placements) NormalizePlacementScore(
	ctx context.Context, _ fwk.PodGroupCycleState, _ fwk.PodGroupInfo, placements []fwk.PlacementScore,
) *fwk.Status {
	scores := make(minor.NodeScoreList, len(placements))
	for i := range placements {
		scores[i].Score = placements[i].Score
	}
	if e := p.plugin.ScoreExtensions(); e != nil {
		if status := e.NormalizeScore(ctx, nil, nil, scores); !status.IsSuccess() {
			return status
		}
	}
	for i := range placements {
		placements[i].Score = max(scores[i].Score, config.MinNodeScore)
	}
	return nil
}

// placementMean is the mean score of the nodes of a placement, weighted by the group's pods. Negative scores are of overfull nodes:
// beside others they count zero. Nodes of score Missing count only if all are.
type placementMean struct{ sum, pods, overfull, onOverfull int64 }

func (m *placementMean) add(score int64, pods int) {
	n := int64(pods)
	switch {
	case score == Missing:
	case score < config.MinNodeScore:
		m.overfull, m.onOverfull = m.overfull+n*score, m.onOverfull+n
	default:
		m.sum, m.pods = m.sum+n*score, m.pods+n
	}
}

func (m *placementMean) score() int64 {
	switch {
	case m.pods > 0:
		return int64(math.Round(float64(m.sum) / float64(m.pods+m.onOverfull)))
	case m.onOverfull > 0:
		return int64(math.Round(float64(m.overfull) / float64(m.onOverfull)))
	}
	return Missing
}
