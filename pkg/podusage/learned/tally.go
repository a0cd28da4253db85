package learned

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Tally sums up the usage that was observed of pods during one interval. Use NewTally.
type Tally struct {
	workloadLabel string
	workloads     map[Workload]*workloadSums
	pods          []podObservation
	requesting    map[string]*requesting // by namespace
	capacity      podusage.Amounts
	discarded     [load.ResourceCount]bool
	momentary     bool
}

type workloadSums struct {
	resources [load.ResourceCount]sums
	starts    starts
}

// sums are over the pods of a workload, in milliCPU or bytes. Each pod counts with the share of the interval that it ran.
type sums struct{ pods, usage, squares, within float64 }

// NewTally returns an empty tally. WorkloadOf finds the pods' workloads by the label. capacity is the sum of all nodes'
// allocatable, which bounds the weight of a namespace in the ClusterUsage. A capacity of 0 sets no bound.
func NewTally(workloadLabel string, capacity podusage.Amounts) *Tally {
	return &Tally{
		workloadLabel: workloadLabel, capacity: capacity, workloads: map[Workload]*workloadSums{}, requesting: map[string]*requesting{},
	}
}

// Add adds a pod's mean usage and request, in milliCPU or bytes. The pod ran for the share of the interval.
// Pods without workload count for the ClusterUsage alone.
func (t *Tally) Add(pod *corev1.Pod, r load.Resource, usage, request, share float64) {
	if request > 0 {
		of := t.requesting[pod.Namespace]
		if of == nil {
			of = &requesting{}
			t.requesting[pod.Namespace] = of
		}
		of.add(r, usage, request, share)
	}
	workload, ok := WorkloadOf(pod, t.workloadLabel)
	if !ok {
		return
	}
	of, ok := t.workloads[workload]
	if !ok {
		of = &workloadSums{}
		t.workloads[workload] = of
	}
	s := &of.resources[r]
	s.pods += share
	s.usage += share * usage
	s.squares += share * usage * usage
	t.pods = append(t.pods, podObservation{uid: pod.UID, resource: r, usage: usage, share: share, sums: s, starts: &of.starts})
}

// Momentary declares that usages cover a few seconds, not the pod's whole run in the interval. Such usages teach no startup usage.
func (t *Tally) Momentary() { t.momentary = true }

// Discard leaves out a resource that could not be read completely.
func (t *Tally) Discard(r load.Resource) { t.discarded[r] = true }

func (t *Tally) observations(at time.Time, interval time.Duration) []Observation {
	all := make([]Observation, 0, len(t.workloads)*int(load.ResourceCount))
	for workload, of := range t.workloads {
		for r := range load.ResourceCount {
			if s := &of.resources[r]; s.pods > 0 && !t.discarded[r] {
				all = append(all, Observation{
					Workload: workload, Resource: r, At: at, Span: interval, Pods: s.pods, Sum: s.usage, SumSquares: s.squares, Within: s.within,
				})
			}
		}
	}
	return all
}

// WithTally returns the statistics with the tally of an interval that ends at the given time. s does not
// change, but the sums of t do: call WithTally once for each tally.
func (s *Statistics) WithTally(t *Tally, at time.Time, interval time.Duration, c Config) *Statistics {
	s = s.seeded()
	cluster := s.cluster.until(at, c.History)
	for r := range load.ResourceCount {
		if used, requested := t.requests(r); !t.discarded[r] {
			cluster.add(r, used, requested)
		}
	}
	pods := s.withPods(t, at, interval, c.History) // completes the sums that observations reads
	next := s.With(t.observations(at, interval), cluster, c)
	next.pods = pods
	next.learnStartups(s, t, interval, weightAt(max(at.Sub(s.at), 0), c.History))
	return next
}

// requesting sums up usage and requests of a namespace's pods with requests, in milliCPU or bytes.
type requesting struct{ used, requested [load.ResourceCount]float64 }

// maxUsageRatio caps a pod's usage over its request, so that pods with tiny requests do not dominate the ratio.
const maxUsageRatio = 1.5

func (q *requesting) add(r load.Resource, usage, request, share float64) {
	q.used[r] += share * min(usage, maxUsageRatio*request)
	q.requested[r] += share * request
}

// requests sums up usage and requests of all namespaces. A namespace weighs at most a quarter of all nodes.
// The bound is a share of the capacity, not of all requests. A share of the requests would cut a large namespace, so that small
// namespaces outweigh it.
func (t *Tally) requests(r load.Resource) (used, requested float64) {
	const maxShare = 0.25
	most := math.Inf(1)
	if t.capacity[r] > 0 {
		most = maxShare * t.capacity[r]
	}
	for _, namespace := range slices.Sorted(maps.Keys(t.requesting)) { // in order: sums of floats depend on it
		of := t.requesting[namespace]
		if of.requested[r] > 0 {
			weight := min(of.requested[r], most)
			used += of.used[r] / of.requested[r] * weight
			requested += weight
		}
	}
	return used, requested
}

func (c ClusterUsage) until(at time.Time, history time.Duration) ClusterUsage {
	if at.After(c.at) {
		for r := range c.observed {
			c.observed[r] *= weightAt(at.Sub(c.at), history)
		}
		c.at = at
	}
	return c
}

func (c *ClusterUsage) add(r load.Resource, used, requested float64) {
	if total := c.observed[r] + requested; total > 0 {
		c.UsagePerRequest[r] = (c.UsagePerRequest[r]*c.observed[r] + used) / total
		c.observed[r] = total
	}
}

const (
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
