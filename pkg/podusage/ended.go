package podusage

import corev1 "k8s.io/api/core/v1"

// HasEnded reports whether the pod has succeeded or failed, and uses nothing anymore.
func HasEnded(pod *corev1.Pod) bool { return IsEnd(pod.Status.Phase) }

// IsEnd reports whether pods in the phase have ended.
func IsEnd(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
