package peak

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// PodSums are sums over the predicted usages of a node's pods, of one resource, in milliCPU or bytes. Each usage is capped at
// allocatable.
type PodSums struct {
	// Mean is the sum of the means of all pods, and Learned the part of it by statistics: see learned.Usage.
	Mean, Learned float64
	// Excess is the largest excess of one pod's peak over its mean, and LargestVariance the variance of that pod. Largest is its
	// position on the node, or NoPod on a node without pods.
	Excess, LargestVariance float64
	Largest                 int32
	// RestVariance is the sum of the variances of all other pods.
	RestVariance float64
}

// NoPod is the position of no pod.
const NoPod int32 = -1

// add adds a pod's capped usage.
func (s *PodSums) add(u *learned.Usage, position int32) {
	s.Mean += u.Mean
	s.Learned += u.Learned
	if excess := u.Excess(); s.Largest == NoPod || excess > s.Excess {
		s.RestVariance += s.LargestVariance
		s.Excess, s.LargestVariance, s.Largest = excess, u.Variance, position
		return
	}
	s.RestVariance += u.Variance
}

// podSums are the sums over one node's pods, by one prediction.
type podSums struct {
	byResource [load.ResourceCount]PodSums
	// from and until bound the moments that the sums hold at, in nanoseconds since 1970.
	from, until int64
	prediction  *learned.Prediction
	// predicted runs parallel to pods.
	pods      []fwk.PodInfo
	predicted []predictedPod
}

// Derive implements estimate.Deriver.
func (v *View) Derive(f estimate.Facts, earlier *podSums) (s podSums, same bool) {
	if earlier != nil && earlier.prediction != v.prediction {
		earlier = nil
	}
	moment := predictionMoment(f.Measured, v.prediction.Statistics)
	if earlier != nil && f.Unchanged && earlier.from <= moment && moment < earlier.until {
		return podSums{}, true
	}
	s = podSums{prediction: v.prediction, pods: f.Pods, predicted: v.predict(f.Pods, earlier)}
	s.from, s.until = steadyAround(s.predicted, moment)
	allocatable := estimate.Allocatable(f.Node)
	for r := range load.ResourceCount {
		s.byResource[r] = sumOf(s.predicted, r, allocatable[r], moment)
	}
	return s, false
}

// predict returns the predictions of the pods. Statistics are looked up once per pod.
func (v *View) predict(pods []fwk.PodInfo, earlier *podSums) []predictedPod {
	if earlier == nil {
		earlier = &podSums{}
	}
	if estimate.SamePods(earlier.pods, pods) {
		return earlier.predicted
	}
	predicted, last := make([]predictedPod, len(pods)), len(earlier.pods)-1
	for i, pod := range pods {
		switch {
		case i < len(earlier.pods) && earlier.pods[i] == pod:
			predicted[i] = earlier.predicted[i]
		case last >= 0 && earlier.pods[last] == pod: // the framework moves the last pod to the position of a removed one
			predicted[i] = earlier.predicted[last]
		default:
			predicted[i] = v.predictPod(pod.GetPod())
		}
	}
	return predicted
}

// predictedPod is the predicted usage of one pod.
type predictedPod struct {
	usages smallUsages
	// steady is nil for a pod whose usages do not change.
	steady *steadyState
}

// steadyState replaces a pod's usages after its startup, from the given moment on, in nanoseconds since 1970.
type steadyState struct {
	from   int64
	usages smallUsages
}

// smallUsages are learned.Usages at less than half the size: there are many of them.
type smallUsages [load.ResourceCount]struct{ mean, p95, variance, learned float32 }

func smallUsagesOf(usages *learned.Usages) (s smallUsages) {
	for r := range s {
		u := &usages[r]
		s[r].mean, s[r].p95, s[r].variance, s[r].learned = float32(u.Mean), float32(u.P95), float32(u.Variance), float32(u.Learned)
	}
	return s
}

func (s *smallUsages) at(r load.Resource) learned.Usage {
	u := &s[r]
	return learned.Usage{Mean: float64(u.mean), P95: float64(u.p95), Variance: float64(u.variance), Learned: float64(u.learned)}
}

func (v *View) predictPod(pod *corev1.Pod) (p predictedPod) {
	if podusage.HasEnded(pod) {
		return p
	}
	usages, steady, changes := v.prediction.OnNode(pod)
	p.usages = smallUsagesOf(&usages)
	if !estimate.Runs(pod) { // it may never run: its workload's history is not its own
		requests := podusage.ByRequests{}.PendingUsage(pod)
		for r := range steady {
			steady[r] = steady[r].Within(requests[r])
			changes = changes || steady[r] != usages[r]
		}
	}
	if until, ok := estimate.StartupUntil(pod, v.model.config.Window); ok && changes {
		p.steady = &steadyState{from: until, usages: smallUsagesOf(&steady)}
	}
	return p
}

// sumOf returns the sums of one resource at the given moment, in nanoseconds since 1970.
func sumOf(pods []predictedPod, r load.Resource, allocatable float64, moment int64) PodSums {
	s := PodSums{Largest: NoPod}
	for i := range pods {
		pod := &pods[i]
		usages := &pod.usages
		if pod.steady != nil && moment >= pod.steady.from {
			usages = &pod.steady.usages
		}
		usage := usages.at(r)
		usage = usage.Within(allocatable)
		s.add(&usage, int32(i))
	}
	return s
}

// steadyAround returns the last end of a pod's startup up to the moment, and the next end after it.
func steadyAround(pods []predictedPod, moment int64) (last, next int64) {
	last, next = math.MinInt64, math.MaxInt64
	for i := range pods {
		switch steady := pods[i].steady; {
		case steady == nil:
		case steady.from <= moment:
			last = max(last, steady.from)
		default:
			next = min(next, steady.from)
		}
	}
	return last, next
}

// predictionMoment is the time of the newest measurement of the node or of its workloads, in nanoseconds since 1970.
func predictionMoment(measured *load.NodeLoad, statistics *learned.Statistics) int64 {
	moment := int64(math.MinInt64)
	if at := statistics.At(); !at.IsZero() {
		moment = at.UnixNano()
	}
	for r := range measured {
		if m := &measured[r]; m.Known {
			moment = max(moment, m.End.UnixNano())
		}
	}
	return moment
}
