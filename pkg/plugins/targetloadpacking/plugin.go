package targetloadpacking

import (
	"context"
	"fmt"
	"strconv"

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
const Name = config.TargetLoadPacking

// TargetLoadPacking is a score plugin that packs nodes up to a target of measured CPU utilization. It is safe for
// concurrent use.
type TargetLoadPacking struct {
	*loadscore.Scorer[demand]
}

var (
	_ fwk.PreScorePlugin = &TargetLoadPacking{}
	_ fwk.SignPlugin     = &TargetLoadPacking{}
	_ fwk.ScorePlugin    = &TargetLoadPacking{}
)

// demand is the usage expected of the pod that is being placed.
type demand struct{ CPUMillis float64 }

// New returns the plugin.
func New(ctx context.Context, object runtime.Object, handle fwk.Handle, given deps.Deps) (fwk.Plugin, error) {
	args, ok := object.(*config.TargetLoadPackingArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type TargetLoadPackingArgs, got %T", object)
	}
	if err := validation.ValidateTargetLoadPackingArgs(nil, args); err != nil {
		return nil, err
	}
	multiplier, err := strconv.ParseFloat(args.DefaultRequestsMultiplier, 64)
	if err != nil {
		return nil, fmt.Errorf("defaultRequestsMultiplier: %w", err)
	}
	expected := podusage.BySpec{Multiplier: multiplier, DefaultCPUMillis: podusage.Millis(*args.DefaultRequests.Cpu()), MaxRequestRatio: args.MaxLimitRequestRatio}
	model, err := given.Load.Model(ctx, handle, args.LoadSpec, expected)
	if err != nil {
		return nil, err
	}
	formula := formula(expected, float64(args.TargetUtilization))
	return &TargetLoadPacking{loadscore.New(model, args.MissingLoad, formula, given.Counters)}, nil
}

// Name returns the name of the plugin.
func (pl *TargetLoadPacking) Name() string { return Name }

// SignPod implements fwk.SignPlugin: of the pod, the result depends on what it is expected to use alone.
func (pl *TargetLoadPacking) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return pl.Sign(Name, pod), nil
}

func formula(expected podusage.BySpec, target float64) loadscore.Formula[demand] {
	return loadscore.Formula[demand]{
		Demand:  func(pod *corev1.Pod) demand { return demand{CPUMillis: expected.Estimate(pod)[load.CPU]} },
		Applies: func(v *estimate.View) bool { return v.Knows(load.CPU) },
		Score: func(view *estimate.View, node fwk.NodeInfo, d demand) (score float64, best, worst load.State) {
			cpu := view.Resource(node, load.CPU)
			return Score(100*cpu.Utilization(d.CPUMillis), target), cpu.State, cpu.State
		},
	}
}
