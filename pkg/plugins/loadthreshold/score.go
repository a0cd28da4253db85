package loadthreshold

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Terms are the terms of Filter and Score for one node.
type Terms struct {
	// Node is the measured and pending usage of the node. Its means are quantiles if Fraction, the quantile's, is above 0.
	Node     estimate.Estimate
	Fraction float64
	// Pod is what the pod to place requests, or the mean that is predicted for it.
	Pod podusage.Amounts
	// Deviations is the number of standard deviations that are added to the mean.
	Deviations float64
	// Peak is the predicted peak by load.Resource, as a fraction of capacity. It is used if Predicted is set.
	Peak      [load.ResourceCount]float64
	Predicted bool
	// PeakTerms are the terms of Peak, and Largest names the pod of the largest excess. Only Explain sets them.
	PeakTerms *[load.ResourceCount]peak.Resource
	Largest   [load.ResourceCount]string
	// LinePercent is the node's load line by load.Resource, in percent; 0 where none holds for the resource.
	LinePercent [load.ResourceCount]int64
}

// Utilization is compared with the load line of resource r, with the pod on the node. It is the predicted peak, if any. Else it is
// mean or quantile plus Deviations standard deviations. An unknown deviation does not count.
func (t *Terms) Utilization(r load.Resource) float64 {
	if t.Predicted {
		return t.Peak[r]
	}
	e := &t.Node[r]
	utilization := e.Utilization(t.Pod[r])
	if e.Base > 0 && e.StdDev > 0 {
		utilization += t.Deviations * e.StdDev / e.Base
	}
	return utilization
}

// Above reports whether the node is above its load line with the pod on it.
func (t *Terms) Above(r load.Resource) bool {
	return t.LinePercent[r] > 0 && t.Utilization(r) > float64(t.LinePercent[r])/100
}

// scoreUnit is the utilization that is one point of Score. Score is capped at maxUtilization.
const (
	scoreUnit      = 0.0001
	maxUtilization = 1000.0
)

// Score is the highest utilization of a resource with a load line, in units of 0.01 %. It may exceed 100 %. A lower score is
// better, until NormalizeScore reverses it.
func (t Terms) Score() float64 {
	scarcer := 0.0
	for r := range load.ResourceCount {
		if t.LinePercent[r] > 0 {
			scarcer = max(scarcer, t.Utilization(r))
		}
	}
	return min(scarcer, maxUtilization) / scoreUnit
}

func (t Terms) List() (terms []explain.Term) {
	for r, line := range t.LinePercent {
		if r := load.Resource(r); line > 0 {
			if t.PeakTerms != nil {
				terms = append(terms, explain.Peak(r, &t.PeakTerms[r], t.Largest[r])...)
			} else {
				terms = append(terms, t.measured(r)...)
			}
			terms = append(terms,
				explain.Term{Name: r.String() + " utilization", Value: 100 * t.Utilization(r), Unit: "%"},
				explain.Term{Name: r.String() + " load line", Value: float64(line), Unit: "%"})
		}
	}
	return terms
}

func (t Terms) Limits() (limits []explain.Limit) {
	for r := range load.ResourceCount {
		line := t.LinePercent[r]
		if line == 0 {
			continue
		}
		limits = append(limits, explain.Limit{
			Name: r.String(), Value: 100 * t.Utilization(r), Rule: fmt.Sprintf("> %d", line), Unit: "%",
			Exceeded: t.Above(r), Terms: t.summands(r),
		})
	}
	return limits
}

// summands add up to the resource's Utilization, in percent.
func (t *Terms) summands(r load.Resource) []explain.Term {
	e := &t.Node[r]
	switch {
	case e.Base <= 0:
		return nil // it counts as full
	case t.PeakTerms != nil:
		return explain.PeakSummands(&t.PeakTerms[r], t.Largest[r])
	}
	percent := func(amount float64) float64 { return 100 * amount / e.Base }
	terms := []explain.Term{
		{Name: explain.KnownBy(e.State, t.Fraction), Value: percent(e.Mean), Unit: "%"},
		{Name: "pending", Value: percent(e.Pending), Unit: "%"},
		{Name: "this pod", Value: percent(t.Pod[r]), Unit: "%"},
	}
	if t.Deviations > 0 && e.StdDev > 0 {
		terms = append(terms,
			explain.Term{Name: fmt.Sprintf("%g × deviation", t.Deviations), Value: percent(t.Deviations * e.StdDev), Unit: "%"})
	}
	return terms
}

func (t Terms) measured(r load.Resource) []explain.Term {
	terms := explain.Resource(r, &t.Node[r], t.Pod[r], t.Node[r].Base)
	if len(terms) > 0 {
		terms[0].Name = r.String() + " " + explain.KnownBy(t.Node[r].State, t.Fraction)
	}
	return terms
}

func (pl *LoadThreshold) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	s := pl.filterState(state, pod)
	terms := pl.terms(s, node)
	if s.podUsages != nil {
		terms.PeakTerms = new(pl.nodePeaks(s, node))
		for r := range terms.PeakTerms {
			terms.Largest[r] = terms.PeakTerms[r].LargestOn(node)
		}
	}
	return terms
}

func (pl *LoadThreshold) Reader() *reading.Reader { return pl.reader }

// LoadLine implements explain.LoadReader. A node is above its line if a pod of another namespace that uses nothing would be
// refused.
func (pl *LoadThreshold) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	s := pl.newFilterState(state, estimate.Stranger())
	if s.peaks[load.CPU] != nil {
		s.podUsages = &learned.Usages{}
	}
	t := pl.terms(s, node)
	l := explain.LoadLine{Node: t.Node, Annotation: Annotation, Pool: config.PoolOf(pl.lines.pools, node.Node().Labels) + 1}
	var own line
	if annotation, ok := node.Node().Annotations[Annotation]; ok {
		var wrong, problem string
		if own, wrong, problem = parseLine(annotation); problem != "" {
			l.AnnotationProblem = unused(annotation, wrong, problem)
		}
	}
	for r := range load.ResourceCount {
		l.Utilization[r] = t.Utilization(r)
		l.Percent[r] = float64(t.LinePercent[r])
		l.Annotated[r] = own[r] > 0
		l.Above[r] = pl.resourceReason(s, &t, r) != ""
	}
	return l
}

func (pl *LoadThreshold) ExplainPodUsage(state fwk.CycleState, pod *corev1.Pod) (usages []explain.ExpectedUsage) {
	s := pl.filterState(state, pod)
	explanations := s.views[load.CPU].Estimator().Explain(pod)
	for r, limited := range s.limited {
		if limited && !pl.reader.Request().Ignores[r] {
			usages = append(usages, explain.NewExpectedUsage(load.Resource(r), s.podUsage[r], explanations[r]))
		}
	}
	return usages
}
