//go:build kubernetes_1_34

package podrequests

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Of returns the pod's requests. During a resize, the larger of old and new requests counts. An infeasible resize does not count.
func Of(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
}

// RunningPodLevel returns the pod-level resources of a running pod; nil if there are none. Before Kubernetes 1.35, they are always
// those of the spec.
func RunningPodLevel(pod *corev1.Pod) *corev1.ResourceRequirements { return pod.Spec.Resources }

// OfStatus returns nothing: before Kubernetes 1.35, a pod's status has no pod-level resources.
func OfStatus(*corev1.Pod) (lists [2]corev1.ResourceList) { return lists }
