package load

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// seen is the share, in [0, 1], of a pod's usage that a mean over the window ending at end shows, if the pod has been
// running since start: clamp((end − start) / window). A window of no length shows what runs at its end, and all of it.
// Moments are in nanoseconds since 1970.
func seen(start, end int64, window time.Duration) float64 {
	switch {
	case start <= end-int64(window):
		return 1
	case start >= end:
		return 0
	}
	return float64(end-start) / float64(window)
}

// What usingSince says of a pod that uses nothing any more, and of one that does not run yet.
const (
	ended  int64 = math.MinInt64
	notYet int64 = math.MaxInt64
)

// usingSince returns the moment since when the pod, as it is now, has been using its node, in nanoseconds since 1970: the
// latest start of its running containers, or the pod's own start if it runs but says nothing of its containers. A pod that
// was assumed or bound a moment ago, or still pulls its images, does not run yet.
func usingSince(pod *corev1.Pod) int64 {
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

// unseen is the share, in [0, 1], of the usage of a pod that the reading does not show yet, though the pod is on the node
// and has been using it since the given moment: 1 for a pod that does not run yet, falling to 0 while the window moves over
// its start, and 0 for one that has ended.
func (r *Reading) unseen(since int64) float64 { return 1 - seen(since, r.End.UnixNano(), r.Window) }

// horizon is the latest moment of which the load's readings have seen wholly what has been running since then.
func (n *NodeLoad) horizon() int64 {
	horizon := notYet - 1
	for _, r := range [...]*Reading{&n.CPU, &n.Memory} {
		if r.Known {
			horizon = min(horizon, r.End.UnixNano()-int64(r.Window))
		}
	}
	return horizon
}

// Requests is the Usage that expects of each pod what it requests, as the scheduler's cache has added it up already.
type Requests struct{}

// Of implements Usage.
func (Requests) Of(pod fwk.PodInfo) (cpuMillis, memoryBytes float64) {
	requests := pod.CalculateResource().Resource
	return float64(requests.GetMilliCPU()), float64(requests.GetMemory())
}

// recent is a pod that the measurement has not seen wholly.
type recent struct {
	// index is the pod's place among the pods of its node.
	index int
	since int64
}

// recentPods is what is known of the pods of one node. What it takes to tell when a pod started and what it will use is
// looked up once for each pod: they are spread over memory, and a node that changed has mostly the pods it had.
type recentPods struct {
	all    []fwk.PodInfo
	recent []recent
	// expected is what the recent pods are expected to use: for each of them, one after the other, by each usage.
	expected []amounts
	// horizon is the moment of which all that has been running since then is left out of recent.
	horizon int64
}

// next is what is known of the pods of the node now. Most of them are those of p, which is not changed.
func (p *recentPods) next(pods []fwk.PodInfo, horizon int64, usages []Usage) recentPods {
	if horizon < p.horizon {
		p = &recentPods{} // what was left out may count again
	}
	same := slices.Equal(p.all, pods)
	if same && !slices.ContainsFunc(p.recent, func(r recent) bool { return r.since <= horizon }) {
		return recentPods{all: p.all, recent: p.recent, expected: p.expected, horizon: horizon}
	}
	var recentRoom [32]recent
	var expectedRoom [2 * len(recentRoom)]amounts
	kept, expected, known := recentRoom[:0], expectedRoom[:0], 0
	for i, pod := range pods {
		for known < len(p.recent) && p.recent[known].index < i {
			known++
		}
		switch {
		case i >= len(p.all) || p.all[i] != pod:
			if since := usingSince(pod.GetPod()); since > horizon {
				kept = append(kept, recent{index: i, since: since})
				for _, usage := range usages {
					cpuMillis, memoryBytes := usage.Of(pod)
					expected = append(expected, amounts{cpuMillis, memoryBytes})
				}
			}
		case known < len(p.recent) && p.recent[known].index == i && p.recent[known].since > horizon:
			kept = append(kept, p.recent[known])
			expected = append(expected, p.expected[known*len(usages):][:len(usages)]...)
		}
	}
	next := recentPods{all: p.all, recent: slices.Clone(kept), expected: slices.Clone(expected), horizon: horizon}
	if !same {
		next.all = slices.Clone(pods) // a NodeInfo may change its own in place
	}
	return next
}

// pending is what the readings have not seen of what is expected of the pods by one of so many usages.
func (p *recentPods) pending(known *NodeLoad, usage, usages int) (pending amounts) {
	for i := range p.recent {
		since, expected := p.recent[i].since, &p.expected[i*usages+usage]
		if known.CPU.Known {
			pending.cpuMillis += known.CPU.unseen(since) * expected.cpuMillis
		}
		if known.Memory.Known {
			pending.memoryBytes += known.Memory.unseen(since) * expected.memoryBytes
		}
	}
	return pending
}
