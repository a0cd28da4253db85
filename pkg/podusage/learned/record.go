package learned

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Record is Statistics for another process. Statistics keep no names, so a Record has only workloads and pods that exist. Amounts
// are in milliCPU or bytes, by load.Resource.
type Record struct {
	At              time.Time                   `json:"time"`
	IntervalSeconds float64                     `json:"intervalSeconds"`
	UsagePerRequest [load.ResourceCount]float64 `json:"usagePerRequest"`
	Workloads       []WorkloadRecord            `json:"workloads"`
	Pods            map[types.UID]PodRecord     `json:"pods"`
}

// WorkloadRecord is the usage of one workload's pods. Seen is in seconds since 1970.
type WorkloadRecord struct {
	Namespace string                            `json:"namespace"`
	Name      string                            `json:"name"`
	Seen      uint32                            `json:"seen"`
	Usage     [load.ResourceCount]MomentsRecord `json:"usage"`
	// Startup is nil unless pods were observed while they started.
	Startup *startupEntry `json:"startup,omitempty"`
}

// MomentsRecord is the mean and the variance of a pod's usage. Within is the part of the variance over time, and PodSeconds the
// weight.
type MomentsRecord struct {
	PodSeconds float32 `json:"podSeconds"`
	Mean       float32 `json:"mean"`
	Variance   float32 `json:"variance"`
	Within     float32 `json:"within,omitempty"`
}

// PodRecord is the usage of one pod over time: by load.Resource, for how many seconds it counts, its mean, and its variance. There
// may be a hundred thousand, so it has no names.
type PodRecord [load.ResourceCount][3]float32

// Record returns the statistics of the pods and of their workloads; label is as in WorkloadOf.
func (s *Statistics) Record(pods []*corev1.Pod, label string) *Record {
	record := &Record{
		At: s.at, IntervalSeconds: s.interval.Seconds(), UsagePerRequest: s.cluster.UsagePerRequest,
		Workloads: []WorkloadRecord{}, Pods: map[types.UID]PodRecord{},
	}
	if len(s.workloads) == 0 {
		return record // without a seed
	}
	seen := map[Workload]bool{}
	for _, pod := range pods {
		if e, ok := s.pods[s.podHash(pod.UID)]; ok {
			var of PodRecord
			for r, m := range e.resources {
				of[r] = [3]float32{m.seconds, m.mean, m.variance}
			}
			record.Pods[pod.UID] = of
		}
		w, ok := WorkloadOf(pod, label)
		if !ok || seen[w] {
			continue
		}
		seen[w] = true
		hash := s.hash(w)
		e, ok := s.workloads[hash]
		if !ok {
			continue
		}
		of := WorkloadRecord{Namespace: w.Namespace, Name: w.Name, Seen: e.seen, Usage: e.resources}
		if starts, ok := s.startups[hash]; ok {
			of.Startup = &starts
		}
		record.Workloads = append(record.Workloads, of)
	}
	return record
}

// OfRecord returns the statistics that the record is of. Predictions by both are the same for pods of the record.
func OfRecord(record *Record) *Statistics {
	s := (&Statistics{}).seeded()
	s.at, s.interval = record.At, time.Duration(record.IntervalSeconds*float64(time.Second))
	s.cluster.UsagePerRequest = record.UsagePerRequest
	s.startups, s.pods = map[uint64]startupEntry{}, make(map[uint64]podEntry, len(record.Pods))
	for i := range record.Workloads {
		of := &record.Workloads[i]
		w := Workload{of.Namespace, of.Name}
		hash := s.hash(w)
		s.workloads[hash] = entry{seen: of.Seen, rank: rank(w), resources: of.Usage}
		if of.Startup != nil {
			s.startups[hash] = *of.Startup
		}
	}
	for uid, of := range record.Pods {
		var e podEntry
		for r, m := range of {
			into := &e.resources[r]
			into.seconds, into.mean, into.variance = m[0], m[1], m[2]
		}
		s.pods[s.podHash(uid)] = e
	}
	return s
}
