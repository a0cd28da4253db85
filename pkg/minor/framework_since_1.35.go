//go:build !kubernetes_1_34

package minor

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// Kubernetes 1.35 moved these names from k8s.io/kubernetes/pkg/scheduler/framework and below to k8s.io/kube-scheduler/framework.
// SignFragment and SignPlugin are new in 1.35. Once 1.34 is no longer built, fwk can replace this list.
type (
	EnqueueExtensions   = fwk.EnqueueExtensions
	FilterPlugin        = fwk.FilterPlugin
	Handle              = fwk.Handle
	NodeInfoLister      = fwk.NodeInfoLister
	NodePluginScores    = fwk.NodePluginScores
	NodeScore           = fwk.NodeScore
	NodeScoreList       = fwk.NodeScoreList
	NodeToStatusReader  = fwk.NodeToStatusReader
	NominatingInfo      = fwk.NominatingInfo
	Parallelizer        = fwk.Parallelizer
	Plugin              = fwk.Plugin
	PluginScore         = fwk.PluginScore
	PodActivator        = fwk.PodActivator
	PostBindPlugin      = fwk.PostBindPlugin
	PostFilterPlugin    = fwk.PostFilterPlugin
	PostFilterResult    = fwk.PostFilterResult
	PreFilterExtensions = fwk.PreFilterExtensions
	PreFilterPlugin     = fwk.PreFilterPlugin
	PreFilterResult     = fwk.PreFilterResult
	PreScorePlugin      = fwk.PreScorePlugin
	ReservePlugin       = fwk.ReservePlugin
	ScoreExtensions     = fwk.ScoreExtensions
	ScorePlugin         = fwk.ScorePlugin
	SharedLister        = fwk.SharedLister
	SignFragment        = fwk.SignFragment
	SignPlugin          = fwk.SignPlugin
)

// ModeOverride makes a NominatingInfo set the pod's nominated node. An empty name clears it.
const ModeOverride = fwk.ModeOverride

// Tolerates reports whether the tolerations tolerate all taints that the filter selects.
func Tolerates(
	logger klog.Logger, f feature.Features, taints []corev1.Taint, tolerations []corev1.Toleration, filter func(*corev1.Taint) bool,
) bool {
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(logger, taints, tolerations, filter,
		f.EnableTaintTolerationComparisonOperators)
	return !untolerated
}

// Sequential returns a Parallelizer that does one piece of work after the other.
func Sequential() Parallelizer { return sequence{} }

type sequence struct{}

func (sequence) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	for i := 0; i < pieces && ctx.Err() == nil; i++ {
		do(i)
	}
}
