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

// Uncovered is the share of a pod's usage that a measurement does not cover, in [0, 1]. since is the pod's start, in nanoseconds
// since 1970.
func Uncovered(m *load.Measurement, since int64) float64 {
	return 1 - coverage(since, m.End.UnixNano(), m.Window)
}

// coverage is the measured share of a pod's usage: (end − start) / window, in [0, 1]. start is the pod's, end the window's.
// A window of length 0 covers everything that runs at its end. Moments are in nanoseconds since 1970.
func coverage(start, end int64, window time.Duration) float64 {
	switch {
	case start <= end-int64(window):
		return 1
	case start >= end:
		return 0
	}
	return float64(end-start) / float64(window)
}

// Values of runningSince for a pod that has ended, and for one that does not run yet.
const (
	ended  int64 = math.MinInt64
	notYet int64 = math.MaxInt64
)

// runningSince returns the latest start of the pod's running containers, in nanoseconds since 1970. If the status of a running
// pod has no containers, it is the pod's start time. A restarted container counts from the pod's start time, so that a crash loop
// does not renew its pending usage. A pod that was assumed or bound just now, or pulls its images, does not run yet.
func runningSince(pod *corev1.Pod) int64 {
	_, latest := startsOf(pod)
	return latest
}

// startsOf returns the first and the latest start of the pod's running containers: see runningSince.
func startsOf(pod *corev1.Pod) (first, latest int64) {
	if podusage.HasEnded(pod) {
		return ended, ended
	}
	first, latest = notYet, ended
	restarts := pod.Status.Phase == corev1.PodRunning
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if started := startOf(pod, status); started != notYet {
			first, latest = min(first, started), max(latest, started)
		}
		restarts = restarts || status.LastTerminationState.Terminated != nil // the init containers run again
	}
	switch {
	case latest != ended:
		return first, latest
	case restarts && pod.Status.StartTime != nil:
		return pod.Status.StartTime.UnixNano(), pod.Status.StartTime.UnixNano()
	}
	return notYet, notYet
}

// startOf returns the start of one container; notYet if it does not run.
func startOf(pod *corev1.Pod, status *corev1.ContainerStatus) int64 {
	running := status.State.Running
	switch {
	case running == nil || running.StartedAt.IsZero():
		return notYet
	case status.RestartCount > 0 && pod.Status.StartTime != nil:
		return pod.Status.StartTime.UnixNano()
	}
	return running.StartedAt.UnixNano()
}

// Runs reports whether the pod has not ended and a container has started.
func Runs(pod *corev1.Pod) bool {
	since := runningSince(pod)
	return since != ended && since != notYet
}

// visibleAfter is the moment after which a measurement covers usage of a pod that started at since.
// A quantile covers none until the load has lasted for the share of the window above it.
func (c *Config) visibleAfter(since int64) int64 {
	if c.Fraction == 0 || since == ended || since == notYet {
		return since
	}
	return since + int64(math.Round((1-c.Fraction)*float64(c.Window)))
}

// StartupUntil returns the end of the pod's startup, in nanoseconds since 1970. Until then, its pending usage may exceed its
// request. ok is false for a pod that is not bound yet.
func StartupUntil(pod *corev1.Pod, window time.Duration) (until int64, ok bool) {
	bound := boundSince(pod)
	if bound == notYet {
		return 0, false
	}
	return bound + startupWindows*int64(window), true
}

// Starts returns when the pod's first container started, and when it has run for the length, in nanoseconds since 1970. For a pod
// that does not run, since has not come, and until is the end of StartupUntil. So a pod that never starts does not close its node.
func Starts(pod *corev1.Pod, length, window time.Duration) (since, until int64) {
	since, _ = startsOf(pod)
	if since != ended && since != notYet {
		return since, since + int64(length)
	}
	if until, ok := StartupUntil(pod, window); ok {
		return since, until
	}
	return since, notYet
}

// startupWindows is the length of a pod's startup, from its binding. A pod that starts within the first window is fully covered
// at the end of the second one. A pod that never starts must not close its node.
const startupWindows = 2

// boundSince returns the time of the pod's binding, in nanoseconds since 1970; notYet for an assumed pod.
func boundSince(pod *corev1.Pod) int64 {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue &&
			!c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UnixNano()
		}
	}
	return notYet
}

// horizonOf returns the earliest start of all windows, in nanoseconds since 1970. They fully cover pods that started before.
func horizonOf(measured *load.NodeLoad) int64 {
	horizon := notYet - 1
	for r := range measured {
		if m := &measured[r]; m.Known {
			horizon = min(horizon, m.End.UnixNano()-int64(m.Window))
		}
	}
	return horizon
}

// uncoveredPods are the pods of one node that some window does not fully cover. Their start and usage are determined once per pod,
// because reading the pods' objects costs cache misses.
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
	// visible is the moment from which on a measurement covers some usage of the pod, in nanoseconds since 1970.
	visible int64
	usage   amounts
	// other is nil for a pod whose usage does not change, and has no part by defaults.
	other *otherUsage
	// position is the pod's position among the pods of its node.
	position int32
}

// otherUsage is the usage of the few pods whose usage changes.
type otherUsage struct {
	// request caps usage after startup, which ends at steadyFrom, in nanoseconds since 1970.
	steadyFrom int64
	request    amounts
	// byDefault is the part of the usage by defaults.
	byDefault amounts
	// phases are by start.
	phases []initPhase
}

// initPhase is the usage of the init containers and sidecars that ran at a moment. A measurement may cover it before it covers the
// rest of the pod.
type initPhase struct {
	// visible is as in uncoveredPod. From steadyFrom on, request caps usage.
	visible        int64
	usage, request amounts
}

// never is later than any moment.
const never int64 = math.MaxInt64

// at returns the pod's usage of the resource at the given moment, and the part of it by defaults. Both are in milliCPU or bytes.
func (p *uncoveredPod) at(moment int64, r load.Resource, allocatable float64) (usage, byDefault float64) {
	if p.other == nil {
		return min(float64(p.usage[r]), allocatable), 0
	}
	bound := allocatable
	if moment >= p.other.steadyFrom {
		bound = min(bound, float64(p.other.request[r]))
	}
	usage = min(float64(p.usage[r]), bound)
	return usage, usage - min(float64(p.usage[r]-p.other.byDefault[r]), bound)
}

func (c *tableCache) newUncoveredPod(position int, visible int64, pod *corev1.Pod) uncoveredPod {
	usage, byDefault := c.key.estimator.PendingUsage(pod)
	p := uncoveredPod{position: int32(position), visible: visible, usage: amountsOf(usage)}
	other := otherUsage{steadyFrom: never, byDefault: amountsOf(byDefault), phases: c.initPhases(pod)}
	if until, ok := StartupUntil(pod, c.config.Window); ok {
		other.request = amountsOf(podusage.PendingRequest(pod))
		if len(other.phases) > 0 || p.usage[load.CPU] > other.request[load.CPU] || p.usage[load.Memory] > other.request[load.Memory] {
			other.steadyFrom = until
		}
	}
	if other.steadyFrom != never || other.byDefault != (amounts{}) || len(other.phases) > 0 {
		p.other = &other
	}
	return p
}

// initPhases returns the usage of the running init containers and sidecars, summed up from start to start.
func (c *tableCache) initPhases(pod *corev1.Pod) (phases []initPhase) {
	var starts []int64
	for i := range pod.Status.InitContainerStatuses {
		if start := startOf(pod, &pod.Status.InitContainerStatuses[i]); start != notYet {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	for _, start := range slices.Compact(starts) {
		phase := podusage.InitPhase(pod, func(s *corev1.ContainerStatus) bool { return startOf(pod, s) <= start })
		usage, byDefault := c.key.estimator.PendingUsage(phase)
		for r := range usage {
			usage[r] -= byDefault[r]
		}
		phases = append(phases, initPhase{
			visible: c.config.visibleAfter(start), usage: amountsOf(usage), request: amountsOf(podusage.PendingRequest(phase)),
		})
	}
	return phases
}

// update returns the uncovered pods of a node that had the pods before, and has the pods now. u is not changed.
func (u *uncoveredPods) update(before, now []fwk.PodInfo, horizon int64, c *tableCache) uncoveredPods {
	if horizon < u.horizon {
		u, before = &uncoveredPods{}, nil // pods that were left out may count again
	}
	if SamePods(before, now) && !slices.ContainsFunc(u.pods, func(p uncoveredPod) bool { return p.visible <= horizon }) {
		return uncoveredPods{pods: u.pods, horizon: horizon}
	}
	var buffer [32]uncoveredPod
	uncovered, next := buffer[:0], 0
	for i, pod := range now {
		for next < len(u.pods) && int(u.pods[next].position) < i {
			next++
		}
		if i < len(before) && before[i] == pod {
			if next < len(u.pods) && int(u.pods[next].position) == i && u.pods[next].visible > horizon {
				uncovered = append(uncovered, u.pods[next])
			}
			continue
		}
		if visible := c.config.visibleAfter(runningSince(pod.GetPod())); visible > horizon {
			uncovered = append(uncovered, c.newUncoveredPod(i, visible, pod.GetPod()))
		}
	}
	return uncoveredPods{pods: slices.Clone(uncovered), horizon: horizon}
}

// SamePods reports whether two lists of pods from Facts are the same slice.
func SamePods(a, b []fwk.PodInfo) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// on returns the pod's usage, capped at allocatable, the uncovered part of it, and the part of that by defaults. Amounts are in
// milliCPU or bytes. Of what the init phase uses, only the rest waits for the other containers.
func (p *uncoveredPod) on(allocatable float64, m *load.Measurement, r load.Resource) (usage, pending, byDefault float64) {
	end := m.End.UnixNano()
	whole, byDefault := p.at(end, r, allocatable)
	if p.other != nil {
		for i := range p.other.phases {
			phase := &p.other.phases[i]
			uses := min(float64(phase.usage[r]), allocatable)
			if end >= p.other.steadyFrom {
				uses = min(uses, float64(phase.request[r]))
			}
			if uses > usage {
				pending += (uses - usage) * (1 - coverage(phase.visible, end, m.Window))
				usage = uses
			}
		}
	}
	uncovered := 1 - coverage(p.visible, end, m.Window)
	return max(usage, whole), pending + max(whole-usage, 0)*uncovered, min(byDefault, max(whole-usage, 0)) * uncovered
}

func (u *uncoveredPods) pending(m *load.Measurement, r load.Resource, allocatable float64) float64 {
	if !m.Known {
		return 0
	}
	pending := 0.0
	for i := range u.pods {
		_, of, _ := u.pods[i].on(allocatable, m, r)
		pending += of
	}
	return pending
}

// defaults returns the parts of the pending usage by defaults. pods are those of the node, and fresh is its estimate.
func (u *uncoveredPods) defaults(measured *load.NodeLoad, pods []fwk.PodInfo, fresh *Estimate) (d Defaults) {
	for i := range u.pods {
		p := &u.pods[i]
		if p.other == nil || p.other.byDefault == (amounts{}) {
			continue
		}
		var sum podusage.Amounts
		for r := range measured {
			if m := &measured[r]; m.Known {
				_, _, sum[r] = p.on(fresh[r].Allocatable, m, load.Resource(r))
			}
		}
		d.Add(pods[p.position].GetPod().Namespace, sum)
	}
	return d
}

// PodLoad is the expected usage of one pod on a node, and the measured share of it.
type PodLoad struct {
	Pod *corev1.Pod
	// Since is the start of the pod; zero if it does not run yet.
	Since     time.Time
	Resources [load.ResourceCount]PodResourceLoad
}

// PodResourceLoad is one resource of a PodLoad. Amounts are in milliCPU or bytes.
type PodResourceLoad struct {
	// Usage is what the pod is expected to use, at most the node's allocatable. It counts until the window covers the pod.
	// Where the node's State is not Fresh, it is the non-zero request.
	Usage float64
	// Coverage is the measured share of Usage, in [0, 1]. Where the node's State is not Fresh, it is 1 and nothing is pending.
	Coverage float64
	// Pending is Usage · (1 − Coverage): what the init phase uses may be covered before the rest.
	Pending float64
}

// Uncovered is the share of the usage by the pod's main containers that the load of its node does not cover yet. Unless the pod has
// init containers that run, it is 1 − PodResourceLoad.Coverage.
func (v *View) Uncovered(node fwk.NodeInfo, pod *corev1.Pod, r load.Resource) float64 {
	n := v.node(node)
	if n == nil || stateAt(v.now, n.freshUntil[r]) != load.Fresh {
		return 0
	}
	measured := v.cache.key.table.Node(node.Node().Name)
	return Uncovered(&measured[r], v.cache.config.visibleAfter(runningSince(pod)))
}

// Pods returns the loads of the node's pods, in their order, without ended ones. Their Pending adds up to that of the node's
// Estimate. Where its State is not Fresh, their Usage adds up to its Mean. Pods allocates: do not call it in a scheduling cycle.
func (v *View) Pods(node fwk.NodeInfo) []PodLoad {
	n := v.node(node)
	var measured load.NodeLoad
	if n != nil {
		measured = v.cache.key.table.Node(node.Node().Name)
	}
	var loads []PodLoad
	for i, info := range node.GetPods() {
		pod := info.GetPod()
		since := runningSince(pod)
		if since == ended {
			continue
		}
		l := PodLoad{Pod: pod}
		if since != notYet {
			l.Since = time.Unix(0, since)
		}
		var uncovered uncoveredPod
		if n != nil {
			uncovered = v.cache.newUncoveredPod(i, v.cache.config.visibleAfter(since), pod)
		}
		requests := info.CalculateResource()
		for r := range load.ResourceCount {
			of := &l.Resources[r]
			if n == nil || stateAt(v.now, n.freshUntil[r]) != load.Fresh {
				*of = PodResourceLoad{
					Usage: float64([load.ResourceCount]int64{load.CPU: requests.Non0CPU, load.Memory: requests.Non0Mem}[r]), Coverage: 1,
				}
				continue
			}
			of.Usage, of.Pending, _ = uncovered.on(n.fresh[r].Allocatable, &measured[r], r)
			of.Coverage = coverage(uncovered.visible, measured[r].End.UnixNano(), measured[r].Window)
			if of.Pending != of.Usage*(1-of.Coverage) {
				of.Coverage = 1 - of.Pending/of.Usage
			}
		}
		loads = append(loads, l)
	}
	return loads
}
