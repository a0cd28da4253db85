package lowriskovercommitment

import (
	"math"

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
	// unlimitedAsRequest lets a pod without a limit count with what it requests; otherwise its limit is +Inf.
	unlimitedAsRequest bool
}

var _ estimate.Deriver[nodeTerms] = &estimator{}

// PodResources holds the requests and limits of pods.
type PodResources struct{ Request, Limit podusage.Amounts }

// podResources returns the requests of the pod, and its limits, which are at least the requests.
func (e estimator) podResources(pod *corev1.Pod) PodResources {
	s := PodResources{Request: e.Estimate(pod)}
	for r := range load.ResourceCount {
		s.Limit[r] = max(e.limit(pod, r), s.Request[r])
	}
	return s
}

func (e estimator) limit(pod *corev1.Pod, r load.Resource) float64 {
	if !e.unlimitedAsRequest && math.IsInf(podusage.Limit(pod, r), 1) {
		return math.Inf(1)
	}
	return podusage.SpecLimit(pod, r)
}

// nodeTerms are the terms of a node's risk, independent of the pod to place. They are immutable.
type nodeTerms struct {
	capacity podusage.Amounts
	// pods are the sums over the pods on the node.
	pods PodResources
	// loadRisk is the risk by the measured load, in [0, 1], while that is fresh.
	loadRisk podusage.Amounts
}

// Derive implements estimate.Deriver. A change of load alone does not change the sums.
func (e *estimator) Derive(f estimate.Facts, earlier *nodeTerms) (n nodeTerms, same bool) {
	if f.Unchanged {
		n = *earlier
	} else {
		n.capacity = podusage.AmountsOf(f.Node.Node().Status.Capacity)
		n.pods.Request = podusage.Amounts{
			load.CPU:    float64(f.Node.GetRequested().GetMilliCPU()),
			load.Memory: float64(f.Node.GetRequested().GetMemory()),
		}
		for r := range load.ResourceCount {
			n.pods.Limit[r] = e.sumOfLimits(f.Pods, r)
		}
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

// sumOfLimits sums up the limits of pods, each at least what the pod requests.
func (e estimator) sumOfLimits(pods []fwk.PodInfo, r load.Resource) (sum float64) {
	for _, pod := range pods {
		limit := e.limit(pod.GetPod(), r)
		if math.IsInf(limit, 1) {
			return limit
		}
		sum += max(limit, podusage.Request(pod.GetPod(), r))
	}
	return sum
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
func (e estimator) signature(pod *corev1.Pod) PodResources {
	s := e.podResources(pod)
	for r := range s.Limit {
		if math.IsInf(s.Limit[r], 1) {
			s.Limit[r] = 0
		}
	}
	return s
}
