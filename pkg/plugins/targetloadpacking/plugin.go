// Package targetloadpacking scores nodes to keep their CPU utilization near a target: below it, it packs; above, it spreads.
package targetloadpacking

import (
	"context"
	"math"
	"slices"
	"strconv"

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
const Name = config.TargetLoadPacking

// TargetLoadPacking packs nodes up to a target of measured CPU utilization. It is safe for concurrent use.
type TargetLoadPacking struct {
	*loadscore.Extensions[loadscore.NoPodState]
	loadscore.Placements
	targetPercent float64
}

var (
	_ minor.ScorePlugin      = &TargetLoadPacking{}
	_ minor.ScoreExtensions  = &TargetLoadPacking{}
	_ explain.UsageExplainer = &TargetLoadPacking{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, LineRank: 2, ScoresByLoad: true,
	}, descriptor.Parts[*config.TargetLoadPackingArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.TargetLoadPackingArgs, in descriptor.Inputs) (minor.Plugin, error) {
	pl := &TargetLoadPacking{
		Extensions: loadscore.New[loadscore.NoPodState](Name, in, args.MissingLoad), targetPercent: float64(args.TargetUtilization),
	}
	pl.Placements = loadscore.PlacementsOf(pl)
	return pl, nil
}

func reads(args *config.TargetLoadPackingArgs) reading.Request {
	multiplier, _ := strconv.ParseFloat(args.DefaultRequestsMultiplier, 64) // it is validated
	r := reading.ForLoad(args.LoadSpec, podusage.BySpec{
		Multiplier: multiplier, DefaultCPUMillis: podusage.Millis(*args.DefaultRequests.Cpu()),
		MaxRequestRatio: args.MaxLimitRequestRatio,
	})
	r.Ignores[load.Memory] = true
	return r
}

func (pl *TargetLoadPacking) Score(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	if replacement, ok := pl.Replacement(s, terms.CPU.State, terms.CPU.State); ok {
		return replacement, nil
	}
	return int64(math.Round(terms.Score())), nil
}

func (pl *TargetLoadPacking) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore calls normalizeOverfull. A node without known load gets the mean where missingLoad is Neutral.
func (pl *TargetLoadPacking) NormalizeScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	normalizeOverfull(scores)
	return pl.Extensions.NormalizeScore(ctx, state, pod, scores)
}

func (pl *TargetLoadPacking) terms(s *loadscore.PreScoreState[loadscore.NoPodState], node fwk.NodeInfo) Terms {
	return Terms{CPU: s.View.Resource(node, load.CPU), PodCPUMillis: s.PodUsage[load.CPU], TargetPercent: pl.targetPercent}
}

func (pl *TargetLoadPacking) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	return pl.terms(pl.PreScoreState(state, pod), node)
}

// LoadLine implements explain.LoadReader. There is no line, and a target for CPU alone.
func (pl *TargetLoadPacking) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	l := pl.Extensions.LoadLine(state, node)
	l.TargetPercent[load.CPU] = pl.targetPercent
	return l
}

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

// Score is the score of the utilization, in [0, 100]. Above 100 percent, Score is minus the utilization until NormalizeScore.
func (t Terms) Score() float64 {
	if utilization := t.UtilizationPercent(); utilization > 100 {
		return -min(utilization, highest)
	}
	return loadscore.Packing(t.UtilizationPercent(), t.TargetPercent)
}

// highest caps the utilizations that are compared, in percent.
const highest = 10000

// normalizeOverfull replaces the scores of nodes above 100 percent by the lowest score. If no other node has a score, a node at 200
// percent gets 50 instead, and a node at 400 percent gets 25.
func normalizeOverfull(scores minor.NodeScoreList) {
	all := !slices.ContainsFunc(scores, func(n minor.NodeScore) bool { return n.Score >= config.MinNodeScore })
	for i := range scores {
		switch score := scores[i].Score; {
		case score > -100: // at most 100 percent
		case all:
			scores[i].Score = int64(math.Round(-100 * float64(config.MaxNodeScore) / float64(score)))
		default:
			scores[i].Score = config.MinNodeScore
		}
	}
}

func (t Terms) List() []explain.Term {
	return append(explain.Resource(load.CPU, &t.CPU, t.PodCPUMillis, t.CPU.Base),
		explain.Term{Name: "cpu utilization", Value: t.UtilizationPercent(), Unit: "%"},
		explain.Term{Name: "target utilization", Value: t.TargetPercent, Unit: "%"})
}
