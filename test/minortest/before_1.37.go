//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package minortest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func putBack(ctx context.Context, q *queue.PriorityQueue, info *framework.QueuedPodInfo) error {
	return q.AddUnschedulableIfNotPresent(klog.FromContext(ctx), info, q.SchedulingCycle())
}

// sortedNodes are the remaining nodes of a batch, the best first.
type sortedNodes []string

// Len implements framework.SortedScoredNodes.
func (n *sortedNodes) Len() int { return len(*n) }

// Pop implements framework.SortedScoredNodes.
func (n *sortedNodes) Pop() string {
	first := (*n)[0]
	*n = (*n)[1:]
	return first
}

// EventsOfPod returns the events of a change of a pod.
func EventsOfPod(now, before *corev1.Pod) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(now, before)
}

// FrameworkOn returns the options of a framework that reads the snapshot.
func FrameworkOn(snapshot *cache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{frameworkruntime.WithSnapshotSharedLister(snapshot)}
}
