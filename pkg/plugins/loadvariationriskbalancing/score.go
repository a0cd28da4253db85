package loadvariationriskbalancing

import (
	"math"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Terms are the terms of one node's score.
type Terms struct {
	// Node is the measured and pending usage of the node.
	Node estimate.Estimate
	// Pod is what the pod to place requests.
	Pod podusage.Amounts
	// Margin and Sensitivity are the settings of the formula, ≥ 0.
	Margin, Sensitivity float64
}

// Score falls from 100 to 0 with the higher risk of both resources.
func (t Terms) Score() float64 { return 100 * (1 - max(t.Risk(load.CPU), t.Risk(load.Memory))) }

// List implements explain.Terms.
func (t Terms) List() (terms []explain.Term) {
	for r := range load.ResourceCount {
		for _, term := range explain.Resource(r, &t.Node[r], t.Pod[r], t.Node[r].Allocatable) {
			term.Addend = false // the risk follows from each of them
			terms = append(terms, term)
		}
		terms = append(terms, explain.Term{Name: r.String() + " risk", Value: 100 * t.Risk(r), Unit: "%"})
	}
	return terms
}

// Risk is the risk of one resource with the pod on the node, in [0, 1]. A node without the resource counts as full.
func (t Terms) Risk(r load.Resource) float64 {
	e := &t.Node[r]
	if e.Allocatable <= 0 {
		return risk(1, 0, t.Margin, t.Sensitivity)
	}
	return risk((e.Mean+e.Pending+t.Pod[r])/e.Allocatable, e.StdDev/e.Allocatable, t.Margin, t.Sensitivity)
}

// risk is the mean of mu and margin·sigma^(1/sensitivity), both clamped to [0, 1]. mu is a resource's mean utilization and
// sigma its standard deviation, both fractions of the allocatable. A sensitivity of 0 switches the deviation off.
//
// The formula is that of Trimaran's LoadVariationRiskBalancing (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
func risk(mu, sigma, margin, sensitivity float64) float64 {
	deviation := 0.0
	if sensitivity > 0 {
		deviation = clamp(margin * math.Pow(clamp(sigma), 1/sensitivity))
	}
	return (clamp(mu) + deviation) / 2
}

func clamp(v float64) float64 { return min(max(v, 0), 1) }
