//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package minortest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func putBack(logger klog.Logger, q *queue.PriorityQueue, info *framework.QueuedPodInfo) error {
	return q.AddUnschedulablePodIfNotPresent(logger, info, q.SchedulingCycle())
}

// sortedNodes are the nodes that are left to a batch, the best first. From Kubernetes 1.37 on, they have scores.
type sortedNodes []string

// Len implements framework.SortedScoredNodes.
func (n *sortedNodes) Len() int { return len(*n) }

// Pop implements framework.SortedScoredNodes.
func (n *sortedNodes) Pop() fwk.NodePluginScores {
	first := n.UnorderedList()[0]
	*n = (*n)[1:]
	return first
}

// UnorderedList implements framework.SortedScoredNodes.
func (n *sortedNodes) UnorderedList() []fwk.NodePluginScores {
	var nodes []fwk.NodePluginScores
	for _, name := range *n {
		nodes = append(nodes, fwk.NodePluginScores{Name: name})
	}
	return nodes
}

// EventsOfPod returns the events of a change of a pod other than the one that waits.
func EventsOfPod(now, before *corev1.Pod) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(now, before, false)
}

// FrameworkOn returns the options of a framework that reads the snapshot. From Kubernetes 1.37 on, preemption reads it
// as one that it may change.
func FrameworkOn(snapshot *cache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
	}
}
