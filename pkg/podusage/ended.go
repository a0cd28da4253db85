package podusage

import corev1 "k8s.io/api/core/v1"

// HasEnded reports whether the pod has succeeded or failed, and uses nothing anymore.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
