// Package peak predicts the peaks of nodes, for the plugins that judge nodes by them.
package peak

import (
	"cmp"
	"fmt"
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Resource is what the peak of one resource of a node is predicted from. All amounts are in milliCPU or bytes.
type Resource struct {
	// Node is what was measured of the node, and what is pending on it.
	Node *estimate.ResourceEstimate
	// Pods is what the pods on the node are predicted to use.
	Pods *estimate.PodSums
	// Pod is what the pod to place is predicted to use on the node.
	Pod learned.Usage
	// Deviations multiplies the deviation of all pods but the one of the largest excess. ≥ 0.
	Deviations float64
	// HasStatistics reports whether any statistics of workloads are known.
	HasStatistics bool
}

// Of returns what the peaks of a node are predicted from, by load.Resource, in the cycle of the view, with a pod of the given usages
// on it.
func Of(view *estimate.View, node fwk.NodeInfo, pod *learned.Usages, deviations float64) (resources [load.ResourceCount]Resource) {
	e, sums := view.WithPodSums(node)
	hasStatistics := view.HasStatistics()
	for r := range resources {
		resources[r] = With(e[r], &sums[r], &pod[r], deviations)
		resources[r].HasStatistics = hasStatistics
	}
	return resources
}

// With returns what the peak of one resource of a node is predicted from, with a pod of the given usage on it.
func With(node *estimate.ResourceEstimate, pods *estimate.PodSums, pod *learned.Usage, deviations float64) Resource {
	return Resource{Node: node, Pods: pods, Pod: pod.Within(node.Allocatable), Deviations: deviations}
}

// Mean is the mean that is expected with the pod on the node: what was measured and is pending, or what statistics tell of the
// pods, whichever is more; plus the mean of the pod. Without fresh load it is the sum of the means of all pods, or without any
// statistics what they request.
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
	return r.Pods.Largest == estimate.NoPod || r.Pod.Excess() > r.Pods.Excess
}

// Excess is by how much the peak of one pod passes its mean, at most.
func (r *Resource) Excess() float64 { return max(r.Pod.Excess(), r.Pods.Excess) }

// Deviation is the standard deviation of what all pods use together, but for the one of the largest excess. Pods are taken as
// independent of one another.
func (r *Resource) Deviation() float64 {
	if r.PodIsLargest() {
		return math.Sqrt(r.Pods.RestVariance + r.Pods.LargestVariance)
	}
	return math.Sqrt(r.Pods.RestVariance + r.Pod.Variance)
}

// Peak is the predicted peak as a fraction of the node's capacity: the mean, the largest excess of one pod, and so many deviations
// of all others. It may be above 1. A node without capacity has no room: its peak is 1.
//
// The formula follows the predictors of N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment
// in datacenters", EuroSys 2021.
func (r *Resource) Peak() float64 {
	if r.Node.Base <= 0 {
		return 1
	}
	return (r.Mean() + r.Excess() + r.Deviations*r.Deviation()) / r.Node.Base
}

// LargestOn returns the name of the pod of the largest excess, as namespace/name; empty for the pod to place.
func (r *Resource) LargestOn(node fwk.NodeInfo) string {
	pods := node.GetPods()
	if r.PodIsLargest() || int(r.Pods.Largest) >= len(pods) {
		return ""
	}
	pod := pods[r.Pods.Largest].GetPod()
	return pod.Namespace + "/" + pod.Name
}

// List returns the terms of the peak, in percent of the node's capacity. largest names the pod of the largest excess; empty for the
// pod to place.
func (r *Resource) List(of load.Resource, largest string) []explain.Term {
	base := r.Node.Base
	if base <= 0 {
		return nil
	}
	percent := func(name string, amount float64) explain.Term {
		return explain.Term{Name: of.String() + " " + name, Value: 100 * amount / base, Unit: "%"}
	}
	terms := explain.Resource(of, r.Node, r.Pod.Mean, base)
	if r.HasStatistics {
		learned := r.Pods.Mean
		if r.Node.State == load.Fresh {
			learned = r.Pods.Learned
		}
		terms = append(terms, percent("of the pods by statistics", learned))
	}
	for _, t := range r.Summands(largest) {
		t.Name = of.String() + " " + t.Name
		terms = append(terms, t)
	}
	return append(terms, explain.Term{Name: of.String() + " predicted peak", Value: 100 * r.Peak(), Unit: "%"})
}

// Summands returns the terms that add up to the peak, in percent of the node's capacity, which must not be 0. largest is as in List.
func (r *Resource) Summands(largest string) []explain.Term {
	percent := func(name string, amount float64) explain.Term {
		return explain.Term{Name: name, Value: 100 * amount / r.Node.Base, Unit: "%"}
	}
	deviation := "deviation of the other pods"
	if r.Deviations != 1 {
		deviation = fmt.Sprintf("%g × %s", r.Deviations, deviation)
	}
	return []explain.Term{
		percent("mean", r.Mean()),
		percent("largest excess ("+cmp.Or(largest, "this pod")+")", r.Excess()),
		percent(deviation, r.Deviations*r.Deviation()),
	}
}
