// Package loadvariationriskbalancing scores nodes by the risk that their load exceeds their allocatable. A high mean and a
// high deviation count: of two nodes with equal means, it prefers the steadier.
package loadvariationriskbalancing

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
const Name = config.LoadVariationRiskBalancing

// LoadVariationRiskBalancing prefers nodes whose load is low and steady. It is safe for concurrent use.
type LoadVariationRiskBalancing struct {
	*loadscore.Extensions[loadscore.NoPodState]
	margin, sensitivity float64
}

var (
	_ minor.ScorePlugin      = &LoadVariationRiskBalancing{}
	_ explain.UsageExplainer = &LoadVariationRiskBalancing{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, ScoresByLoad: true,
	}, descriptor.Parts[*config.LoadVariationRiskBalancingArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.LoadVariationRiskBalancingArgs, in descriptor.Inputs) (minor.Plugin, error) {
	return &LoadVariationRiskBalancing{
		Extensions: loadscore.New[loadscore.NoPodState](Name, in, args.MissingLoad),
		margin:     args.SafeVarianceMargin, sensitivity: args.SafeVarianceSensitivity,
	}, nil
}

func reads(args *config.LoadVariationRiskBalancingArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, podusage.ByRequests{Default: podusage.AmountsOf(args.DefaultRequests)})
	r.UsesDeviation = true
	return r
}

func (pl *LoadVariationRiskBalancing) Score(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	return pl.NodeScore(s, terms.Score(), terms.Node[load.CPU].State, terms.Node[load.Memory].State), nil
}

func (pl *LoadVariationRiskBalancing) terms(s *loadscore.PreScoreState[loadscore.NoPodState], node fwk.NodeInfo) Terms {
	return Terms{Node: s.View.Estimate(node), Pod: s.PodUsage, Margin: pl.margin, Sensitivity: pl.sensitivity}
}

func (pl *LoadVariationRiskBalancing) Explain(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) explain.Terms {
	return pl.terms(pl.PreScoreState(state, pod), node)
}

// Terms are the terms of one node's score.
type Terms struct {
	// Node is the measured and pending usage of the node.
	Node estimate.Estimate
	// Pod is what the pod to place requests.
	Pod podusage.Amounts
	// Margin and Sensitivity are the settings of the formula, ≥ 0.
	Margin, Sensitivity float64
}

// Score falls from 100 to 0 with the higher risk of both resources.
func (t Terms) Score() float64 { return 100 * (1 - max(t.Risk(load.CPU), t.Risk(load.Memory))) }

func (t Terms) List() (terms []explain.Term) {
	for r := range load.ResourceCount {
		terms = append(terms, explain.Resource(r, &t.Node[r], t.Pod[r], t.Node[r].Allocatable)...)
		terms = append(terms, explain.Term{Name: r.String() + " risk", Value: 100 * t.Risk(r), Unit: "%"})
	}
	return terms
}

// Risk is the risk of one resource with the pod on the node, in [0, 1]. A node without the resource counts as full.
func (t Terms) Risk(r load.Resource) float64 {
	e := &t.Node[r]
	if e.Allocatable <= 0 {
		return risk(1, 0, t.Margin, t.Sensitivity)
	}
	return risk((e.Mean+e.Pending+t.Pod[r])/e.Allocatable, e.StdDev/e.Allocatable, t.Margin, t.Sensitivity)
}

// risk is the mean of mu and margin·sigma^(1/sensitivity), both clamped to [0, 1]. mu is a resource's mean utilization and
// sigma its standard deviation, both fractions of the allocatable. A sensitivity of 0 switches the deviation off.
// The formula is that of Trimaran's LoadVariationRiskBalancing (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
func risk(mu, sigma, margin, sensitivity float64) float64 {
	deviation := 0.0
	if sensitivity > 0 {
		deviation = clamp(margin * math.Pow(clamp(sigma), 1/sensitivity))
	}
	return (clamp(mu) + deviation) / 2
}

func clamp(v float64) float64 { return min(max(v, 0), 1) }
