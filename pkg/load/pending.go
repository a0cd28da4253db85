package load

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Seen is the share, in [0, 1], of a pod's usage that a mean over the window ending at end shows, if the pod has been
// running since start: clamp((end − start) / window). A window of no length shows what runs at its end, and all of it.
func Seen(start, end time.Time, window time.Duration) float64 {
	ran := end.Sub(start)
	switch {
	case ran <= 0:
		return 0
	case ran >= window:
		return 1
	}
	return float64(ran) / float64(window)
}

// RunningSince returns the moment since when the pod, as it is now, has been using its node, and whether there is one: the
// latest start of its running containers, or the pod's own start if it runs but says nothing of its containers. A pod that
// was assumed or bound a moment ago, or still pulls its images, does not run yet.
func RunningSince(pod *corev1.Pod) (time.Time, bool) {
	var latest time.Time
	for i := range pod.Status.ContainerStatuses {
		if running := pod.Status.ContainerStatuses[i].State.Running; running != nil && running.StartedAt.After(latest) {
			latest = running.StartedAt.Time
		}
	}
	if !latest.IsZero() {
		return latest, true
	}
	if pod.Status.Phase == corev1.PodRunning && pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time, true
	}
	return time.Time{}, false
}

// terminal tells whether the pod has ended and uses nothing any more.
func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Unseen is the share, in [0, 1], of the pod's usage that the reading does not show yet, though the pod is on the node:
// 1 for a pod that does not run yet, falling to 0 while the window moves over its start, and 0 for one that has ended.
func (r *Reading) Unseen(pod *corev1.Pod) float64 {
	if terminal(pod) {
		return 0
	}
	start, running := RunningSince(pod)
	if !running {
		return 1
	}
	return 1 - Seen(start, r.End, r.Window)
}

// Requests is the Usage that expects of each pod what it requests, as the scheduler's cache has added it up already.
func Requests(pod fwk.PodInfo) (cpuMillis, memoryBytes float64) {
	requests := pod.CalculateResource().Resource
	return float64(requests.GetMilliCPU()), float64(requests.GetMemory())
}
