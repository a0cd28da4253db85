package estimate

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// PodSums are what the pods of a node are predicted to use of one resource together, in milliCPU or bytes. No pod counts more than
// the node's allocatable.
type PodSums struct {
	// Mean is the sum of the means of all pods. Learned is the part of it that statistics tell of: see learned.Usage.
	Mean, Learned float64
	// Excess is by how much the peak of one pod passes its mean, at most: that of the pod at position Largest among those of the
	// node, whose variance is LargestVariance. Largest is NoPod on a node without pods.
	Excess, LargestVariance float64
	Largest                 int32
	// RestVariance is the sum of the variances of all other pods.
	RestVariance float64
}

// NoPod is the position of no pod.
const NoPod int32 = -1

// add adds a pod's usage, as it is within the node.
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

// predictedPod is what one pod is predicted to use.
type predictedPod struct {
	usages smallUsages
	// lapse is nil for a pod whose usages do not lapse.
	lapse *lapse
}

// lapse replaces the usages of a pod from the given moment on, in nanoseconds since 1970.
type lapse struct {
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

func newPredictedPod(pod fwk.PodInfo, config *Config, prediction *learned.Prediction) (p predictedPod) {
	since := runningSince(pod.GetPod())
	if since == ended {
		return p
	}
	usages, lapsed, lapses := prediction.OnNode(pod.GetPod())
	p.usages = smallUsagesOf(&usages)
	if since == notYet { // it may never run: its workload's history is not its own
		requests := podusage.ByRequests{}.Charge(pod.GetPod())
		for r := range lapsed {
			lapsed[r] = lapsed[r].Within(requests[r])
			lapses = lapses || lapsed[r] != usages[r]
		}
	}
	if bound := boundSince(pod.GetPod()); lapses && bound != notYet {
		p.lapse = &lapse{from: bound + windowsCharged*int64(config.Window), usages: smallUsagesOf(&lapsed)}
	}
	return p
}

// means is what the pod is charged as long as the window does not cover it.
func (p *predictedPod) means() (a amounts) {
	for r := range a {
		a[r] = p.usages[r].mean
	}
	return a
}

// podSums are the sums of one resource at the given moment, in nanoseconds since 1970.
func podSums(pods []predictedPod, r load.Resource, allocatable float64, moment int64) PodSums {
	s := PodSums{Largest: NoPod}
	for i := range pods {
		pod := &pods[i]
		usages := &pod.usages
		if pod.lapse != nil && moment >= pod.lapse.from {
			usages = &pod.lapse.usages
		}
		usage := usages.at(r)
		usage = usage.Within(allocatable)
		s.add(&usage, int32(i))
	}
	return s
}

// lapsesAround returns the last lapse of a pod's usages up to the given moment, and the next one after it.
func lapsesAround(pods []predictedPod, moment int64) (last, next int64) {
	last, next = math.MinInt64, math.MaxInt64
	for i := range pods {
		switch lapse := pods[i].lapse; {
		case lapse == nil:
		case lapse.from <= moment:
			last = max(last, lapse.from)
		default:
			next = min(next, lapse.from)
		}
	}
	return last, next
}

// predictionMoment is the moment that a prediction is of, in nanoseconds since 1970: the latest that is known of the node or of its
// workloads.
func predictionMoment(measured *load.NodeLoad, statistics *learned.Snapshot) int64 {
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
