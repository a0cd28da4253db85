//go:build !kubernetes_1_34

package podrequests

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Of returns what the pod requests, as the scheduler counts it. While the pod is being resized, the larger of old and new requests
// counts; from Kubernetes 1.35 on, also of those for the pod as a whole.
func Of(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}
