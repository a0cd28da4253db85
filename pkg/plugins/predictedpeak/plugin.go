// Package predictedpeak scores nodes by the peak that the statistics of their pods' workloads predict.
package predictedpeak

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Name is the name of the plugin in configurations.
const Name = config.PredictedPeak

// PredictedPeak is a score plugin that prefers nodes by their predicted peak of load with the pod. It is safe for concurrent use.
type PredictedPeak struct {
	*loadscore.Extensions[podState]
	loadscore.Placements
	peaks         *peak.Model
	deviations    float64
	strategy      config.Strategy
	targetPercent float64
}

var (
	_ minor.ScorePlugin      = &PredictedPeak{}
	_ explain.UsageExplainer = &PredictedPeak{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, LineRank: 3, ScoresByLoad: true,
	}, descriptor.Parts[*config.PredictedPeakArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.PredictedPeakArgs, in descriptor.Inputs) (minor.Plugin, error) {
	pl := &PredictedPeak{
		Extensions: loadscore.New[podState](Name, in, args.MissingLoad), peaks: in.Reader.Peak(load.CPU),
		deviations: args.Deviations, strategy: args.Strategy, targetPercent: float64(args.Target),
	}
	pl.Placements = loadscore.PlacementsOf(pl)
	pl.SetPodState(func(state fwk.CycleState, pod *corev1.Pod) (*podState, loadscore.Scoring) {
		view := pl.peaks.View(state).For(pod)
		s := podState{view: view, usages: view.Pod(pod)}
		if view.HasStatistics() && args.MissingLoad == config.MissingLoadRequests {
			return &s, loadscore.Always
		}
		return &s, loadscore.ByLoad
	})
	return pl, nil
}

// podState holds the predictions of one scheduling cycle.
type podState struct {
	view *peak.View
	// usages are those of the pod to place.
	usages *learned.Usages
}

func reads(args *config.PredictedPeakArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, nil)
	r.Peak = &args.PeakSpec
	return r
}

func (pl *PredictedPeak) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	return pl.NodeScore(s, terms.Score(), terms.Resources[load.CPU].Node.State, terms.Resources[load.Memory].Node.State), nil
}

func (pl *PredictedPeak) terms(s *loadscore.PreScoreState[podState], node fwk.NodeInfo) (t Terms) {
	t.Resources = s.Pod.view.Node(node, s.Pod.usages, pl.deviations)
	t.Strategy, t.TargetPercent = pl.strategy, pl.targetPercent
	return t
}

func (pl *PredictedPeak) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	s := pl.PreScoreState(state, pod)
	terms := pl.terms(s, node)
	for r := range terms.Resources {
		terms.Largest[r] = terms.Resources[r].LargestOn(node)
	}
	return &terms
}

// LoadLine implements explain.LoadReader. The utilization in the LoadLine is the predicted peak. There is no line, and a target for
// strategy Pack alone.
func (pl *PredictedPeak) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	l := pl.Extensions.LoadLine(state, node)
	for r, p := range pl.peaks.View(state).For(estimate.Stranger()).Node(node, &learned.Usages{}, pl.deviations) {
		l.Utilization[r] = p.Peak()
		if pl.strategy == config.StrategyPack {
			l.TargetPercent[r] = pl.targetPercent
		}
	}
	return l
}

// SignPod implements minor.SignPlugin. Scores depend on nothing of the pod but its workload and the amounts in its spec.
func (pl *PredictedPeak) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return []minor.SignFragment{{Key: "v1.Pod." + Name + "()", Value: pl.peaks.Config().Predictor.Key(pod)}}, nil
}

// Terms are the terms of one node's score.
type Terms struct {
	// Resources are what the peaks are predicted from, by load.Resource.
	Resources [load.ResourceCount]peak.Resource
	// Largest names the pod of the largest excess, by load.Resource, as namespace/name; empty for the pod to place. Only Explain
	// sets it.
	Largest [load.ResourceCount]string
	// Strategy and TargetPercent, in [1, 99], are the settings of the score.
	Strategy      config.Strategy
	TargetPercent float64
}

// Peak is the predicted peak of the resource that is closest to full, as a fraction of capacity.
func (t *Terms) Peak() float64 {
	return max(t.Resources[load.CPU].Peak(), t.Resources[load.Memory].Peak())
}

func (t *Terms) Score() float64 { return Score(t.Strategy, 100*t.Peak(), t.TargetPercent) }

func (t *Terms) List() (terms []explain.Term) {
	for r := range load.ResourceCount {
		terms = append(terms, explain.Peak(r, &t.Resources[r], t.Largest[r])...)
	}
	if t.Strategy == config.StrategyPack {
		terms = append(terms, explain.Term{Name: "target", Value: t.TargetPercent, Unit: "%"})
	}
	return terms
}

// atFull is the score of a peak of 100 percent.
const atFull = 20.0

// Score scores a peak, in percent, with a target in [1, 99]. Spread falls in a line from 100 at a peak of 0 to atFull at 100. Pack
// is loadscore.Packing, scaled to [atFull, 100]. Above 100 percent both are atFull over the peak: the lowest is still preferred.
func Score(strategy config.Strategy, percent, target float64) float64 {
	if percent > 100 {
		return atFull * 100 / percent
	}
	score := 100 - percent
	if strategy == config.StrategyPack {
		score = loadscore.Packing(percent, target)
	}
	return atFull + (100-atFull)*score/100
}
