// Package targetloadpacking scores nodes to keep their CPU utilization near a target: below it, it packs; above, it spreads.
package targetloadpacking

import (
	"context"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
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

// TargetLoadPacking is a score plugin that packs nodes up to a target of measured CPU utilization. It is safe for
// concurrent use.
type TargetLoadPacking struct {
	*loadscore.Extensions[loadscore.NoPodState]
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
		ScoreSkipped: descriptor.Skipped{Unknown: descriptor.NoLoad, Known: descriptor.NoLoad},
	}, descriptor.Parts[*config.TargetLoadPackingArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.TargetLoadPackingArgs, in descriptor.Inputs) (minor.Plugin, error) {
	return &TargetLoadPacking{
		Extensions: loadscore.New[loadscore.NoPodState](Name, in, args.MissingLoad), targetPercent: float64(args.TargetUtilization),
	}, nil
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

// Score scores the CPU utilization that the node would have with the pod on it.
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

// ScoreExtensions returns the plugin itself.
func (pl *TargetLoadPacking) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore scores nodes above 100 percent: 0 while another node is below, otherwise less the fuller they are. A node without
// known load gets the mean where missingLoad is Neutral.
func (pl *TargetLoadPacking) NormalizeScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	normalizeOverfull(scores)
	return pl.Extensions.NormalizeScore(ctx, state, pod, scores)
}

func (pl *TargetLoadPacking) terms(s *loadscore.PreScoreState[loadscore.NoPodState], node fwk.NodeInfo) Terms {
	return Terms{CPU: s.View.Resource(node, load.CPU), PodCPUMillis: s.PodUsage[load.CPU], TargetPercent: pl.targetPercent}
}

// Explain returns the node's Terms.
func (pl *TargetLoadPacking) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	return pl.terms(pl.PreScoreState(state, pod), node)
}

// LoadLine implements explain.LoadReader. The line is the target; there is none for memory.
func (pl *TargetLoadPacking) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	l := pl.Extensions.LoadLine(state, node)
	l.Percent[load.CPU] = pl.targetPercent
	l.Above[load.CPU] = 100*l.Utilization[load.CPU] > pl.targetPercent
	return l
}
