package explain

import (
	"cmp"
	"fmt"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Peak returns the terms of a predicted peak, in percent of the node's capacity. largest names the pod with the largest excess;
// empty for the pod to place.
func Peak(of load.Resource, r *peak.Resource, largest string) []Term {
	base := r.Node.Base
	if base <= 0 {
		return nil
	}
	percent := func(name string, amount float64) Term {
		return Term{Name: of.String() + " " + name, Value: 100 * amount / base, Unit: "%"}
	}
	terms := Resource(of, r.Node, r.Pod.Mean, base)
	if r.HasStatistics {
		learned := r.Pods.Mean
		if r.Node.State == load.Fresh {
			learned = r.Pods.Learned
		}
		terms = append(terms, percent("of the pods by statistics", learned))
	}
	for _, t := range PeakSummands(r, largest) {
		t.Name = of.String() + " " + t.Name
		terms = append(terms, t)
	}
	return append(terms, Term{Name: of.String() + " predicted peak", Value: 100 * r.Peak(), Unit: "%"})
}

// PeakSummands returns the terms whose sum is the peak, in percent of the node's capacity; nil without capacity.
func PeakSummands(r *peak.Resource, largest string) []Term {
	if r.Node.Base <= 0 {
		return nil
	}
	percent := func(name string, amount float64) Term {
		return Term{Name: name, Value: 100 * amount / r.Node.Base, Unit: "%"}
	}
	deviation := "deviation of the other pods"
	if r.Deviations != 1 {
		deviation = fmt.Sprintf("%g × %s", r.Deviations, deviation)
	}
	terms := []Term{
		percent("mean", r.Mean()),
		percent("largest excess ("+cmp.Or(largest, "this pod")+")", r.Excess()),
		percent(deviation, r.Deviations*r.Deviation()),
	}
	if startup := r.Startup(); startup > 0 {
		terms = append(terms, percent("starting pods", startup))
	}
	return terms
}
