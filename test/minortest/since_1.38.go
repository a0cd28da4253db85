//go:build kubernetes_1_38

package minortest

import (
	"context"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func putBack(ctx context.Context, q *queue.PriorityQueue, info *framework.QueuedPodInfo) error {
	return q.AddUnschedulablePodIfNotPresent(ctx, info, q.SchedulingCycle())
}

// FrameworkOn returns the options of a framework that reads the snapshot. From Kubernetes 1.38 on, DefaultPreemption panics without
// a PreemptionManager.
func FrameworkOn(snapshot *cache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithPreemptionManager(func(handle fwk.Handle) fwk.PreemptionManager {
			return preemption.NewPreemptionManager(handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		}),
	}
}

// SetPodGroupCycle makes the state that of a pod that a group's cycle places.
func SetPodGroupCycle(state *framework.CycleState, cycle fwk.PodGroupCycleState) {
	state.SetPodGroupCycleState(cycle)
}
