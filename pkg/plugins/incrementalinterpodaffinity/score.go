package incrementalinterpodaffinity

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

const scoreKey = "PreScore" + Name

// scoreState is what PreScore finds out for Score: the weights of pods.
type scoreState struct{ weights counts }

func (s *scoreState) Clone() fwk.StateData { return s }

func (pl *IncrementalInterPodAffinity) PreScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) *fwk.Status {
	if pl.isAlone(pod, minor.NodeInfoLister.HavePodsWithAffinityList) {
		return fwk.NewStatus(fwk.Skip)
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return pl.InterPodAffinity.PreScore(ctx, state, pod, nodes) // which returns the error
	}
	affinity, antiAffinity := info.PreferredAffinityTerms, info.PreferredAntiAffinityTerms
	terms := make([]*fwk.AffinityTerm, 0, len(affinity)+len(antiAffinity))
	for t := range pointers(affinity, antiAffinity) {
		terms = append(terms, &t.AffinityTerm)
	}
	if pl.args.IgnorePreferredTermsOfExistingPods && len(terms) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	all, err := pl.lister.NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing all nodes: %w", err))
	}
	if err := pl.resolve(terms); err != nil {
		return fwk.AsStatus(err)
	}
	if !pl.counts(state, pod, terms, all) {
		state.Delete(scoreKey) // of an earlier call
		return pl.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	weights := counts{}
	pl.weighMatching(weights, affinity, 1)
	pl.weighMatching(weights, antiAffinity, -1)
	pl.weighExisting(weights, pod)
	if len(weights) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoreKey, &scoreState{weights: weights})
	return nil
}

// weighMatching adds the weights of the pod's own terms, once for each pod that a term matches.
func (pl *IncrementalInterPodAffinity) weighMatching(weights counts, terms []fwk.WeightedAffinityTerm, sign int64) {
	for t := range pointers(terms) {
		for class := range pl.index.MatchedBy(&t.AffinityTerm) {
			weights.addClass(class, t.TopologyKey, sign*int64(t.Weight))
		}
	}
}

// weighExisting adds the weights of terms of other pods that the pod matches.
func (pl *IncrementalInterPodAffinity) weighExisting(weights counts, pod *corev1.Pod) {
	namespace := pl.labelsOf(pod.Namespace)
	for class := range pl.index.WithTerms(pod) {
		weigh := func(t *fwk.AffinityTerm, weight int32) {
			if t.Matches(pod, namespace) {
				weights.addClass(class, t.TopologyKey, int64(weight))
			}
		}
		if pl.args.HardPodAffinityWeight > 0 {
			for t := range pointers(class.Terms.RequiredAffinity) {
				weigh(t, pl.args.HardPodAffinityWeight)
			}
		}
		for t := range pointers(class.Terms.PreferredAffinity) {
			weigh(&t.AffinityTerm, t.Weight)
		}
		for t := range pointers(class.Terms.PreferredAntiAffinity) {
			weigh(&t.AffinityTerm, -t.Weight)
		}
	}
}

// Score implements minor.ScorePlugin. The score is the sum of the weights for the node's labels, until it is normalized.
func (pl *IncrementalInterPodAffinity) Score(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (score int64, status *fwk.Status) {
	s := podindex.StateOf[*scoreState](state, scoreKey)
	if s == nil {
		return pl.InterPodAffinity.Score(ctx, state, pod, node)
	}
	own := node.Node().Labels
	for key, values := range s.weights {
		if value, ok := own[key]; ok {
			score += values[value]
		}
	}
	return score, nil
}

func (pl *IncrementalInterPodAffinity) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore implements minor.ScoreExtensions: the lowest score becomes 0, and the highest the maximum.
func (pl *IncrementalInterPodAffinity) NormalizeScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	if podindex.StateOf[*scoreState](state, scoreKey) == nil {
		return pl.InterPodAffinity.NormalizeScore(ctx, state, pod, scores)
	}
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range scores {
		lowest, highest = min(lowest, scores[i].Score), max(highest, scores[i].Score)
	}
	for i := range scores {
		share := 0.0
		if highest > lowest {
			share = float64(scores[i].Score-lowest) / float64(highest-lowest)
		}
		scores[i].Score = int64(float64(config.MaxNodeScore) * share)
	}
	return nil
}
