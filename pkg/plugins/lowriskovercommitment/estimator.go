package lowriskovercommitment

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// estimator estimates pods by their requests, and derives the nodeTerms of each node.
type estimator struct {
	podusage.ByRequests
	smoothingWindowSize float64
	// window is the span that the startup of pods is counted in.
	window time.Duration
	// unlimitedAsRequest counts a pod without a limit with its request; otherwise podusage.ClaimOf bounds it.
	unlimitedAsRequest bool
}

var _ estimate.Deriver[nodeTerms] = &estimator{}

// PodResources holds the requests and limits of pods.
type PodResources struct{ Request, Limit podusage.Amounts }

// podResources returns the requests of the pod to place, and its limits, which are at least the requests.
func (e *estimator) podResources(pod *corev1.Pod) PodResources {
	s := PodResources{Request: e.Estimate(pod)}
	for r := range load.ResourceCount {
		s.Limit[r] = max(e.limit(pod, r), s.Request[r])
	}
	return s
}

// limit returns the pod's limit. An unlimited one is +Inf, which podusage.ClaimOf bounds, unless it counts with its request.
func (e *estimator) limit(pod *corev1.Pod, r load.Resource) float64 {
	if !e.unlimitedAsRequest {
		if limit := podusage.Limit(pod, r); math.IsInf(limit, 1) {
			return limit
		}
	}
	return podusage.SpecLimit(pod, r)
}

// nodeTerms are the terms of a node's risk, independent of the pod to place. They are immutable.
type nodeTerms struct {
	capacity podusage.Amounts
	// pods are the sums over the pods on the node: see podusage.ClaimOf.
	pods PodResources
	// pods holds between from and until, in nanoseconds since 1970.
	from, until int64
	// loadRisk is the risk by the measured load, in [0, 1], while that is fresh.
	loadRisk podusage.Amounts
}

// Derive implements estimate.Deriver. A change of load alone does not change the sums, until the startup of a pod ends.
func (e *estimator) Derive(f estimate.Facts, earlier *nodeTerms) (n nodeTerms, same bool) {
	moment := f.Measured.NewestEnd()
	if f.Unchanged && earlier.from <= moment && moment < earlier.until {
		n = *earlier
	} else {
		n.capacity = podusage.AmountsOf(f.Node.Node().Status.Capacity)
		e.sum(&n, f.Pods, estimate.Allocatable(f.Node), moment)
	}
	for r := range load.ResourceCount {
		if c := n.capacity[r]; c > 0 {
			resource := &f.Fresh[r]
			n.loadRisk[r] = loadRisk(n.pods.Request[r]/c, n.pods.Limit[r]/c, (resource.Mean+resource.Pending)/c, resource.StdDev/c,
				e.smoothingWindowSize)
		}
	}
	return n, false
}

// sum sums up the claims of the pods at the given moment, in nanoseconds since 1970.
func (e *estimator) sum(n *nodeTerms, pods []fwk.PodInfo, allocatable podusage.Amounts, moment int64) {
	n.pods, n.from, n.until = PodResources{}, moment, math.MaxInt64
	for _, info := range pods {
		pod := podusage.WithoutInfeasibleResize(info.GetPod())
		starting, starts := podusage.StartingPod(pod)
		if starts && !estimate.Runs(pod) {
			// A pod that never starts must not claim more than its request for long.
			if until, ok := estimate.StartupUntil(pod, e.window); ok && moment >= until {
				starts = false
			} else if ok {
				n.until = min(n.until, until)
			}
		}
		requested := requestsOf(info)
		if pod != info.GetPod() { // before Kubernetes 1.35, the scheduler counts the resize
			requested = podusage.ByRequests{}.Estimate(pod)
		}
		for r := range load.ResourceCount {
			limit := 0.0
			if starts {
				limit = e.limit(starting, r)
			}
			claim := podusage.ClaimOf(requested[r], limit, allocatable[r])
			n.pods.Request[r] += claim.Request
			n.pods.Limit[r] += claim.Limit
		}
	}
}

// requestsOf returns the pod's requests as the scheduler counts them. Its sums over pods may overflow; those of floats do not.
func requestsOf(info fwk.PodInfo) podusage.Amounts {
	requested := info.CalculateResource().Resource
	return podusage.Amounts{
		load.CPU: max(float64(requested.GetMilliCPU()), 0), load.Memory: max(float64(requested.GetMemory()), 0),
	}
}

// isBestEffort reports whether the pod has no request and no limit of a scored resource.
func isBestEffort(pod *corev1.Pod) bool {
	for r := range load.ResourceCount {
		if podusage.Request(pod, r) > 0 || podusage.SpecLimit(pod, r) > 0 {
			return false
		}
	}
	return true
}

// signature returns the fields that determine the scores of a pod. JSON has no +Inf: an unlimited resource has the limit 0.
func (e *estimator) signature(pod *corev1.Pod) PodResources {
	s := e.podResources(pod)
	for r := range s.Limit {
		if math.IsInf(s.Limit[r], 1) {
			s.Limit[r] = 0
		}
	}
	return s
}
