//go:build !kubernetes_1_34

package podrequests

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Of returns the pod's requests. During a resize, the larger of old and new requests counts, for pod-level requests too. An
// infeasible resize does not count. The scheduler does so with the feature gate InPlacePodLevelResourcesVerticalScaling. Without
// the gate, the default in 1.35, the API server refuses to resize pod-level requests. So the gate, which is in k8s.io/kubernetes,
// need not be read.
func Of(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

// RunningPodLevel returns the pod-level resources of a running pod. They are from its status, or else its spec, and can be nil.
func RunningPodLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	switch {
	case pod.Status.Resources != nil:
		return pod.Status.Resources
	case pod.Status.AllocatedResources != nil:
		return &corev1.ResourceRequirements{Requests: pod.Status.AllocatedResources}
	}
	return pod.Spec.Resources
}

// OfStatus returns the pod-level requests in the status: the allocated ones, and those of the running pod.
func OfStatus(pod *corev1.Pod) (lists [2]corev1.ResourceList) {
	lists[0] = pod.Status.AllocatedResources
	if pod.Status.Resources != nil {
		lists[1] = pod.Status.Resources.Requests
	}
	return lists
}
