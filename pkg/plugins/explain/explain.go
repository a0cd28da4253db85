// Package explain defines how plugins explain their scores and limits.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Terms are the terms of one node's score. Each plugin has its own type.
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

// Limiter is implemented by Terms of plugins that filter by limits.
type Limiter interface {
	// Limits returns the limits that hold for the node.
	Limits() []Limit
}

// ExpectedUsage is the usage of one resource that a plugin expects of the incoming pod.
type ExpectedUsage struct {
	// Plugin is set by the caller of ExplainPodUsage.
	Plugin   string            `json:"plugin"`
	Resource load.Resource     `json:"resource"`
	Amount   resource.Quantity `json:"amount"`
	// Parts add up to Amount, and PeakParts to the highest usage that the plugin predicts.
	Parts     []UsagePart `json:"parts,omitempty"`
	PeakParts []UsagePart `json:"peakParts,omitempty"`
}

// UsagePart is a part of an ExpectedUsage.
type UsagePart struct {
	Amount resource.Quantity `json:"amount"`
	// Basis is the reason for the amount, such as "request of container main".
	Basis string `json:"basis"`
}

// NewExpectedUsage returns the expected usage of a resource. Amounts are in milliCPU or bytes.
func NewExpectedUsage(r load.Resource, amount float64, x podusage.Breakdown) ExpectedUsage {
	parts := func(of []podusage.Part) (parts []UsagePart) {
		for _, p := range of {
			parts = append(parts, UsagePart{quantityOf(r, p.Amount), text.Excerpt(p.Basis)}) // it may name an owner, whose name is any text
		}
		return parts
	}
	return ExpectedUsage{Resource: r, Amount: quantityOf(r, amount), Parts: parts(x.Parts), PeakParts: parts(x.Peak)}
}

func quantityOf(r load.Resource, amount float64) resource.Quantity {
	if r == load.CPU {
		return *resource.NewMilliQuantity(quantity.Int(amount), resource.DecimalSI)
	}
	return *resource.NewQuantity(quantity.Int(amount), resource.BinarySI)
}

// UsageExplainer is a plugin that predicts the usage of the incoming pod.
type UsageExplainer interface {
	Explainer
	// ExplainPodUsage returns the usages that the plugin expects in the scheduling cycle.
	ExplainPodUsage(state fwk.CycleState, pod *corev1.Pod) []ExpectedUsage
}

// Explainer is a plugin that explains its scores and limits.
type Explainer interface {
	minor.Plugin
	// Explain returns the node's terms of Filter and Score in the scheduling cycle. Call it after NormalizeScore if the plugin
	// has one.
	Explain(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) Terms
}

// LoadReader is a plugin that filters or scores nodes by their load.
type LoadReader interface {
	minor.Plugin
	// Reader reads the load of nodes.
	Reader() *reading.Reader
	// LoadLine compares the node with its load line in the scheduling cycle, as an estimate.Stranger sees the node, before any pod is
	// placed.
	LoadLine(state fwk.CycleState, node fwk.NodeInfo) LoadLine
}

// LoadLine compares a node with its load line. All arrays are by load.Resource.
type LoadLine struct {
	// Node is the measured and pending usage of the node.
	Node estimate.Estimate
	// Utilization is compared with the line, as a fraction of the node's Base. It includes the plugin's deviation or predicted peak.
	Utilization [load.ResourceCount]float64
	// Percent is the line; 0 where none holds.
	Percent [load.ResourceCount]float64
	// TargetPercent is the utilization that a score prefers, and no limit; 0 where none is set. A node above it is not Above.
	TargetPercent [load.ResourceCount]float64
	// Annotated reports whether the node's annotation sets the line. The line has no effect while no load is known.
	Annotated [load.ResourceCount]bool
	// Annotation is the name of the annotation by which a node sets its line.
	Annotation string
	// AnnotationProblem says what is wrong with the node's annotation, which is not used; empty if nothing is.
	AnnotationProblem string
	// Above reports whether the plugin counts the node as above the line.
	Above [load.ResourceCount]bool
	// Pool counts the nodeThresholds up to those that select the node; 0 if none do.
	Pool int
}

// Resource returns the terms of one resource in percent of base: usage, named by KnownBy, deviation if measured, pending usage, and
// the pod's usage. Amounts are in milliCPU or bytes.
func Resource(r load.Resource, e *estimate.ResourceEstimate, podUsage, base float64) []Term {
	if base <= 0 {
		return nil
	}
	percent := percentOf(r.String()+" ", base)
	terms := []Term{percent(KnownBy(e.State, 0), e.Mean)}
	if e.State == load.Fresh && e.StdDev >= 0 { // a deviation that is not known is NaN
		terms = append(terms, percent("deviation", e.StdDev))
	}
	return append(terms, percent("pending", e.Pending), percent("of the pod", podUsage))
}

// percentOf returns terms of amounts in percent of the base.
func percentOf(prefix string, base float64) func(name string, amount float64) Term {
	return func(name string, amount float64) Term {
		return Term{Name: prefix + name, Value: 100 * amount / base, Unit: "%"}
	}
}

// KnownBy names the origin of a node's usage: "requested" without fresh load, else "measured". A fraction above 0 is a quantile.
func KnownBy(s load.State, fraction float64) string {
	switch {
	case s != load.Fresh:
		return "requested"
	case fraction > 0:
		return fmt.Sprintf("measured, quantile %g", fraction)
	}
	return "measured"
}

// Peak returns the terms of a predicted peak, in percent of the node's capacity. largest names the pod with the largest excess;
// empty for the pod to place.
func Peak(of load.Resource, r *peak.Resource, largest string) []Term {
	if r.Node.Base <= 0 {
		return nil
	}
	terms := Resource(of, r.Node, r.Pod.Mean, r.Node.Base)
	if r.HasStatistics {
		learned := r.Pods.Mean
		if r.Node.State == load.Fresh {
			learned = r.Pods.Learned
		}
		terms = append(terms, percentOf(of.String()+" ", r.Node.Base)("of the pods by statistics", learned))
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
	percent := percentOf("", r.Node.Base)
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
