package learned

import (
	"maps"
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const (
	// shortestStart is the least run time of a pod in the interval of its start.
	shortestStart = 2 * time.Minute
	// lastingShare is the share of a startup's excess from which on the next interval belongs to it.
	lastingShare = 0.25
	// startupMemory is how long a startup is kept that does not differ from the workload's usage. A new workload was observed while
	// it started, and does not show its mean yet.
	startupMemory = time.Hour
	// partial bounds the share of an interval that a pod ran in, if it started within.
	partial = 0.95
)

// Startup is the CPU usage of a pod beyond its mean while it starts. The zero value is none.
type Startup struct {
	// Excess is in milliCPU. It lasts for Length from the start of the pod.
	Excess float64
	Length time.Duration
}

func (s Startup) within(mean, limit float64) Startup {
	if s.Excess = min(s.Excess, limit-mean); s.Excess <= 0 {
		return Startup{}
	}
	return s
}

// startupEntry holds the usage of a workload's pods after their start, in float32 to halve its size.
type startupEntry struct {
	// Intervals is the number of intervals with a start, decayed over History.
	Intervals float32 `json:"intervals"`
	// First is the pods' mean usage in the interval of their start, in milliCPU. Seconds is how long they ran in it.
	First   float32 `json:"first"`
	Seconds float32 `json:"seconds"`
	// Next is their mean usage in the following interval; 0 until it is observed.
	Next float32 `json:"next"`
	Seen uint32  `json:"seen"`
}

// starts are sums over the pods of a workload that started during the interval, or during the one before.
type starts struct{ pods, usage, seconds, nextPods, nextUsage float64 }

// observe adds a pod's usage over a share of an interval. before is how long it was observed earlier, in seconds without decay.
func (s *starts) observe(usage, share, before float64, interval time.Duration) {
	ran := share * interval.Seconds()
	switch {
	case before == 0 && share < partial && ran >= shortestStart.Seconds():
		s.pods++
		s.usage += usage * ran
		s.seconds += ran
	case before >= shortestStart.Seconds() && before < partial*interval.Seconds() && share == 1:
		s.nextPods++
		s.nextUsage += usage
	}
}

func (e *startupEntry) add(s *starts, at uint32) {
	if s.nextPods > 0 && e.Intervals > 0 {
		next := float32(s.nextUsage / s.nextPods)
		if e.Next > 0 {
			next = e.Next + (next-e.Next)/max(e.Intervals, 1)
		}
		e.Next = next
	}
	if s.pods > 0 {
		e.Seen = at
		e.Intervals++
		e.First += (float32(s.usage/s.seconds) - e.First) / e.Intervals
		e.Seconds += (float32(s.seconds/s.pods) - e.Seconds) / e.Intervals
	}
}

// startup returns the startup of a pod with the moments. It is none unless the excess is beyond the noise of usage: one standard
// deviation of its mean.
func (e *startupEntry) startup(m *Moments, interval time.Duration) Startup {
	if e.Intervals == 0 {
		return Startup{}
	}
	excess := float64(e.First) - m.Mean
	if excess <= m.StdDev()/math.Sqrt(float64(e.Intervals)) {
		return Startup{}
	}
	// A shorter and higher startup looks the same. Nothing beyond the observed usage counts: it would refuse pods.
	seconds := float64(e.Seconds)
	if lasts := (float64(e.Next) - m.Mean) / excess; lasts > lastingShare {
		seconds += min(lasts, 1) * interval.Seconds()
	}
	return Startup{Excess: excess, Length: time.Duration(seconds * float64(time.Second))}
}

// learnStartups adds the startups of earlier statistics and of the tally. It keeps recent ones. It drops others without an excess.
func (s *Statistics) learnStartups(earlier *Statistics, t *Tally, interval time.Duration, decay float64) {
	at := uint32(max(s.at.Unix(), 0))
	s.interval, s.startups = interval, make(map[uint64]startupEntry, len(earlier.startups))
	for hash, e := range earlier.startups {
		e.Intervals *= float32(decay)
		s.startups[hash] = e
	}
	for workload, of := range t.workloads {
		if of.starts == (starts{}) || t.discarded[load.CPU] || t.momentary {
			continue
		}
		hash := s.hash(workload)
		e := s.startups[hash]
		e.add(&of.starts, at)
		s.startups[hash] = e
	}
	maps.DeleteFunc(s.startups, func(hash uint64, e startupEntry) bool {
		of, ok := s.workloads[hash]
		m := of.moments(load.CPU)
		return !ok || e.Seen+uint32(startupMemory.Seconds()) < at && e.startup(&m, interval) == Startup{}
	})
}
