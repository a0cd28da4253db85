package loadthreshold

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Explain returns the node's Terms.
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

// Reader implements explain.LoadReader.
func (pl *LoadThreshold) Reader() *reading.Reader { return pl.reader }

// LoadLine implements explain.LoadReader. A node is above its line if a pod of another namespace that uses nothing would be
// refused.
func (pl *LoadThreshold) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	s := pl.strangerState(state)
	t := pl.terms(s, node)
	l := explain.LoadLine{Node: t.Node, Annotation: Annotation}
	var own line
	if annotation, ok := node.Node().Annotations[Annotation]; ok {
		var err error
		if own, err = parseLine(annotation); err != nil {
			l.AnnotationProblem = unused(annotation, err)
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

// strangerState is the state of a pod that uses nothing, and has a namespace of its own.
func (pl *LoadThreshold) strangerState(state fwk.CycleState) *filterState {
	s := pl.newFilterState(state, estimate.Stranger())
	if s.peaks[load.CPU] != nil {
		s.podUsages = &learned.Usages{}
	}
	return s
}

// ExplainPodUsage implements explain.UsageExplainer for the resources with a threshold.
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
