//go:build kubernetes_1_34

package podrequests

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Of returns what the pod requests, as the scheduler counts it. While the pod is being resized, the larger of old and new requests
// counts.
func Of(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
}

// Running returns the resources of the whole pod, which cannot be resized. They can be nil.
func Running(pod *corev1.Pod) *corev1.ResourceRequirements { return pod.Spec.Resources }

// OfStatus returns nothing: before Kubernetes 1.35, a pod's status has no resources of the whole pod.
func OfStatus(*corev1.Pod) (lists [2]corev1.ResourceList) { return lists }
