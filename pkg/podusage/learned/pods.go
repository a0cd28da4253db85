package learned

import (
	"hash/maphash"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

const (
	// correlation is about how long a pod's usage stays similar. Observations within that time count little more than one.
	correlation = 30 * time.Minute
	// podGap is the number of intervals for which a pod without observations is remembered.
	podGap = 3
)

// podEntry holds the usage over time of one pod, in float32 to halve its size: there may be many.
type podEntry struct {
	resources [load.ResourceCount]struct{ seconds, mean, variance float32 }
	seen      uint32
}

type podObservation struct {
	uid          types.UID
	resource     load.Resource
	usage, share float64
	// sums and starts are those of the pod's workload.
	sums   *sums
	starts *starts
}

// add adds a usage observed for some seconds, as entry.add does. It returns what that adds to the sum of squared deviations from
// the pod's mean, per share of the interval.
func (e *podEntry) add(r load.Resource, usage, seconds float64) (deviation float64) {
	into := &e.resources[r]
	total := float64(into.seconds) + seconds
	if total <= 0 {
		return 0
	}
	difference, share := usage-float64(into.mean), seconds/total
	into.variance = combined(into.variance, 0, difference, share)
	into.mean = float32(float64(into.mean) + difference*share)
	into.seconds = float32(total)
	return difference * difference * (1 - share)
}

// withPods returns the observed pods with those of the tally added, and adds their deviations to its workloads' sums.
func (s *Statistics) withPods(t *Tally, at time.Time, interval, history time.Duration) map[uint64]podEntry {
	seen := uint32(max(at.Unix(), 0))
	oldest := uint32(max(at.Add(-podGap*interval).Unix(), 0))
	decay := float32(weightAt(max(at.Sub(s.at), 0), history))
	pods := make(map[uint64]podEntry, len(s.pods))
	for hash, e := range s.pods {
		if e.seen < oldest {
			continue
		}
		for r := range e.resources {
			e.resources[r].seconds *= decay
		}
		pods[hash] = e
	}
	for i := range t.pods {
		o := &t.pods[i]
		if t.discarded[o.resource] || o.usage < 0 || o.usage > maxUsage {
			continue
		}
		hash := s.podHash(o.uid)
		e := pods[hash]
		if o.resource == load.CPU {
			before := float64(e.resources[load.CPU].seconds)
			if before > 0 { // decay is 0 in the first interval
				before /= float64(decay)
			}
			o.starts.observe(o.usage, o.share, before, interval)
		}
		o.sums.within += o.share * e.add(o.resource, o.usage, o.share*interval.Seconds())
		e.seen = seen
		pods[hash] = e
	}
	return pods
}

func (s *Statistics) podHash(uid types.UID) uint64 { return maphash.Comparable(s.seed, uid) }

// narrow changes the moments of a workload to those of one of its pods, by the pod's own usage. It does not allocate.
//
// The workload weighs as much as the pod's usage over a time: correlation · Within / (Variance − Within), at most correlation.
// The less its pods are alike, the less it weighs. Source: credibility by H. Bühlmann, "Experience Rating and
// Credibility", 1967.
//
// It returns the peak of the pod's own usage: its 95th percentile, 0 if unobserved.
func (s *Statistics) narrow(moments *[load.ResourceCount]Moments, uid types.UID) (own podusage.Amounts) {
	e, ok := s.pods[s.podHash(uid)]
	if !ok {
		return own
	}
	for r := range moments {
		m, pod := &moments[r], &e.resources[r]
		if pod.seconds <= 0 {
			continue
		}
		own[r] = float64(pod.mean) + deviationsToP95*math.Sqrt(float64(pod.variance))
		prior := correlation.Seconds()
		if between := m.Variance - m.Within; between > m.Within {
			prior *= m.Within / between
		}
		share := prior / (prior + float64(pod.seconds))
		m.Mean = m.Mean*share + float64(pod.mean)*(1-share)
		m.Variance = m.Variance*share + float64(pod.variance)*(1-share)
	}
	return own
}
