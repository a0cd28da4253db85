//go:build kubernetes_1_34

package minor

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// See framework_since_1.35.go.
type (
	EnqueueExtensions   = framework.EnqueueExtensions
	FilterPlugin        = framework.FilterPlugin
	Handle              = framework.Handle
	NodeInfoLister      = framework.NodeInfoLister
	NodePluginScores    = framework.NodePluginScores
	NodeScore           = framework.NodeScore
	NodeScoreList       = framework.NodeScoreList
	NodeToStatusReader  = framework.NodeToStatusReader
	NominatingInfo      = framework.NominatingInfo
	Parallelizer        = parallelize.Parallelizer
	Plugin              = framework.Plugin
	PluginScore         = framework.PluginScore
	PodActivator        = framework.PodActivator
	PostBindPlugin      = framework.PostBindPlugin
	PostFilterPlugin    = framework.PostFilterPlugin
	PostFilterResult    = framework.PostFilterResult
	PreFilterExtensions = framework.PreFilterExtensions
	PreFilterPlugin     = framework.PreFilterPlugin
	PreFilterResult     = framework.PreFilterResult
	PreScorePlugin      = framework.PreScorePlugin
	ReservePlugin       = framework.ReservePlugin
	ScoreExtensions     = framework.ScoreExtensions
	ScorePlugin         = framework.ScorePlugin
	SharedLister        = framework.SharedLister
)

// ModeOverride makes a NominatingInfo set the pod's nominated node. An empty name clears it.
const ModeOverride = framework.ModeOverride

// SignFragment is part of a pod's signature. Before Kubernetes 1.35 pods have none, and nothing calls SignPod.
type SignFragment struct {
	Key   string
	Value any
}

// SignPlugin is what plugins implement from Kubernetes 1.35 on.
type SignPlugin interface {
	Plugin
	SignPod(ctx context.Context, pod *corev1.Pod) ([]SignFragment, *fwk.Status)
}

// Tolerates reports whether the tolerations tolerate all taints that the filter selects.
func Tolerates(
	_ klog.Logger, _ feature.Features, taints []corev1.Taint, tolerations []corev1.Toleration, filter func(*corev1.Taint) bool,
) bool {
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(taints, tolerations, filter)
	return !untolerated
}

// Sequential returns a Parallelizer that does one piece of work after the other.
func Sequential() Parallelizer {
	metrics.Register() // the Parallelizer counts its goroutines there
	return parallelize.NewParallelizer(1)
}
