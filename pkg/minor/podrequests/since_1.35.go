//go:build !kubernetes_1_34

package podrequests

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Of returns what the pod requests. While the pod is being resized, the larger of old and new requests counts. That includes
// pod-level requests, as the scheduler counts them with the feature gate InPlacePodLevelResourcesVerticalScaling. The gate is on by
// default from Kubernetes 1.36 on. In 1.35, where it is off, the API server refuses that resize. The gate itself is not asked: this
// package does without k8s.io/kubernetes.
func Of(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

// Running returns the resources that the whole pod runs with. They are from its status, or else from its spec, and can be nil.
func Running(pod *corev1.Pod) *corev1.ResourceRequirements {
	switch {
	case pod.Status.Resources != nil:
		return pod.Status.Resources
	case pod.Status.AllocatedResources != nil:
		return &corev1.ResourceRequirements{Requests: pod.Status.AllocatedResources}
	}
	return pod.Spec.Resources
}

// OfStatus returns the requests of the whole pod in its status: what is allocated, and what it runs with.
func OfStatus(pod *corev1.Pod) (lists [2]corev1.ResourceList) {
	lists[0] = pod.Status.AllocatedResources
	if pod.Status.Resources != nil {
		lists[1] = pod.Status.Resources.Requests
	}
	return lists
}
