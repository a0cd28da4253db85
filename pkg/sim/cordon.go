package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsCordon reports whether the taint is that of a cordoned node.
func IsCordon(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }

// Cordoned returns a copy of the node that takes no pods.
func Cordoned(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.Spec.Unschedulable = true
	if !slices.ContainsFunc(node.Spec.Taints, IsCordon) {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return node
}

// Reasons of LeavesWithNode.
const (
	StaticPod = "StaticPod"
	DaemonSet = "DaemonSet"
)

// LeavesWithNode returns why no drain evicts the pod, which ends with its node; empty if a drain evicts it.
func LeavesWithNode(pod *corev1.Pod) (reason string) {
	owner := metav1.GetControllerOfNoCopy(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror || owner != nil && owner.Kind == "Node":
		return StaticPod
	case owner != nil && owner.Kind == "DaemonSet":
		return DaemonSet
	}
	return ""
}
