package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

const burdenName = "Burden"

func registry() frameworkruntime.Registry {
	factories := frameworkruntime.Registry{burdenName: newBurden}
	for _, plugin := range []minor.Plugin{
		&idleScore{"IdleTargetLoadPacking"}, &idleScore{"IdlePredictedPeak"}, &idleScore{"IdleLoadVariationRiskBalancing"},
		&idleScore{"IdleLowRiskOverCommitment"}, &idleScore{"IdlePeaks"}, &idleFilter{"IdleLoadThreshold"},
		&idleFilterAndScore{idleFilter{"IdleNodeMetrics"}},
	} {
		factories[plugin.Name()] = func(context.Context, apiruntime.Object, minor.Handle) (minor.Plugin, error) { return plugin, nil }
	}
	return factories
}

var (
	_ minor.PreScorePlugin  = &idleScore{}
	_ minor.ScorePlugin     = &idleScore{}
	_ minor.PreFilterPlugin = &idleFilter{}
	_ minor.FilterPlugin    = &idleFilter{}
	_ minor.ScorePlugin     = &idleFilterAndScore{}
	_ minor.ScoreExtensions = &idleFilterAndScore{}
	_ minor.PreFilterPlugin = &burden{}
)

type idleScore struct{ name string }

func (pl *idleScore) Name() string { return pl.name }

func (pl *idleScore) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (pl *idleScore) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return config.MinNodeScore, nil
}

func (pl *idleScore) ScoreExtensions() minor.ScoreExtensions { return nil }

type idleFilter struct{ name string }

func (pl *idleFilter) Name() string { return pl.name }

func (pl *idleFilter) PreFilter(
	context.Context,
	fwk.CycleState,
	*corev1.Pod,
	[]fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (pl *idleFilter) PreFilterExtensions() minor.PreFilterExtensions { return nil }

func (pl *idleFilter) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

type idleFilterAndScore struct{ idleFilter }

func (pl *idleFilterAndScore) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return config.MinNodeScore, nil
}

func (pl *idleFilterAndScore) ScoreExtensions() minor.ScoreExtensions { return pl }

func (pl *idleFilterAndScore) NormalizeScore(context.Context, fwk.CycleState, *corev1.Pod, minor.NodeScoreList) *fwk.Status {
	return nil
}

// burden computes for a while in each attempt.
type burden struct{ rounds int }

func newBurden(_ context.Context, args apiruntime.Object, _ minor.Handle) (minor.Plugin, error) {
	unknown, ok := args.(*apiruntime.Unknown)
	if !ok {
		return nil, fmt.Errorf("%s: args: required", burdenName)
	}
	var b struct{ Microseconds int64 }
	if err := json.Unmarshal(unknown.Raw, &b); err != nil {
		return nil, fmt.Errorf("%s: args: %w", burdenName, err)
	}
	spends := time.Duration(b.Microseconds) * time.Microsecond
	return &burden{int(float64(spends) / float64(roundTime()))}, nil
}

// Name implements minor.Plugin.
func (pl *burden) Name() string { return burdenName }

// PreFilter implements minor.PreFilterPlugin.
func (pl *burden) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*minor.PreFilterResult, *fwk.Status) {
	compute(pl.rounds)
	return nil, nil
}

// PreFilterExtensions implements minor.PreFilterPlugin.
func (pl *burden) PreFilterExtensions() minor.PreFilterExtensions { return nil }

// roundTime returns how long a round takes. Of many measurements the shortest is the one that nothing interrupted.
func roundTime() time.Duration {
	const rounds, tries = 100, 1000
	shortest := time.Hour
	for range tries {
		began := time.Now()
		compute(rounds)
		shortest = min(shortest, time.Since(began))
	}
	return max(shortest/rounds, 1)
}

// compute hashes a little text so many times.
func compute(rounds int) {
	sum := sha256.Sum256(nil)
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
	runtime.KeepAlive(sum)
}
