// Package estimate combines measured load with the pods in the scheduler's cache into the load of nodes right now. It does no I/O
// and starts no goroutine.
package estimate

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// ResourceEstimate is the load of one resource of a node right now. All amounts are in milliCPU or bytes.
type ResourceEstimate struct {
	// Mean is the measured mean, or the sum of the pods' requests where State is not Fresh.
	Mean float64
	// StdDev is the measured standard deviation; 0 where it was not measured, or State is not Fresh.
	StdDev float64
	// Pending is the usage, on top of Mean, that the measurement does not cover yet. It is 0 where State is not Fresh: requests
	// count at once.
	Pending float64
	// Base is the node's capacity, which sources measure against. Where State is not Fresh, it is the node's allocatable.
	Base        float64
	Allocatable float64
	State       load.State
}

// Utilization is the used fraction of Base with a pod of the given usage, in milliCPU or bytes. A node without capacity has no
// room: its utilization is 1.
func (r *ResourceEstimate) Utilization(podUsage float64) float64 {
	if r.Base <= 0 {
		return 1
	}
	return (r.Mean + r.Pending + podUsage) / r.Base
}

// Estimate is the load of a node right now, by load.Resource.
type Estimate [load.ResourceCount]ResourceEstimate

// byRequests estimates a resource by the non-zero requests of the node's pods over the allocatable.
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

// amountOf returns an amount in milliCPU or bytes. The scheduler's sums overflow for absurd quantities: negative ones count zero.
func amountOf(amounts fwk.Resource, r load.Resource) float64 {
	if r == load.CPU {
		return max(float64(amounts.GetMilliCPU()), 0)
	}
	return max(float64(amounts.GetMemory()), 0)
}
