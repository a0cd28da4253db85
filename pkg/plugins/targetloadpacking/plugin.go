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
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = "TargetLoadPacking"

// TargetLoadPacking is a score plugin that packs nodes up to a target of measured CPU utilization. It is safe for
// concurrent use.
type TargetLoadPacking struct {
	*loadscore.Scorer[demand]
}

var (
	_ fwk.PreScorePlugin = &TargetLoadPacking{}
	_ fwk.ScorePlugin    = &TargetLoadPacking{}
)

// demand is the usage expected of the pod that is being placed.
type demand struct{ cpuMillis float64 }

// New returns the plugin. modelOf gives the load model that the arguments ask for.
func New(ctx context.Context, object runtime.Object, modelOf func(context.Context, config.LoadSpec) (*load.Model, error)) (fwk.Plugin, error) {
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
	model, err := modelOf(ctx, args.LoadSpec)
	if err != nil {
		return nil, err
	}
	usage := podusage.Estimator{Multiplier: multiplier, DefaultCPUMillis: args.DefaultRequests.Cpu().MilliValue()}
	return &TargetLoadPacking{loadscore.New(model, args.MissingLoad, formula(usage, float64(args.TargetUtilization)))}, nil
}

// Name returns the name of the plugin.
func (pl *TargetLoadPacking) Name() string { return Name }

func formula(usage podusage.Estimator, target float64) loadscore.Formula[demand] {
	return loadscore.Formula[demand]{
		Demand:   func(pod *corev1.Pod) demand { return demand{cpuMillis: usage.CPUMillis(pod)} },
		Applies:  load.View.KnowsCPU,
		Measured: func(e load.Estimate) bool { return e.CPU.State == load.Fresh },
		Score: func(e load.Estimate, d demand) float64 {
			return Score(100*e.CPU.Utilization(d.cpuMillis), target)
		},
	}
}
