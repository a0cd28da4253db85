package estimate

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// coverage is the share, in [0, 1], of a pod's usage that a mean over the window ending at end shows, if the pod has been
// running since start: clamp((end − start) / window). A window of length 0 shows all of what runs at its end. Moments are in
// nanoseconds since 1970.
func coverage(start, end int64, window time.Duration) float64 {
	switch {
	case start <= end-int64(window):
		return 1
	case start >= end:
		return 0
	}
	return float64(end-start) / float64(window)
}

// Values of runningSince for a pod that uses nothing any more, and for one that does not run yet.
const (
	ended  int64 = math.MinInt64
	notYet int64 = math.MaxInt64
)

// runningSince returns the moment since when the pod has been using its node, in nanoseconds since 1970: the latest start of
// its running containers, or the pod's start time if it runs but states nothing of its containers. A pod that was assumed or
// bound a moment ago, or still pulls its images, does not run yet.
func runningSince(pod *corev1.Pod) int64 {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ended
	}
	latest := ended
	for i := range pod.Status.ContainerStatuses {
		if running := pod.Status.ContainerStatuses[i].State.Running; running != nil && !running.StartedAt.IsZero() {
			latest = max(latest, running.StartedAt.UnixNano())
		}
	}
	switch {
	case latest != ended:
		return latest
	case pod.Status.Phase == corev1.PodRunning && pod.Status.StartTime != nil:
		return pod.Status.StartTime.UnixNano()
	}
	return notYet
}

// horizonOf returns the horizon of the measurements, in nanoseconds since 1970: pods that started before it are fully covered
// by every window.
func horizonOf(measured *load.NodeLoad) int64 {
	horizon := notYet - 1
	for r := range measured {
		if m := &measured[r]; m.Known {
			horizon = min(horizon, m.End.UnixNano()-int64(m.Window))
		}
	}
	return horizon
}

// uncoveredPods are the pods of one node that some window does not fully cover. When a pod started, and what it will use, is
// determined once for each pod: a node that changed has most of its pods still, and their objects are spread over memory.
type uncoveredPods struct {
	// all are the pods of the node.
	all  []fwk.PodInfo
	pods []uncoveredPod
	// horizon is the moment before which pods were fully covered, and left out of pods.
	horizon int64
}

// uncoveredPod is a pod that some window does not fully cover.
type uncoveredPod struct {
	// position is the pod's position among the pods of its node.
	position int
	// since is the moment since when the pod runs, in nanoseconds since 1970.
	since int64
	usage podusage.Amounts
}

// update returns the uncovered pods of the node as it is now. u is not changed.
func (u *uncoveredPods) update(pods []fwk.PodInfo, horizon int64, estimator podusage.Estimator) uncoveredPods {
	if horizon < u.horizon {
		u = &uncoveredPods{} // pods that were left out may count again
	}
	unchanged := slices.Equal(u.all, pods)
	if unchanged && !slices.ContainsFunc(u.pods, func(p uncoveredPod) bool { return p.since <= horizon }) {
		return uncoveredPods{all: u.all, pods: u.pods, horizon: horizon}
	}
	var buffer [32]uncoveredPod
	uncovered, next := buffer[:0], 0
	for i, pod := range pods {
		for next < len(u.pods) && u.pods[next].position < i {
			next++
		}
		if i < len(u.all) && u.all[i] == pod {
			if next < len(u.pods) && u.pods[next].position == i && u.pods[next].since > horizon {
				uncovered = append(uncovered, u.pods[next])
			}
			continue
		}
		if since := runningSince(pod.GetPod()); since > horizon {
			uncovered = append(uncovered, uncoveredPod{position: i, since: since, usage: estimator.Estimate(pod.GetPod())})
		}
	}
	updated := uncoveredPods{all: u.all, pods: slices.Clone(uncovered), horizon: horizon}
	if !unchanged {
		updated.all = slices.Clone(pods) // a NodeInfo may change its own in place
	}
	return updated
}

// pending is the usage of one resource that the measurement does not show yet: the sum over the pods of
// usage · (1 − coverage).
func (u *uncoveredPods) pending(m *load.Measurement, r load.Resource) float64 {
	if !m.Known {
		return 0
	}
	pending, end := 0.0, m.End.UnixNano()
	for i := range u.pods {
		pending += u.pods[i].usage[r] * (1 - coverage(u.pods[i].since, end, m.Window))
	}
	return pending
}
