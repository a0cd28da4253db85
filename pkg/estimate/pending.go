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

// coverage is the share, in [0, 1], of a pod's usage that a measurement over the window ending at end shows, if it shows what the pod
// uses from start on: clamp((end − start) / window). A window of length 0 shows all of what runs at its end. Moments are in
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
// its running containers, or the pod's start time if it runs but states nothing of its containers. A container that was
// restarted counts from the pod's start time, so that a crash loop does not renew what the pod is charged. A pod that was
// assumed or bound a moment ago, or still pulls its images, does not run yet.
func runningSince(pod *corev1.Pod) int64 {
	if hasEnded(pod) {
		return ended
	}
	latest := ended
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		running := status.State.Running
		if running == nil || running.StartedAt.IsZero() {
			continue
		}
		started := running.StartedAt.Time
		if status.RestartCount > 0 && pod.Status.StartTime != nil {
			started = pod.Status.StartTime.Time
		}
		latest = max(latest, started.UnixNano())
	}
	switch {
	case latest != ended:
		return latest
	case pod.Status.Phase == corev1.PodRunning && pod.Status.StartTime != nil:
		return pod.Status.StartTime.UnixNano()
	}
	return notYet
}

// shownFrom is the moment from which on a measurement shows something of a pod that runs since the given one: a quantile shows nothing
// before the load has lasted for the share of the window that is above the quantile. Moments are in nanoseconds since 1970.
func (c *Config) shownFrom(since int64) int64 {
	if c.Fraction == 0 || since == ended || since == notYet {
		return since
	}
	return since + int64(math.Round((1-c.Fraction)*float64(c.Window)))
}

// hasEnded reports whether the pod uses nothing any more.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// boundSince returns the moment at which the pod was bound to its node, in nanoseconds since 1970; notYet for a pod that was
// only assumed.
func boundSince(pod *corev1.Pod) int64 {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UnixNano()
		}
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
	pods []uncoveredPod
	// horizon is the moment before which pods were fully covered, and left out of pods.
	horizon int64
}

// amounts are podusage.Amounts at half the size: there are many of them, and 24 bits are exact enough.
type amounts [load.ResourceCount]float32

func amountsOf(a podusage.Amounts) (smaller amounts) {
	for r := range a {
		smaller[r] = float32(a[r])
	}
	return smaller
}

// uncoveredPod is a pod that some window does not fully cover.
type uncoveredPod struct {
	// since is the moment from which on a measurement shows something of the pod, in nanoseconds since 1970.
	since int64
	// charge is what the pod is charged, until bound takes effect; nil is no bound.
	charge amounts
	bound  *chargeBound
	// position is the pod's position among the pods of its node.
	position int32
}

// chargeBound bounds what a pod is charged to what it requests, from the given moment on, in nanoseconds since 1970.
type chargeBound struct {
	from    int64
	request amounts
}

// at returns what of the resource the pod is charged at the given moment, in milliCPU or bytes.
func (p *uncoveredPod) at(moment int64, r load.Resource) float64 {
	charge := p.charge[r]
	if p.bound != nil && moment >= p.bound.from {
		charge = min(charge, p.bound.request[r])
	}
	return float64(charge)
}

// windowsCharged is for how many windows from its binding a pod is charged beyond its request. A pod that starts within the
// first is then fully covered at the end of the second; a pod that never starts must not close its node.
const windowsCharged = 2

func newUncoveredPod(position int, since int64, pod *corev1.Pod, charge amounts, window time.Duration) uncoveredPod {
	p := uncoveredPod{position: int32(position), since: since, charge: charge}
	request := amountsOf(podusage.ByRequests{}.Charge(pod))
	if bound := boundSince(pod); bound != notYet && (p.charge[load.CPU] > request[load.CPU] || p.charge[load.Memory] > request[load.Memory]) {
		p.bound = &chargeBound{from: bound + windowsCharged*int64(window), request: request}
	}
	return p
}

// update returns the uncovered pods of a node that had the pods before, and has the pods now. charge returns what the pod at a
// position is charged. u is not changed.
func (u *uncoveredPods) update(before, now []fwk.PodInfo, horizon int64, config *Config, charge func(position int) amounts) uncoveredPods {
	if horizon < u.horizon {
		u, before = &uncoveredPods{}, nil // pods that were left out may count again
	}
	if samePods(before, now) && !slices.ContainsFunc(u.pods, func(p uncoveredPod) bool { return p.since <= horizon }) {
		return uncoveredPods{pods: u.pods, horizon: horizon}
	}
	var buffer [32]uncoveredPod
	uncovered, next := buffer[:0], 0
	for i, pod := range now {
		for next < len(u.pods) && int(u.pods[next].position) < i {
			next++
		}
		if i < len(before) && before[i] == pod {
			if next < len(u.pods) && int(u.pods[next].position) == i && u.pods[next].since > horizon {
				uncovered = append(uncovered, u.pods[next])
			}
			continue
		}
		if since := config.shownFrom(runningSince(pod.GetPod())); since > horizon {
			uncovered = append(uncovered, newUncoveredPod(i, since, pod.GetPod(), charge(i), config.Window))
		}
	}
	return uncoveredPods{pods: slices.Clone(uncovered), horizon: horizon}
}

// samePods reports whether two lists of pods are one, as those of a node are as long as its pods do not change.
func samePods(a, b []fwk.PodInfo) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// on returns what the pod is charged of one resource on a node that offers allocatable, in milliCPU or bytes, and the share of it
// that the measurement shows. No pod is charged more than allocatable, for it cannot use more there.
func (p *uncoveredPod) on(allocatable float64, m *load.Measurement, r load.Resource) (charge, covered float64) {
	end := m.End.UnixNano()
	return min(p.at(end, r), allocatable), coverage(p.since, end, m.Window)
}

// pending is the usage of one resource that the measurement does not show yet: the sum over the pods of
// charge · (1 − coverage).
func (u *uncoveredPods) pending(m *load.Measurement, r load.Resource, allocatable float64) float64 {
	if !m.Known {
		return 0
	}
	pending := 0.0
	for i := range u.pods {
		charge, covered := u.pods[i].on(allocatable, m, r)
		pending += charge * (1 - covered)
	}
	return pending
}
