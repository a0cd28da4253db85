//go:build !kubernetes_1_38

package simhooks

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// NominatedPods returns the pods that are nominated to the node.
func NominatedPods(q queue.SchedulingQueue, node string) []fwk.PodInfo {
	return q.NominatedPodsForNode(node)
}
