package peak

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Resource holds the terms of the predicted peak of one resource of a node. All amounts are in milliCPU or bytes.
type Resource struct {
	// Node is the measured and pending usage of the node.
	Node *estimate.ResourceEstimate
	// Pods are sums over the pods on the node.
	Pods *PodSums
	// Pod is the predicted usage of the pod to place, capped at the node's allocatable. Its P95 excludes Startup.
	Pod learned.Usage
	// Deviations is the z-factor for the remaining pods. ≥ 0.
	Deviations float64
	// HasStatistics reports whether statistics of at least one workload are known.
	HasStatistics bool
}

// With returns the terms of a node's peak with a pod of the given usage on it.
func With(node *estimate.ResourceEstimate, pods *PodSums, pod *learned.Usage, deviations float64) (r Resource) {
	r.set(node, pods, pod, deviations)
	return r
}

// set is With in place: Filter and Score do it for each node, and a copy takes as long.
func (r *Resource) set(node *estimate.ResourceEstimate, pods *PodSums, pod *learned.Usage, deviations float64) {
	r.Node, r.Pods, r.Deviations = node, pods, deviations
	r.Pod = pod.Within(node.Allocatable)
	if u := &r.Pod; u.Startup > 0 && node.State == load.Fresh {
		u.P95 = max(u.P95-u.Startup, u.Mean)
	}
}

// Mean is the expected mean with the pod: the larger of load and learned usage, plus the pod's mean. Without fresh load it is the
// sum of means. Without statistics it is the load, or the sum of requests, of all pods.
func (r *Resource) Mean() float64 {
	switch {
	case r.Node.State == load.Fresh:
		return max(r.Node.Mean+r.Node.Pending, r.Pods.Learned) + r.Pod.Mean
	case r.HasStatistics:
		return r.Pods.Mean + r.Pod.Mean
	}
	return r.Node.Mean + r.Pod.Mean
}

// PodIsLargest reports whether the excess of the pod to place is the largest.
func (r *Resource) PodIsLargest() bool {
	return r.Pods.Largest == NoPod || r.Pod.Excess() > r.podsExcess()
}

// Excess is the largest excess of one pod's peak over its mean.
func (r *Resource) Excess() float64 { return max(r.Pod.Excess(), r.podsExcess()) }

// podsExcess is the largest excess of a pod on the node. Where startups do not count, the peaks include them.
func (r *Resource) podsExcess() float64 {
	if r.Node.State == load.Fresh {
		return r.Pods.Excess
	}
	return r.Pods.Excess + float64(r.Pods.ExcessOfStartups)
}

// Deviation is the standard deviation of the summed usage of all pods except the largest. Pods are assumed to be independent.
func (r *Resource) Deviation() float64 {
	if r.PodIsLargest() {
		return math.Sqrt(r.Pods.RestVariance + r.Pods.LargestVariance)
	}
	return math.Sqrt(r.Pods.RestVariance + r.Pod.Variance)
}

// Startup is the usage beyond the mean of all pods that start, the pod to place included. Without fresh load it is 0.
func (r *Resource) Startup() float64 {
	if r.Node.State != load.Fresh {
		return 0
	}
	return r.Pods.Startup + r.Pod.Startup
}

// Peak is the predicted peak as a fraction of the node's capacity: mean, largest excess, Deviations · Deviation and Startup.
// It may be above 1. A node without capacity has no room: its peak is 1.
//
// The formula follows N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters".
// EuroSys 2021.
func (r *Resource) Peak() float64 {
	if r.Node.Base <= 0 {
		return 1
	}
	return (r.Mean() + r.Excess() + r.Deviations*r.Deviation() + r.Startup()) / r.Node.Base
}

// LargestOn returns the namespace/name of the pod with the largest excess; empty for the pod to place.
func (r *Resource) LargestOn(node fwk.NodeInfo) string {
	pods := node.GetPods()
	if r.PodIsLargest() || int(r.Pods.Largest) >= len(pods) {
		return ""
	}
	pod := pods[r.Pods.Largest].GetPod()
	return pod.Namespace + "/" + pod.Name
}
