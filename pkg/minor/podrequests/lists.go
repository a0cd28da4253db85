// Package podrequests sums up a pod's requests.
package podrequests

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Lists returns all lists of requests that Of adds up or compares. Their sum is at least Of.
func Lists(pod *corev1.Pod) iter.Seq[corev1.ResourceList] {
	return func(yield func(corev1.ResourceList) bool) {
		for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				if !yield(containers[i].Resources.Requests) {
					return
				}
			}
		}
		if !yield(pod.Spec.Overhead) || pod.Spec.Resources != nil && !yield(pod.Spec.Resources.Requests) {
			return
		}
		for _, statuses := range [...][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
			for i := range statuses {
				if !yield(statuses[i].AllocatedResources) ||
					statuses[i].Resources != nil && !yield(statuses[i].Resources.Requests) {
					return
				}
			}
		}
		for _, list := range OfStatus(pod) {
			if !yield(list) {
				return
			}
		}
	}
}
