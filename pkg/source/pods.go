package source

import (
	"context"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// PodSource measures what pods use. An implementation need not be safe for concurrent use.
type PodSource interface {
	// Name is what the source is called in logs and metrics, such as "Prometheus".
	Name() string
	// FetchPods passes what pods use to visit, in a number of queries that does not grow with the pods. It accepts the response
	// for about so many pods. It returns, by load.Resource, why a resource could not be read: what was passed of such a resource
	// must not be used.
	FetchPods(ctx context.Context, pods int, visit func(*PodUsage)) (failed [load.ResourceCount]error)
}

// PodUsage is what a pod uses of one resource.
type PodUsage struct {
	Namespace, Pod string
	Resource       load.Resource
	// Usage is in milliCPU or bytes, as measured: the reader checks it.
	Usage float64
	// Window is the time that what was used in it was divided by, whether the pod ran for all of it or not; 0 for a usage
	// while the pod ran.
	Window time.Duration
}

// WorkloadHistory is a PodSource that also knows what pods used that are gone.
type WorkloadHistory interface {
	PodSource
	// FetchHistory passes to visit what the pods of each workload used in the period. Of more than maxWorkloads it passes those
	// with the most. It returns why the history, or a part of it, could not be read: what was passed must then not be used.
	FetchHistory(ctx context.Context, p Period, maxWorkloads int, visit func(*WorkloadUsage)) error
}

// Period is the time of so much Length before End.
type Period struct {
	End    time.Time
	Length time.Duration
}

// WorkloadUsage is what the pods of one workload used of one resource, on average over a Period.
type WorkloadUsage struct {
	// Workload is the name of the controlling owner as far as the source knows it, without the hash of a ReplicaSet and the time
	// of a CronJob's Job.
	Namespace, Workload string
	Resource            load.Resource
	// Pods is the number of pods, Sum the sum of their usages in milliCPU or bytes, SumSquares that of the usages' squares.
	Pods, Sum, SumSquares float64
}
