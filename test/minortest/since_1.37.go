//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package minortest

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

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
