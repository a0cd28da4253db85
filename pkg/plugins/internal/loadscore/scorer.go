// Package loadscore is what all plugins that score a node by its load have in common: seeing one view of the load during a
// decision, stepping aside when no load is known, and judging nodes whose load is missing.
package loadscore

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
)

// missing is what Score returns, before normalization, for a node that gets the mean of the others.
const missing int64 = -1

// Formula is what makes one load plugin differ from another. D is what the formula needs to know of the pod; it marshals to
// JSON, so that pods of equal demand can be told. Its
// functions are pure, and so may be called from many goroutines at once.
type Formula[D any] struct {
	// Demand derives what the formula needs of the pod, once per decision.
	Demand func(pod *corev1.Pod) D
	// Applies tells whether the view knows enough load for the formula to say anything.
	Applies func(view *estimate.View) bool
	// Score rates the node in [fwk.MinScore, fwk.MaxScore]; higher is better. Of the resources that it looks at, best and worst
	// are the states of the best known and of the worst known. All that are not load.Fresh are judged by requests.
	Score func(view *estimate.View, node fwk.NodeInfo, demand D) (score float64, best, worst load.State)
}

// Scorer implements the PreScore, Score and ScoreExtensions extension points by a Formula. PreScore need not be enabled.
// It is safe for concurrent use; its only state is the pin of the present decision.
type Scorer[D any] struct {
	model       *estimate.Model
	missingLoad config.MissingLoad
	formula     Formula[D]
	counters    counters.Counters
	pin         estimate.Pin[decision[D]]
}

type decision[D any] struct {
	view   *estimate.View
	aside  bool
	demand D
	noted  counters.Noted
}

// New returns a scorer by formula on the load of model.
func New[D any](model *estimate.Model, missingLoad config.MissingLoad, formula Formula[D], c counters.Counters) *Scorer[D] {
	return &Scorer[D]{model: model, missingLoad: missingLoad, formula: formula, counters: c}
}

// decide returns the decision's view of the load and demand of the pod, the same for every call with the same state.
func (s *Scorer[D]) decide(state fwk.CycleState, pod *corev1.Pod) *decision[D] {
	if d := s.pin.Get(state); d != nil {
		return d
	}
	view := s.model.View(state)
	d, first := s.pin.Set(state, &decision[D]{view: view, aside: !s.formula.Applies(view), demand: s.formula.Demand(pod)})
	if first {
		s.counters.Decisions.Inc()
		if d.aside {
			s.counters.Aside.Inc()
		}
	}
	return d
}

// Sign returns what of the pod the scores of the named plugin depend on: what the formula needs to know of it.
func (s *Scorer[D]) Sign(plugin string, pod *corev1.Pod) []fwk.SignFragment {
	return []fwk.SignFragment{{Key: "v1.Pod.Spec." + plugin + "()", Value: s.formula.Demand(pod)}}
}

// PreScore steps aside when no node's load is known: the profile's other plugins decide.
func (s *Scorer[D]) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if s.decide(state, pod).aside {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score rates the node by its load with the pod on it.
func (s *Scorer[D]) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	d := s.decide(state, pod)
	if d.aside {
		return fwk.MinScore, nil
	}
	score, best, worst := s.formula.Score(d.view, node, d.demand)
	if worst != load.Fresh {
		s.counters.FallBack(&d.noted, worst)
	}
	if best != load.Fresh {
		switch s.missingLoad {
		case config.MissingLoadNeutral:
			return missing, nil
		case config.MissingLoadLowest:
			return fwk.MinScore, nil
		}
	}
	return nodeScore(score), nil
}

// nodeScore is the node score nearest to v. What is no number becomes the lowest score.
func nodeScore(v float64) int64 {
	switch {
	case v >= float64(fwk.MaxScore):
		return fwk.MaxScore
	case v > float64(fwk.MinScore):
		return int64(math.Round(v))
	}
	return fwk.MinScore
}

// ScoreExtensions returns the scorer itself where nodes without known load get the mean of the others.
func (s *Scorer[D]) ScoreExtensions() fwk.ScoreExtensions {
	if s.missingLoad == config.MissingLoadNeutral {
		return s
	}
	return nil
}

// NormalizeScore gives the nodes without known load the mean of the others, or the lowest score if there are none.
func (s *Scorer[D]) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var sum, known int64
	for _, n := range scores {
		if n.Score != missing {
			sum += n.Score
			known++
		}
	}
	mean := fwk.MinScore
	if known > 0 {
		mean = int64(math.Round(float64(sum) / float64(known)))
	}
	for i := range scores {
		if scores[i].Score == missing {
			scores[i].Score = mean
		}
	}
	return nil
}
