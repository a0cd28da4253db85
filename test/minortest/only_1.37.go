//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_38

package minortest

import (
	"context"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func putBack(ctx context.Context, q *queue.PriorityQueue, info *framework.QueuedPodInfo) error {
	return q.AddUnschedulablePodIfNotPresent(klog.FromContext(ctx), info, q.SchedulingCycle())
}

// FrameworkOn returns the options of a framework that reads the snapshot. From Kubernetes 1.37 on, preemption reads it
// as one that it may change.
func FrameworkOn(snapshot *cache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
	}
}
