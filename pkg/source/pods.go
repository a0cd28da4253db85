package source

import (
	"context"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// PodSource measures the usage of pods. An implementation need not be safe for concurrent use.
type PodSource interface {
	// Name is the name in logs and metrics, such as "Prometheus".
	Name() string
	// FetchPods calls visit with the usage of pods, with a number of queries that does not grow with the pods. pods is their number,
	// which bounds the responses. It returns errors by resource: the usage of a failed resource must not be used.
	FetchPods(ctx context.Context, pods int, visit func(*PodUsage)) (failed [load.ResourceCount]error)
}

// PodUsage is a pod's usage of one resource.
type PodUsage struct {
	Namespace, Pod string
	Resource       load.Resource
	// Usage is in milliCPU or bytes. The reader checks it.
	Usage float64
	// Window is the time over which usage is averaged, even if the pod ran for a part of it. It is 0 for a momentary usage.
	Window time.Duration
}

// WhileRunning returns the mean usage over the part of Window in which the pod ran. It has run for running.
func (u *PodUsage) WhileRunning(running time.Duration) float64 {
	if running > 0 && running < u.Window {
		return u.Usage * float64(u.Window) / float64(running)
	}
	return u.Usage
}

// WorkloadHistory is a PodSource that also knows the usage of deleted pods.
type WorkloadHistory interface {
	PodSource
	// FetchHistory calls visit with the usage of each workload's pods in the period. If there are more than maxWorkloads, it does so
	// for those with the most usage of the resource.
	// After an error, these usages must not be used.
	FetchHistory(ctx context.Context, p Period, maxWorkloads int, visit func(*WorkloadUsage)) error
}

// BoundedPods is a PodSource that leaves out namespaces with too many series.
type BoundedPods interface {
	PodSource
	// LeftOut names the namespaces that the last FetchPods left out; empty if it left out none.
	LeftOut() string
}

// CheckedPods is a PodSource that leaves out impossible numbers itself.
type CheckedPods interface {
	PodSource
	// TakeRejected counts the numbers that were left out since the last call.
	TakeRejected() Rejected
}

// Period is the Length of time before End. A source that looks at moments does so at multiples of Step since 1970. So periods that
// follow each other miss no look and share none.
type Period struct {
	End          time.Time
	Length, Step time.Duration
}

// WorkloadUsage is the usage of one resource by a workload's pods, on average over a Period.
type WorkloadUsage struct {
	// Workload is the controlling owner's name, without a ReplicaSet's hash or the time of a CronJob's Job.
	Namespace, Workload string
	Resource            load.Resource
	// Pods counts the pods, Sum adds their usages in milliCPU or bytes, SumSquares the squares.
	Pods, Sum, SumSquares float64
}
