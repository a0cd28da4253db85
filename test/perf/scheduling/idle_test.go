package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// idlers returns plugins that do nothing at the extension points of the load plugins. What a profile with them costs beyond the
// stock profile is the framework's cost of calling one more plugin, or four.
func idlers() frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for name, plugin := range map[string]fwk.Plugin{
		"IdleTargetLoadPacking":          &idleScore{name: "IdleTargetLoadPacking"},
		"IdleLoadVariationRiskBalancing": &idleScore{name: "IdleLoadVariationRiskBalancing"},
		"IdleLoadThreshold":              &idleFilter{name: "IdleLoadThreshold"},
		"IdleNodeMetrics":                &idleFilterAndScore{idleFilter{name: "IdleNodeMetrics"}},
	} {
		registry[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }
	}
	return registry
}

var (
	_ fwk.PreScorePlugin  = &idleScore{}
	_ fwk.ScorePlugin     = &idleScore{}
	_ fwk.PreFilterPlugin = &idleFilter{}
	_ fwk.FilterPlugin    = &idleFilter{}
	_ fwk.ScorePlugin     = &idleFilterAndScore{}
	_ fwk.ScoreExtensions = &idleFilterAndScore{}
)

// idleScore scores all nodes alike.
type idleScore struct{ name string }

func (pl *idleScore) Name() string { return pl.name }

func (pl *idleScore) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (pl *idleScore) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return fwk.MinScore, nil
}

func (pl *idleScore) ScoreExtensions() fwk.ScoreExtensions { return nil }

// idleFilter lets all nodes pass.
type idleFilter struct{ name string }

func (pl *idleFilter) Name() string { return pl.name }

func (pl *idleFilter) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (pl *idleFilter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (pl *idleFilter) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// idleFilterAndScore lets all nodes pass, scores them alike, and normalizes nothing.
type idleFilterAndScore struct{ idleFilter }

func (pl *idleFilterAndScore) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return fwk.MinScore, nil
}

func (pl *idleFilterAndScore) ScoreExtensions() fwk.ScoreExtensions { return pl }

func (pl *idleFilterAndScore) NormalizeScore(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeScoreList) *fwk.Status {
	return nil
}
