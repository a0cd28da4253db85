// Package lowriskovercommitment scores nodes by two risks: pod limits above capacity, and usage above requests.
package lowriskovercommitment

import (
	"context"

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
const Name = config.LowRiskOverCommitment

// LowRiskOverCommitment is a score plugin that prefers nodes of a low risk of overcommitment. It is safe for concurrent use.
type LowRiskOverCommitment struct {
	*loadscore.Extensions[PodResources]
	estimator estimator
	nodes     *estimate.PerNode[nodeTerms]
	// limitWeights are the weights of the risk by limits, in [0, 1].
	limitWeights podusage.Amounts
}

var (
	_ minor.ScorePlugin      = &LowRiskOverCommitment{}
	_ explain.UsageExplainer = &LowRiskOverCommitment{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, ScoresByLoad: true,
		ScoreSkipped: descriptor.Skipped{Unknown: descriptor.NoLoad, Known: "the pod has neither requests nor limits"},
	}, descriptor.Parts[*config.LowRiskOverCommitmentArgs]{Reads: reads, BesideRequests: besideRequests, Build: build})
}

// besideRequests reports whether the profile should also score by requests: with AsRequest, pods without limits add no risk by
// limits, so many nodes tie.
func besideRequests(args *config.LowRiskOverCommitmentArgs) bool {
	return args.UnlimitedPods == config.UnlimitedPodsAsRequest
}

func build(_ context.Context, args *config.LowRiskOverCommitmentArgs, in descriptor.Inputs) (minor.Plugin, error) {
	e := estimatorOf(args)
	pl := &LowRiskOverCommitment{
		Extensions: loadscore.New[PodResources](Name, in, args.MissingLoad),
		estimator:  e,
		nodes:      estimate.NewPerNode[nodeTerms](in.Reader.Model(load.CPU)),
		limitWeights: podusage.Amounts{
			load.CPU:    args.RiskLimitWeights[corev1.ResourceCPU],
			load.Memory: args.RiskLimitWeights[corev1.ResourceMemory],
		},
	}
	pl.SetPodState(func(_ fwk.CycleState, pod *corev1.Pod) (*PodResources, loadscore.Scoring) {
		if isBestEffort(pod) {
			return new(pl.estimator.podResources(pod)), loadscore.Never
		}
		return new(pl.estimator.podResources(pod)), loadscore.ByLoad
	})
	return pl, nil
}

func estimatorOf(args *config.LowRiskOverCommitmentArgs) estimator {
	return estimator{
		smoothingWindowSize: float64(args.SmoothingWindowSize), window: args.Window.Duration,
		unlimitedAsRequest: args.UnlimitedPods == config.UnlimitedPodsAsRequest,
	}
}

func reads(args *config.LowRiskOverCommitmentArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, estimatorOf(args))
	r.UsesDeviation = true
	return r
}

// Score scores the risk of overcommitment with the pod on the node.
func (pl *LowRiskOverCommitment) Score(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	return pl.NodeScore(s, terms.Score(), terms.Node[load.CPU].State, terms.Node[load.Memory].State), nil
}

func (pl *LowRiskOverCommitment) terms(s *loadscore.PreScoreState[PodResources], node fwk.NodeInfo) Terms {
	e, terms := pl.nodes.Of(s.View, node, &pl.estimator)
	return Terms{Node: e, nodeTerms: terms, Pod: s.Pod, LimitWeights: pl.limitWeights}
}

// Explain returns the node's Terms.
func (pl *LowRiskOverCommitment) Explain(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) explain.Terms {
	terms := pl.terms(pl.PreScoreState(state, pod), node)
	return &terms
}

// SignPod implements minor.SignPlugin: only the requests and limits of the pod determine scores.
func (pl *LowRiskOverCommitment) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return []minor.SignFragment{{Key: "v1.Pod.Spec." + Name + "()", Value: pl.estimator.signature(pod)}}, nil
}
