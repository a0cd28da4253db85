// Package peaks scores nodes by the additional power that the pod would draw there. Each node has a power model.
package peaks

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.Peaks

// Peaks is a score plugin that prefers the node whose power rises least. It is safe for concurrent use.
type Peaks struct {
	*loadscore.Extensions[loadscore.NoPodState]
	models      models
	missingLoad config.MissingLoad
}

var (
	_ minor.ScorePlugin      = &Peaks{}
	_ explain.UsageExplainer = &Peaks{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, ScoresByLoad: true, ScoreSkipped: descriptor.Skipped{Unknown: descriptor.NoLoad, Known: descriptor.NoLoad},
	}, descriptor.Parts[*config.PeaksArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.PeaksArgs, in descriptor.Inputs) (minor.Plugin, error) {
	args, err := withModels(args)
	if err != nil {
		return nil, err
	}
	return &Peaks{
		Extensions:  loadscore.New[loadscore.NoPodState](Name, in, args.MissingLoad),
		models:      models{args: args, nodes: estimate.NewPerNode[*config.PowerModel](in.Reader.Model(load.CPU))},
		missingLoad: args.MissingLoad,
	}, nil
}

func reads(args *config.PeaksArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, podusage.ByRequests{})
	r.Ignores[load.Memory] = true
	return r
}

// unmodelled is the Score of a node without a power model.
const unmodelled int64 = -2

// Score returns the node's encoded cost, unmodelled or loadscore.Missing. NormalizeScore makes a score of it.
func (pl *Peaks) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	replacement, replaced := pl.Replacement(s, terms.CPU.State, terms.CPU.State)
	cost := terms.Score()
	switch {
	case terms.Model == nil:
		return unmodelled, nil
	case replaced && replacement == loadscore.Missing, math.IsNaN(cost):
		return loadscore.Missing, nil
	case replaced:
		cost = math.Inf(1)
	}
	return encode(cost), nil
}

func (pl *Peaks) terms(s *loadscore.PreScoreState[loadscore.NoPodState], node fwk.NodeInfo) Terms {
	e, model := pl.models.nodes.Of(s.View, node, &pl.models)
	return Terms{CPU: *e[load.CPU], PodCPUMillis: s.PodUsage[load.CPU], Model: *model}
}

// Explain returns the node's Terms.
func (pl *Peaks) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	return pl.terms(pl.PreScoreState(state, pod), node)
}

// ScoreExtensions returns the plugin itself.
func (pl *Peaks) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore gives the candidate of the lowest cost 100, that of the highest 0, and the others a score between.
// A node that would exceed its capacity gets 0. A node of unknown cost gets the mean, or 0 if missingLoad is Lowest.
func (pl *Peaks) NormalizeScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return nil
	}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, n := range scores {
		if n.Score < 0 {
			continue
		}
		if cost := decode(n.Score); !math.IsInf(cost, 1) {
			lowest, highest = min(lowest, cost), max(highest, cost)
		}
	}
	for i := range scores {
		scores[i].Score = pl.normalized(scores[i].Score, lowest, highest)
	}
	return pl.Extensions.NormalizeScore(ctx, state, pod, scores)
}

// normalized returns the score, or loadscore.Missing, for a result of Score. lowest and highest bound the finite costs.
func (pl *Peaks) normalized(score int64, lowest, highest float64) int64 {
	switch {
	case score == unmodelled && pl.missingLoad == config.MissingLoadLowest:
		return config.MinNodeScore
	case score < 0:
		return loadscore.Missing
	}
	cost := decode(score)
	switch {
	case math.IsInf(cost, 1):
		return config.MinNodeScore
	case highest-lowest <= sameCost*max(math.Abs(highest), math.Abs(lowest)):
		return config.MaxNodeScore
	}
	return int64(math.Round(float64(config.MaxNodeScore) * (highest - cost) / (highest - lowest)))
}

// sameCost is the relative difference up to which costs differ by rounding only.
const sameCost = 1e-9
