package podusage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// StartingPod returns the pod with only the containers that run or are about to start, and whether there are any.
// Containers without a status are about to start: the pod was just bound.
// It returns pod itself where all containers count, and does not change it.
func StartingPod(pod *corev1.Pod) (starting *corev1.Pod, ok bool) {
	statuses := pod.Status.ContainerStatuses
	initFails := slices.ContainsFunc(pod.Status.InitContainerStatuses,
		func(s corev1.ContainerStatus) bool { return fails(s.State.Waiting) })
	if !initFails && !slices.ContainsFunc(statuses, isDown) {
		return pod, true
	}
	starts := func(statuses []corev1.ContainerStatus, name string) bool {
		i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
		if i >= 0 && statuses[i].State.Running != nil {
			return true
		}
		// While an init container fails, no container behind it starts.
		return !initFails && (i < 0 || !isDown(statuses[i]))
	}
	reduced := *pod
	reduced.Spec.Containers = slices.DeleteFunc(slices.Clone(pod.Spec.Containers), func(c corev1.Container) bool {
		return !starts(statuses, c.Name)
	})
	reduced.Spec.InitContainers = slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return !isSidecar(&c) || !starts(pod.Status.InitContainerStatuses, c.Name)
	})
	return &reduced, len(reduced.Spec.Containers)+len(reduced.Spec.InitContainers) > 0
}

// isDown reports whether a container has ended, or fails to start.
func isDown(s corev1.ContainerStatus) bool {
	return s.State.Terminated != nil || fails(s.State.Waiting)
}

// fails reports whether a container waits because something failed: an image pull, its configuration, or the container itself.
// The kubelet has many names for it, and two for a container that is merely about to start.
func fails(waiting *corev1.ContainerStateWaiting) bool {
	return waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing"
}
