// Package loadvariationriskbalancing scores nodes by the risk that their load passes their allocatable, for which both a
// high mean and a high deviation count: of two nodes with equal means it prefers the steadier.
package loadvariationriskbalancing

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.LoadVariationRiskBalancing

// LoadVariationRiskBalancing is a score plugin that prefers nodes whose load is low and steady. It is safe for concurrent
// use.
type LoadVariationRiskBalancing struct {
	*loadscore.Extensions
	margin, sensitivity float64
}

var (
	_ minor.PreScorePlugin   = &LoadVariationRiskBalancing{}
	_ minor.SignPlugin       = &LoadVariationRiskBalancing{}
	_ minor.ScorePlugin      = &LoadVariationRiskBalancing{}
	_ explain.UsageExplainer = &LoadVariationRiskBalancing{}
	_ explain.LoadReader     = &LoadVariationRiskBalancing{}
)

// New returns the plugin.
func New(ctx context.Context, object runtime.Object, handle minor.Handle, given deps.Deps) (minor.Plugin, error) {
	args, ok := object.(*config.LoadVariationRiskBalancingArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type LoadVariationRiskBalancingArgs, got %T", object)
	}
	if err := validation.ValidateLoadVariationRiskBalancingArgs(nil, args); err != nil {
		return nil, err
	}
	reader, err := given.Load.Open(ctx, reads(args).In(reading.ClusterOf(handle)))
	if err != nil {
		return nil, err
	}
	return &LoadVariationRiskBalancing{
		Extensions:  loadscore.New(Name, reader, []load.Resource{load.CPU, load.Memory}, args.MissingLoad, given.Counters),
		margin:      args.SafeVarianceMargin,
		sensitivity: args.SafeVarianceSensitivity,
	}, nil
}

func reads(args *config.LoadVariationRiskBalancingArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, podusage.ByRequests{Default: podusage.AmountsOf(args.DefaultRequests)})
	r.UsesDeviation = true
	return r
}

// Name returns the name of the plugin.
func (pl *LoadVariationRiskBalancing) Name() string { return Name }

// Score scores the risk that the node's load passes its allocatable with the pod on it.
func (pl *LoadVariationRiskBalancing) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return minor.MinScore, nil
	}
	terms := pl.terms(s, node)
	return pl.NodeScore(s, terms.Score(), terms.Node.Freshest(), terms.Node.Stalest()), nil
}

func (pl *LoadVariationRiskBalancing) terms(s *loadscore.PreScoreState, node fwk.NodeInfo) Terms {
	return Terms{Node: s.View.Estimate(node), Pod: s.PodUsage, Margin: pl.margin, Sensitivity: pl.sensitivity}
}

// Explain returns the node's Terms.
func (pl *LoadVariationRiskBalancing) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	return pl.terms(pl.PreScoreState(state, pod), node)
}
