// Package explain is how plugins show what they judge nodes by.
package explain

import (
	"context"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Terms are what a plugin judges one node by. Each plugin has a type of its own.
type Terms interface {
	// Score is what the terms sum up to, before it is rounded and normalized.
	Score() float64
	// List returns the terms in the order of the formula.
	List() []Term
}

// Term is one term as an operator reads it.
type Term struct {
	// Name is unique among the terms of a node and plugin, such as "cpu measured".
	Name  string
	Value float64
	// Unit is "%" or empty.
	Unit string
}

// String returns the term with up to two decimals, such as "cpu measured 25%".
func (t Term) String() string {
	return t.Name + " " + strconv.FormatFloat(math.Round(100*t.Value)/100, 'f', -1, 64) + t.Unit
}

// Explainer is a plugin that shows what it judges nodes by.
type Explainer interface {
	fwk.Plugin
	// Explain returns the node's terms in the scheduling cycle, which Filter and Score judge by. Where scores follow from all
	// candidates, call it after NormalizeScore.
	Explain(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) Terms
}

// Resource returns the terms of one resource in percent of base, in milliCPU or bytes: what the node carries, its deviation
// where that is known, what is pending, and what the pod to place will use. What the node carries is called "measured", or
// "requested" where its load is not known.
func Resource(r load.Resource, e *estimate.ResourceEstimate, podUsage, base float64) []Term {
	if base <= 0 {
		return nil
	}
	percent := func(name string, amount float64) Term {
		return Term{Name: r.String() + " " + name, Value: 100 * amount / base, Unit: "%"}
	}
	carried := "measured"
	if e.State != load.Fresh {
		carried = "requested"
	}
	terms := []Term{percent(carried, e.Mean)}
	if e.StdDev > 0 {
		terms = append(terms, percent("deviation", e.StdDev))
	}
	return append(terms, percent("pending", e.Pending), percent("of the pod", podUsage))
}
