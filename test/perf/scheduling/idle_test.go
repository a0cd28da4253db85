package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/internal/nodescore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// idlers returns plugins that do nothing at the extension points of the load plugins. A profile with them costs more than the stock
// profile: the framework's cost of calling one more plugin, or four.
func idlers() frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for name, plugin := range map[string]minor.Plugin{
		"IdleTargetLoadPacking":          &idleScore{name: "IdleTargetLoadPacking"},
		"IdleLoadVariationRiskBalancing": &idleScore{name: "IdleLoadVariationRiskBalancing"},
		"IdleLoadThreshold":              &idleFilter{name: "IdleLoadThreshold"},
		"IdleNodeMetrics":                &idleFilterAndScore{idleFilter{name: "IdleNodeMetrics"}},
	} {
		registry[name] = func(context.Context, runtime.Object, minor.Handle) (minor.Plugin, error) { return plugin, nil }
	}
	return registry
}

var (
	_ minor.PreScorePlugin  = &idleScore{}
	_ minor.ScorePlugin     = &idleScore{}
	_ minor.PreFilterPlugin = &idleFilter{}
	_ minor.FilterPlugin    = &idleFilter{}
	_ minor.ScorePlugin     = &idleFilterAndScore{}
	_ minor.ScoreExtensions = &idleFilterAndScore{}
)

type idleScore struct{ name string }

func (pl *idleScore) Name() string { return pl.name }

func (pl *idleScore) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (pl *idleScore) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return nodescore.Min, nil
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
	return nodescore.Min, nil
}

func (pl *idleFilterAndScore) ScoreExtensions() minor.ScoreExtensions { return pl }

func (pl *idleFilterAndScore) NormalizeScore(context.Context, fwk.CycleState, *corev1.Pod, minor.NodeScoreList) *fwk.Status {
	return nil
}
