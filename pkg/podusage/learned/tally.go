package learned

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Tally sums up the usage that was observed of pods during one interval. Use NewTally.
type Tally struct {
	workloadLabel string
	workloads     map[Workload]*[load.ResourceCount]sums
	requesting    requesting
	discarded     [load.ResourceCount]bool
}

// sums are over the pods of a workload, in milliCPU or bytes. Each pod counts with the share of the interval that it ran.
type sums struct{ pods, usage, squares float64 }

// NewTally returns an empty tally. WorkloadOf finds the pods' workloads by the label.
func NewTally(workloadLabel string) *Tally {
	return &Tally{workloadLabel: workloadLabel, workloads: map[Workload]*[load.ResourceCount]sums{}}
}

// Add adds a pod's mean usage and request, in milliCPU or bytes. The pod ran for the share of the interval.
// Pods without workload count for the ClusterUsage alone.
func (t *Tally) Add(pod *corev1.Pod, r load.Resource, usage, request, share float64) {
	t.requesting.add(r, usage, request, share)
	workload, ok := WorkloadOf(pod, t.workloadLabel)
	if !ok {
		return
	}
	of, ok := t.workloads[workload]
	if !ok {
		of = &[load.ResourceCount]sums{}
		t.workloads[workload] = of
	}
	s := &of[r]
	s.pods += share
	s.usage += share * usage
	s.squares += share * usage * usage
}

// Discard leaves out a resource that could not be read completely.
func (t *Tally) Discard(r load.Resource) { t.discarded[r] = true }

// observations returns an observation of each workload and resource, for an interval that ends at the given time.
func (t *Tally) observations(at time.Time, interval time.Duration) []Observation {
	all := make([]Observation, 0, len(t.workloads)*int(load.ResourceCount))
	for workload, resources := range t.workloads {
		for r := range load.ResourceCount {
			if s := &resources[r]; s.pods > 0 && !t.discarded[r] {
				all = append(all, Observation{
					Workload: workload, Resource: r, At: at, Span: interval, Pods: s.pods, Sum: s.usage, SumSquares: s.squares,
				})
			}
		}
	}
	return all
}

// WithTally returns the statistics with the tally of an interval added that ends at the given time. s is not changed.
func (s *Statistics) WithTally(t *Tally, at time.Time, interval time.Duration, c Config) *Statistics {
	cluster := s.cluster
	for r := range load.ResourceCount {
		if !t.discarded[r] {
			cluster = cluster.with(&t.requesting, r, at.Sub(s.at), c.History)
		}
	}
	return s.With(t.observations(at, interval), cluster, c)
}

// requesting sums up usage and requests of the pods with requests, in milliCPU or bytes.
type requesting struct{ used, requested [load.ResourceCount]float64 }

// add caps usage at 1.5 times the request, so that pods with tiny requests do not dominate the ratio.
func (q *requesting) add(r load.Resource, usage, request, share float64) {
	const maxRatio = 1.5
	if request > 0 {
		q.used[r] += share * min(usage, maxRatio*request)
		q.requested[r] += share * request
	}
}

// with returns c with the pods of one more interval added, which ends the given time after the previous one.
func (c ClusterUsage) with(q *requesting, r load.Resource, after, history time.Duration) ClusterUsage {
	before := c.requested[r] * weightAt(max(after, 0), history)
	if total := before + q.requested[r]; total > 0 {
		c.UsagePerRequest[r] = (c.UsagePerRequest[r]*before + q.used[r]) / total
		c.requested[r] = total
	}
	return c
}
