// Package estimate says what nodes carry at the moment of a decision: what was measured, plus what the measurement does not
// cover of the pods that the scheduler knows to be on the node. It does no I/O and starts no goroutine.
package estimate

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// ResourceEstimate is what one resource of a node carries right now. All amounts are in milliCPU or bytes.
type ResourceEstimate struct {
	// Mean is the measured mean, or the sum of the pods' requests where State is not Fresh.
	Mean float64
	// StdDev is the measured standard deviation; 0 where it was not measured, or State is not Fresh.
	StdDev float64
	// Pending is the expected usage, on top of Mean, of pods on the node that the measurement does not fully cover yet; 0
	// where State is not Fresh, for requests count from the moment a pod is placed.
	Pending float64
	// Base is what a utilization is a fraction of: the node's capacity, which sources measure against, or its allocatable
	// where State is not Fresh, which requests are made against.
	Base float64
	// Allocatable is what the node offers to pods.
	Allocatable float64
	State       load.State
}

// Utilization is the fraction of Base that is used once a pod that uses podUsage (in milliCPU or bytes) runs there too. A node
// without capacity has no room: its utilization is 1.
func (r *ResourceEstimate) Utilization(podUsage float64) float64 {
	if r.Base <= 0 {
		return 1
	}
	return (r.Mean + r.Pending + podUsage) / r.Base
}

// Estimate is what a node carries right now, by load.Resource.
type Estimate [load.ResourceCount]ResourceEstimate

// Freshest is the State of the resource known best.
func (e *Estimate) Freshest() load.State { return max(e[load.CPU].State, e[load.Memory].State) }

// Stalest is the State of the resource known worst.
func (e *Estimate) Stalest() load.State { return min(e[load.CPU].State, e[load.Memory].State) }

// byRequests estimates a resource by the requests of the node's pods, with the scheduler's non-zero minimum for each, over
// the allocatable.
func byRequests(node fwk.NodeInfo, r load.Resource, state load.State) ResourceEstimate {
	allocatable := amountOf(node.GetAllocatable(), r)
	return ResourceEstimate{Mean: amountOf(node.GetNonZeroRequested(), r), Base: allocatable, Allocatable: allocatable, State: state}
}

// Allocatable returns the amounts that the node offers to pods.
func Allocatable(node fwk.NodeInfo) (a podusage.Amounts) {
	for r := range load.ResourceCount {
		a[r] = amountOf(node.GetAllocatable(), r)
	}
	return a
}

// amountOf returns an amount of the scheduler's, in milliCPU or bytes. The scheduler's own sums wrap around where a quantity is
// absurd: what is negative counts zero.
func amountOf(amounts fwk.Resource, r load.Resource) float64 {
	if r == load.CPU {
		return max(float64(amounts.GetMilliCPU()), 0)
	}
	return max(float64(amounts.GetMemory()), 0)
}
