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
	// ExcessOfStartups is by how much Excess would be larger if it did not exclude Startup.
	ExcessOfStartups float32
	// RestVariance is the sum of the variances of all other pods.
	RestVariance float64
	// Startup is the usage beyond Mean of the pods that start, as far as no measurement covers it. It comes at the same time. Excess
	// excludes it.
	Startup float64
}

// NodeSums are the sums of all resources, by load.Resource.
type NodeSums [load.ResourceCount]PodSums

// NoPod is the position of no pod.
const NoPod int32 = -1

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
	all NodeSums
	// viewed is all as pods of each namespace see it.
	viewed *estimate.Viewed[NodeSums]
	// The sums hold between from and until, in nanoseconds since 1970.
	from, until int64
	// predicted runs parallel to pods.
	pods      []fwk.PodInfo
	predicted []predictedPod
}

func (s *podSums) seenBy(namespace string) *NodeSums { return s.viewed.For(namespace, &s.all) }

func (v *View) Derive(f estimate.Facts, earlier *podSums) (s podSums, same bool) {
	if !f.SameEstimator {
		earlier = nil
	}
	moment := predictionMoment(f.Measured, v.prediction.Statistics)
	if earlier != nil && f.Unchanged && earlier.from <= moment && moment < earlier.until {
		return podSums{}, true
	}
	s = podSums{pods: f.Pods, predicted: v.predict(f.Pods, earlier, moment)}
	s.from, s.until = steadyAround(s.predicted, moment)
	allocatable, cpu := estimate.Allocatable(f.Node), &f.Measured[load.CPU]
	s.all = s.sums(allocatable, moment, cpu, func(int) bool { return true })
	defaults := s.defaults(allocatable, moment)
	s.viewed = estimate.NewViewed(defaults, func(namespace string) NodeSums {
		sums := s.sums(allocatable, moment, cpu, func(i int) bool { return s.pods[i].GetPod().Namespace == namespace })
		for r := range sums {
			// Of the defaults in other namespaces, only the part that is not hidden counts.
			sums[r].Mean = s.all[r].Mean - defaults.Hidden(namespace, load.Resource(r))
		}
		return sums
	})
	return s, false
}

// sums returns the sums at the given moment, in nanoseconds since 1970. cpu is what was measured of the node. Pods for which
// withDefault is false count without defaults.
func (s *podSums) sums(
	allocatable podusage.Amounts, moment int64, cpu *load.Measurement, withDefault func(position int) bool,
) (sums NodeSums) {
	for r := range load.ResourceCount {
		of, largest := &sums[r], 0.0
		of.Largest = NoPod
		for i := range s.predicted {
			pod := &s.predicted[i]
			usages := pod.at(moment)
			if pod.hasDefault(moment) && !withDefault(i) {
				usages = &pod.other.foreign
			}
			usage := usages.at(r)
			usage = usage.Within(allocatable[r])
			largest = max(largest, usage.Excess())
			if r == load.CPU {
				if startup := pod.startup(moment, cpu, allocatable[r]-usage.Mean); startup > 0 {
					of.Startup += startup
					usage.P95 = max(usage.P95-startup, usage.Mean)
				}
			}
			of.add(&usage, int32(i))
		}
		of.ExcessOfStartups = float32(largest - of.Excess)
	}
	return sums
}

// defaults returns the default usage in the means.
func (s *podSums) defaults(allocatable podusage.Amounts, moment int64) (d estimate.Defaults) {
	for i := range s.predicted {
		pod := &s.predicted[i]
		if !pod.hasDefault(moment) {
			continue
		}
		var amounts podusage.Amounts
		for r := range amounts {
			with, without := pod.usages.at(load.Resource(r)), pod.other.foreign.at(load.Resource(r))
			amounts[r] = max(min(with.Mean, allocatable[r])-min(without.Mean, allocatable[r]), 0)
		}
		d.Add(s.pods[i].GetPod().Namespace, amounts)
	}
	return d
}

// predict returns the predictions of the pods from the moment on. Statistics are looked up once per pod.
func (v *View) predict(pods []fwk.PodInfo, earlier *podSums, moment int64) []predictedPod {
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
			predicted[i] = v.predictPod(pod.GetPod(), moment)
		}
	}
	return predicted
}

type predictedPod struct {
	usages smallUsages
	// other is nil for a pod whose usages do not change.
	other *otherUsages
}

// otherUsages replace a pod's usages.
type otherUsages struct {
	// steady applies after startup, from the given moment on, in nanoseconds since 1970.
	from   int64
	steady smallUsages
	// foreign applies before, to pods of other namespaces.
	foreign smallUsages
	// startup is the CPU usage beyond the mean, from the start of the pod until startupEnd, in nanoseconds since 1970.
	startup                  float32
	startupSince, startupEnd int64
}

// never is later than any moment.
const never int64 = math.MaxInt64

// hasDefault reports whether defaults count for the pod at the given moment, in nanoseconds since 1970.
func (p *predictedPod) hasDefault(moment int64) bool {
	return p.other != nil && moment < p.other.from && p.other.foreign != p.usages
}

func (p *predictedPod) at(moment int64) *smallUsages {
	if p.other != nil && moment >= p.other.from {
		return &p.other.steady
	}
	return &p.usages
}

// startup returns the CPU usage beyond the mean at the given moment, up to room, in milliCPU. What the measurement covers is left
// out.
func (p *predictedPod) startup(moment int64, m *load.Measurement, room float64) float64 {
	if p.other == nil || moment >= p.other.startupEnd || !m.Known {
		return 0
	}
	return max(min(float64(p.other.startup), room), 0) * estimate.Uncovered(m, p.other.startupSince)
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

func (v *View) predictPod(pod *corev1.Pod, moment int64) (p predictedPod) {
	if podusage.HasEnded(pod) {
		return p
	}
	u := v.prediction.OnNode(pod)
	if !estimate.Runs(pod) { // it may never run: its workload's history is not its own
		requests := podusage.PendingRequest(pod)
		for r := range u.Steady {
			u.Steady[r] = u.Steady[r].Within(requests[r])
		}
	}
	p.usages = smallUsagesOf(&u.Starting)
	startupSince, startupEnd := int64(math.MinInt64), int64(math.MinInt64)
	if u.Startup.Excess > 0 {
		startupSince, startupEnd = estimate.Starts(pod, u.Startup.Length, v.model.config.Window)
	}
	if !u.Changes() && startupEnd <= moment {
		return p
	}
	p.other = &otherUsages{from: never, steady: smallUsagesOf(&u.Steady), foreign: smallUsagesOf(&u.Foreign)}
	if until, ok := estimate.StartupUntil(pod, v.model.config.Window); ok {
		p.other.from = until
	}
	p.other.startup, p.other.startupSince, p.other.startupEnd = float32(u.Startup.Excess), startupSince, startupEnd
	return p
}

// steadyAround returns the last change of a pod's usages up to the moment, and the next one after it.
func steadyAround(pods []predictedPod, moment int64) (last, next int64) {
	last, next = math.MinInt64, math.MaxInt64
	for i := range pods {
		other := pods[i].other
		if other == nil {
			continue
		}
		for _, end := range [...]int64{other.from, other.startupEnd} {
			if end <= moment {
				last = max(last, end)
			} else {
				next = min(next, end)
			}
		}
		if other.startup > 0 && other.startupEnd > moment {
			next = min(next, moment+1) // the next measurement covers more of it
		}
	}
	return last, next
}

// predictionMoment is the time of the newest measurement of the node or of its workloads, in nanoseconds since 1970.
func predictionMoment(measured *load.NodeLoad, statistics *learned.Statistics) int64 {
	moment := measured.NewestEnd()
	if at := statistics.At(); !at.IsZero() {
		moment = max(moment, at.UnixNano())
	}
	return moment
}
