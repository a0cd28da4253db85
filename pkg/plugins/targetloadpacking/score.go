package targetloadpacking

import (
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/packing"
)

// Terms are what a node is scored by.
type Terms struct {
	// CPU is what was measured of the node, and what is pending on it.
	CPU estimate.ResourceEstimate
	// PodCPUMillis is what the pod to place will use, in milliCPU.
	PodCPUMillis float64
	// TargetPercent is the target utilization, in percent of capacity, in [1, 99].
	TargetPercent float64
}

// UtilizationPercent is the node's CPU utilization with the pod on it: measured, pending and the pod's, in percent of capacity.
func (t Terms) UtilizationPercent() float64 { return 100 * t.CPU.Utilization(t.PodCPUMillis) }

// Score is the score of the utilization, in [0, 100].
func (t Terms) Score() float64 { return packing.Score(t.UtilizationPercent(), t.TargetPercent) }

// List implements explain.Terms.
func (t Terms) List() []explain.Term {
	return append(explain.Resource(load.CPU, &t.CPU, t.PodCPUMillis, t.CPU.Base),
		explain.Term{Name: "cpu utilization", Value: t.UtilizationPercent(), Unit: "%"},
		explain.Term{Name: "target utilization", Value: t.TargetPercent, Unit: "%"})
}
