// Package explain is how plugins show what they judge nodes by.
package explain

import (
	"context"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
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
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is "%" or empty.
	Unit string `json:"unit,omitempty"`
}

// String returns the term with up to two decimals, such as "cpu measured 25%".
func (t Term) String() string {
	return t.Name + " " + strconv.FormatFloat(math.Round(100*t.Value)/100, 'f', -1, 64) + t.Unit
}

// Limit is a limit that a filter compares a figure of the node with.
type Limit struct {
	// Name is what is limited, such as "cpu".
	Name string `json:"name"`
	// Value includes the pod. Rule says which values are rejected, such as "> 80". Both are in Unit.
	Value float64 `json:"value"`
	Rule  string  `json:"rule"`
	Unit  string  `json:"unit,omitempty"`
	// Exceeded reports whether the limit rules the node out.
	Exceeded bool `json:"-"`
	// Terms add up to Value; nil if it is not a sum.
	Terms []Term `json:"terms,omitempty"`
}

// Limiter is Terms of a plugin that filters by limits.
type Limiter interface {
	// Limits returns the limits that hold for the node.
	Limits() []Limit
}

// PodUsage is the usage of one resource that a plugin expects of the incoming pod.
type PodUsage struct {
	// Plugin is set by the caller of ExplainPodUsage.
	Plugin   string `json:"plugin"`
	Resource string `json:"resource"`
	// Amount and the amounts of parts are in Unit: milliCPU or bytes.
	Amount float64 `json:"amount"`
	Unit   string  `json:"unit"`
	podusage.Explanation
}

// NewPodUsage returns the expected usage of a resource.
func NewPodUsage(r load.Resource, amount float64, x podusage.Explanation) PodUsage {
	unit := "bytes"
	if r == load.CPU {
		unit = "milliCPU"
	}
	for _, parts := range [][]podusage.Part{x.Parts, x.Peak} {
		for i := range parts {
			parts[i].Basis = text.Excerpt(parts[i].Basis) // it may name an owner, whose name is any text
		}
	}
	return PodUsage{Resource: r.String(), Amount: amount, Unit: unit, Explanation: x}
}

// UsageExplainer is a plugin that judges nodes by what the pod to place is expected to use.
type UsageExplainer interface {
	Explainer
	// ExplainPodUsage returns the usages that the plugin reckons with in the scheduling cycle.
	ExplainPodUsage(state fwk.CycleState, pod *corev1.Pod) []PodUsage
}

// Explainer is a plugin that shows what it judges nodes by.
type Explainer interface {
	minor.Plugin
	// Explain returns the node's terms in the scheduling cycle, which Filter and Score judge by. Where scores follow from all
	// candidates, call it after NormalizeScore.
	Explain(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) Terms
}

// LoadReader is a plugin that judges nodes by their load.
type LoadReader interface {
	minor.Plugin
	// Reader reads the load that the plugin judges nodes by.
	Reader() *reading.Reader
	// LoadLine returns how the node stands against its load line in the scheduling cycle, before any pod is placed.
	LoadLine(state fwk.CycleState, node fwk.NodeInfo) LoadLine
}

// LoadLine is how a node stands against its load line. All arrays are by load.Resource.
type LoadLine struct {
	// Node is what was measured of the node, and what is pending on it.
	Node estimate.Estimate
	// Utilization is what is compared with the line: what the node carries, with deviation or predicted peak where the plugin reckons
	// with one. It is a fraction of the node's Base.
	Utilization [load.ResourceCount]float64
	// Percent is the line; 0 where none holds.
	Percent [load.ResourceCount]float64
	// Annotated reports whether the node's own annotation states the line.
	Annotated [load.ResourceCount]bool
	// Above reports whether the plugin takes the node to be above the line.
	Above [load.ResourceCount]bool
}

// Resource returns the terms of one resource in percent of base, in milliCPU or bytes: what the node carries, its deviation
// where that is measured, what is pending, and what the pod to place will use. What the node carries is called "measured", or
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
	if e.State == load.Fresh && e.StdDev >= 0 { // a deviation that is not known is NaN
		terms = append(terms, percent("deviation", e.StdDev))
	}
	return append(terms, percent("pending", e.Pending), percent("of the pod", podUsage))
}
