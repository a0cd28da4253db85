// Package loadscore is what plugins that score nodes by their load have in common: one view of the load per scheduling cycle,
// skipping a cycle in which no load is known, and a score for nodes whose load is missing.
package loadscore

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/cyclestate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Missing is the score of a node that gets the mean score of the others when scores are normalized.
const Missing int64 = -1

// Extensions implements PreScore and ScoreExtensions for a plugin that embeds it, and keeps the plugin's state of the
// scheduling cycle. PreScore need not be enabled. It is safe for concurrent use.
type Extensions struct {
	plugin      string
	reader      *reading.Reader
	model       *estimate.Model
	resources   []load.Resource
	missingLoad config.MissingLoad
	counters    counters.Counters
	states      *cyclestate.Memo[PreScoreState]
	podState    func(state fwk.CycleState, pod *corev1.Pod) (any, Scoring)
}

// New returns the extensions of the named plugin, which scores by the resources' load.
// All resources have the same window.
func New(
	plugin string,
	reader *reading.Reader,
	resources []load.Resource,
	missingLoad config.MissingLoad,
	c counters.Counters,
) *Extensions {
	return &Extensions{
		plugin: plugin, reader: reader, model: reader.Model(load.CPU), resources: resources, missingLoad: missingLoad,
		counters: c, states: cyclestate.New[PreScoreState](plugin),
	}
}

// Reader implements explain.LoadReader.
func (x *Extensions) Reader() *reading.Reader { return x.reader }

// LoadLine implements explain.LoadReader for a plugin without a line.
func (x *Extensions) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	l := explain.LoadLine{Node: x.model.View(state).Estimate(node)}
	for r := range l.Node {
		l.Utilization[r] = l.Node[r].Utilization(0)
	}
	return l
}

// Scoring says when a pod's nodes are scored.
type Scoring int

const (
	// ByLoad scores nodes if the load of some node is known.
	ByLoad Scoring = iota
	// Always scores nodes without any load too.
	Always
	// Never skips the plugin for the pod.
	Never
)

// SetPodState makes PreScoreState.Pod hold the value that podState returns for the cycle and the pod to place.
func (x *Extensions) SetPodState(podState func(state fwk.CycleState, pod *corev1.Pod) (any, Scoring)) {
	x.podState = podState
}

// PreScoreState is what a plugin scores all nodes of one scheduling cycle by.
type PreScoreState struct {
	View *estimate.View
	// PodUsage is what the pod to place will use.
	PodUsage podusage.Amounts
	// Pod is what else the plugin knows of it; nil without SetPodState.
	Pod any
	// Skip is set where no node's load is known, or the plugin is skipped for the pod: all nodes score alike.
	Skip bool

	fallbacks counters.Fallbacks
}

// PreScoreState returns the state of the cycle. The first call in a cycle makes it, and counts the decision.
func (x *Extensions) PreScoreState(state fwk.CycleState, pod *corev1.Pod) *PreScoreState {
	if s := x.states.Lookup(state); s != nil {
		return s
	}
	view := x.model.View(state)
	s := &PreScoreState{View: view, PodUsage: view.Estimator().Estimate(pod)}
	scoring := ByLoad
	if x.podState != nil {
		s.Pod, scoring = x.podState(state, pod)
	}
	unknown := scoring != Always && !slices.ContainsFunc(x.resources, view.Knows)
	s.Skip = unknown || scoring == Never
	s, first := x.states.Store(state, s)
	if first {
		x.counters.Decision(unknown)
	}
	return s
}

// ExplainPodUsage implements explain.UsageExplainer for the plugin.
func (x *Extensions) ExplainPodUsage(state fwk.CycleState, pod *corev1.Pod) (usages []explain.PodUsage) {
	s := x.PreScoreState(state, pod)
	explanations := s.View.Estimator().Explain(pod)
	for _, r := range x.resources {
		usages = append(usages, explain.NewPodUsage(r, s.PodUsage[r], explanations[r]))
	}
	return usages
}

// PreScore skips scoring when no node's load is known: the profile's other plugins decide.
func (x *Extensions) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if x.PreScoreState(state, pod).Skip {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// SignPod implements minor.SignPlugin: scores depend on what the pod will use, and on nothing else of the pod.
func (x *Extensions) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return []minor.SignFragment{{Key: "v1.Pod.Spec." + x.plugin + "()", Value: x.reader.PodUsage(pod)}}, nil
}

// NodeScore returns the node score nearest to score. freshest and stalest are the states of the node's best and worst known
// resource: where even the freshest is not load.Fresh, the score is the one that missingLoad chooses.
func (x *Extensions) NodeScore(s *PreScoreState, score float64, freshest, stalest load.State) int64 {
	if replacement, ok := x.Replacement(s, freshest, stalest); ok {
		return replacement
	}
	return rounded(score)
}

// Replacement returns the score that missingLoad chooses, Missing or the lowest, and whether it chooses one. freshest and stalest
// are as in NodeScore.
func (x *Extensions) Replacement(s *PreScoreState, freshest, stalest load.State) (score int64, ok bool) {
	if stalest != load.Fresh {
		x.counters.Fallback(&s.fallbacks, stalest)
	}
	if freshest != load.Fresh {
		switch x.missingLoad {
		case config.MissingLoadNeutral:
			return Missing, true
		case config.MissingLoadLowest:
			return minor.MinScore, true
		}
	}
	return 0, false
}

// rounded is the node score nearest to score. NaN becomes the lowest score.
func rounded(score float64) int64 {
	switch {
	case score >= float64(minor.MaxScore):
		return minor.MaxScore
	case score > float64(minor.MinScore):
		return int64(math.Round(score))
	}
	return minor.MinScore
}

// ScoreExtensions returns x itself where nodes without known load get the mean score of the others.
func (x *Extensions) ScoreExtensions() minor.ScoreExtensions {
	if x.missingLoad == config.MissingLoadNeutral {
		return x
	}
	return nil
}

// NormalizeScore gives the nodes without known load the mean score of the others, or the lowest score if there are none.
func (x *Extensions) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores minor.NodeScoreList) *fwk.Status {
	var sum, known int64
	for _, n := range scores {
		if n.Score != Missing {
			sum += n.Score
			known++
		}
	}
	mean := minor.MinScore
	if known > 0 {
		mean = int64(math.Round(float64(sum) / float64(known)))
	}
	for i := range scores {
		if scores[i].Score == Missing {
			scores[i].Score = mean
		}
	}
	return nil
}
