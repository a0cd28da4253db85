package loadvariationriskbalancing

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.LoadVariationRiskBalancing

// LoadVariationRiskBalancing is a score plugin that prefers nodes whose load is low and steady. It is safe for concurrent
// use.
type LoadVariationRiskBalancing struct {
	*loadscore.Scorer[demand]
}

var (
	_ fwk.PreScorePlugin = &LoadVariationRiskBalancing{}
	_ fwk.SignPlugin     = &LoadVariationRiskBalancing{}
	_ fwk.ScorePlugin    = &LoadVariationRiskBalancing{}
)

// demand is what the pod that is being placed requests.
type demand struct{ CPUMillis, MemoryBytes float64 }

// New returns the plugin.
func New(ctx context.Context, object runtime.Object, handle fwk.Handle, given deps.Deps) (fwk.Plugin, error) {
	args, ok := object.(*config.LoadVariationRiskBalancingArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type LoadVariationRiskBalancingArgs, got %T", object)
	}
	if err := validation.ValidateLoadVariationRiskBalancingArgs(nil, args); err != nil {
		return nil, err
	}
	model, err := given.Load.Model(ctx, handle, args.LoadSpec, podusage.ByRequests{})
	if err != nil {
		return nil, err
	}
	risk := func(r estimate.ResourceEstimate, request float64) float64 {
		return resourceRisk(r, request, args.SafeVarianceMargin, args.SafeVarianceSensitivity)
	}
	return &LoadVariationRiskBalancing{loadscore.New(model, args.MissingLoad, formula(risk), given.Counters)}, nil
}

// Name returns the name of the plugin.
func (pl *LoadVariationRiskBalancing) Name() string { return Name }

// SignPod implements fwk.SignPlugin: of the pod, the result depends on what it requests alone.
func (pl *LoadVariationRiskBalancing) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return pl.Sign(Name, pod), nil
}

func formula(risk func(r estimate.ResourceEstimate, request float64) float64) loadscore.Formula[demand] {
	return loadscore.Formula[demand]{
		Demand: func(pod *corev1.Pod) demand {
			usage := podusage.ByRequests{}.Estimate(pod)
			return demand{CPUMillis: usage[load.CPU], MemoryBytes: usage[load.Memory]}
		},
		Applies: func(v *estimate.View) bool { return v.Knows(load.CPU) || v.Knows(load.Memory) },
		Score: func(view *estimate.View, node fwk.NodeInfo, d demand) (score float64, best, worst load.State) {
			e := view.Estimate(node)
			score = Score(max(risk(e[load.CPU], d.CPUMillis), risk(e[load.Memory], d.MemoryBytes)))
			return score, max(e[load.CPU].State, e[load.Memory].State), min(e[load.CPU].State, e[load.Memory].State)
		},
	}
}

// resourceRisk is the risk of one resource of a node once a pod that requests request (in milliCPU or bytes) has come. A
// node that offers none of the resource has no room: its risk is that of a full one.
func resourceRisk(r estimate.ResourceEstimate, request, margin, sensitivity float64) float64 {
	if r.Allocatable <= 0 {
		return Risk(1, 0, margin, sensitivity)
	}
	return Risk((r.Mean+r.Pending+request)/r.Allocatable, r.StdDev/r.Allocatable, margin, sensitivity)
}
