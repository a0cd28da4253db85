package podusage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
)

// WithoutInfeasibleResize returns the pod with the resources that it runs with, if the kubelet found its resize infeasible. As in
// the scheduler, the spec counts otherwise: a deferred resize is expected to succeed. It returns pod itself where nothing changes.
func WithoutInfeasibleResize(pod *corev1.Pod) *corev1.Pod {
	if !slices.ContainsFunc(pod.Status.Conditions, isInfeasible) {
		return pod
	}
	actual := *pod
	actual.Spec.Resources = podrequests.Running(pod)
	actual.Spec.Containers = withResourcesOf(pod.Status.ContainerStatuses, pod.Spec.Containers)
	actual.Spec.InitContainers = withResourcesOf(pod.Status.InitContainerStatuses, pod.Spec.InitContainers)
	return &actual
}

func isInfeasible(c corev1.PodCondition) bool {
	return c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
}

// withResourcesOf returns the containers with the resources in their statuses.
func withResourcesOf(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.Container {
	actual := slices.Clone(containers)
	for i := range actual {
		c := &actual[i]
		c.Resources = corev1.ResourceRequirements{}
		j := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		switch {
		case j < 0:
		case statuses[j].Resources != nil:
			c.Resources = *statuses[j].Resources
		default:
			c.Resources.Requests = statuses[j].AllocatedResources
		}
	}
	return actual
}
