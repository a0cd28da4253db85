package loadthreshold

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// filterState is shared by all nodes of one scheduling cycle.
type filterState struct {
	views    [load.ResourceCount]*estimate.View
	podUsage podusage.Amounts
	// peaks and podUsages are the predictions; nil unless the statistic is PredictedPeak.
	peaks     [load.ResourceCount]*peak.View
	podUsages *learned.Usages
	exempt    bool
	// limited are the resources with a known load on some node; none for an exempt pod. Only their thresholds hold.
	limited [load.ResourceCount]bool
	own     loadscore.Attempt
	attempt *loadscore.Attempt
}

// skips reports whether no threshold holds, so that every node passes.
func (s *filterState) skips() bool { return s.limited == [load.ResourceCount]bool{} }

// filterState returns the state of the cycle. Its first call in a cycle also counts the decision.
func (pl *LoadThreshold) filterState(state fwk.CycleState, pod *corev1.Pod) *filterState {
	if s := pl.states.Lookup(state); s != nil {
		return s
	}
	s := pl.newFilterState(state, pod)
	if s.exempt = pl.exemptions.cover(pod); s.exempt {
		s.limited = [load.ResourceCount]bool{}
	}
	s.podUsage = s.views[load.CPU].Estimator().Estimate(pod)
	if s.peaks[load.CPU] != nil {
		s.podUsages = s.peaks[load.CPU].Pod(pod)
	}
	s, first := pl.states.Store(state, s)
	if first && !s.attempt.Counted.Swap(true) {
		pl.counters.Decision(s.skips() && !s.exempt)
	}
	return s
}

// newFilterState returns the state of the cycle, with the load as the pod sees it.
func (pl *LoadThreshold) newFilterState(state fwk.CycleState, pod *corev1.Pod) *filterState {
	s := &filterState{}
	s.attempt = pl.states.Attempt(state, pod, &s.own)
	for r, model := range pl.models {
		if peaks := pl.peaks[r]; peaks != nil {
			s.peaks[r] = peaks.View(state).For(pod)
		}
		s.views[r] = model.View(state).For(pod)
		s.limited[r] = pl.missingLoad == config.MissingLoadReject || s.views[r].Knows(load.Resource(r))
	}
	return s
}

// PreFilter skips filtering for exempt pods, for pods with waived thresholds, and when no load is known.
func (pl *LoadThreshold) PreFilter(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	waived := pl.Begin(state, pod)
	if pl.filterState(state, pod).skips() || waived {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreFilterExtensions returns those of the gate. A pod that comes or goes changes the NodeInfo, which Filter reads.
func (pl *LoadThreshold) PreFilterExtensions() minor.PreFilterExtensions { return pl.Gate }

func (pl *LoadThreshold) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	return pl.Gate.Filter(state, node, pl.reason(pl.filterState(state, pod), node))
}

func (pl *LoadThreshold) refuses(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
	return pl.reason(pl.filterState(state, pod), node) != ""
}

func (pl *LoadThreshold) terms(s *filterState, node fwk.NodeInfo) (t Terms) {
	t.Fraction, t.Pod, t.Deviations = pl.reader.Request().Fraction, s.podUsage, pl.deviations
	t.LinePercent = pl.lines.lineOf(node.Node())
	if s.podUsages != nil {
		t.Predicted = true
		peaks := pl.nodePeaks(s, node)
		for r := range peaks {
			t.Node[r], t.Peak[r] = *peaks[r].Node, peaks[r].Peak()
		}
	} else {
		t.Node = s.views[load.CPU].Estimate(node)
		if pl.models[load.Memory] != pl.models[load.CPU] {
			t.Node[load.Memory] = s.views[load.Memory].Resource(node, load.Memory)
		}
	}
	for r, limited := range s.limited {
		if !limited {
			t.LinePercent[r] = 0
		}
	}
	return t
}

func (pl *LoadThreshold) nodePeaks(s *filterState, node fwk.NodeInfo) (peaks [load.ResourceCount]peak.Resource) {
	peaks = s.peaks[load.CPU].Node(node, s.podUsages, pl.deviations)
	if pl.models[load.Memory] != pl.models[load.CPU] {
		peaks[load.Memory] = s.peaks[load.Memory].Node(node, s.podUsages, pl.deviations)[load.Memory]
	}
	return peaks
}

// reason says why the node cannot have the pod, or is empty.
func (pl *LoadThreshold) reason(s *filterState, node fwk.NodeInfo) string {
	if s.skips() {
		return ""
	}
	terms := pl.terms(s, node)
	for r := range load.ResourceCount {
		if reason := pl.resourceReason(s, &terms, r); reason != "" {
			return reason
		}
	}
	return ""
}

func (pl *LoadThreshold) resourceReason(s *filterState, t *Terms, r load.Resource) string {
	percent, state := t.LinePercent[r], t.Node[r].State
	if percent == 0 {
		return ""
	}
	if state != load.Fresh {
		pl.counters.Fallback(&s.attempt.Fallbacks, state)
		switch pl.missingLoad {
		case config.MissingLoadPass:
			return ""
		case config.MissingLoadReject:
			return pl.reasons[r][0]
		}
	}
	if t.Above(r) {
		return pl.reasons[r][percent]
	}
	return ""
}

// reasons holds the reasons of one resource by threshold in percent; 0 is for missing load. They are precomputed, because a
// cycle may rule out many nodes.
type reasons [101]string

func reasonsOf(r load.Resource) reasons {
	all := reasons{fmt.Sprintf("node(s) without known %s load", r)}
	for percent := 1; percent < len(all); percent++ {
		// "percent", not "%": the scheduler uses reasons as format strings of Events.
		all[percent] = fmt.Sprintf("node(s) above their %s load line (%d percent)", r, percent)
	}
	return all
}

// hasRoom returns whether a node is measured below its load line with the pod on it. A node of unknown load has room unless
// missingLoad is Reject: only an attempt can tell. A peak is predicted from the node's pods in the last cycle.
func (pl *LoadThreshold) hasRoom(pod *corev1.Pod) func(node *corev1.Node) bool {
	podUsage := pl.reader.PodUsage(pod)
	var podUsages learned.Usages
	hasStatistics := false
	if peaks := pl.peaks[load.CPU]; peaks != nil {
		latest := peaks.Latest()
		podUsages, hasStatistics = latest.Incoming(pod), latest.Statistics.Len() > 0
	}
	return func(node *corev1.Node) bool {
		t := Terms{Pod: podUsage, Deviations: pl.deviations, LinePercent: pl.lines.lineOf(node)}
		for r, model := range pl.models {
			r := load.Resource(r)
			t.Node[r] = model.Measured(node)[r]
			if peaks := pl.peaks[r]; peaks != nil && t.Node[r].State == load.Fresh {
				pods := peaks.LatestPods(node.Name, pod.Namespace)
				resource := peak.Resource{HasStatistics: hasStatistics}
				resource.Set(&t.Node[r], &pods[r], &podUsages[r], pl.deviations)
				t.Peak[r], t.Predicted = resource.Peak(), true
			}
			known := t.Node[r].State == load.Fresh
			if known && t.Above(r) || !known && t.LinePercent[r] > 0 && pl.missingLoad == config.MissingLoadReject {
				return false
			}
		}
		return true
	}
}

func (pl *LoadThreshold) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if pl.Waived(state) {
		return nil
	}
	return fwk.NewStatus(fwk.Skip)
}

func (pl *LoadThreshold) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if !pl.Waived(state) {
		return config.MinNodeScore, nil
	}
	s := pl.filterState(state, pod)
	terms := pl.terms(s, node)
	for r := range load.ResourceCount {
		if state := terms.Node[r].State; terms.LinePercent[r] > 0 && state != load.Fresh {
			pl.counters.Fallback(&s.attempt.Fallbacks, state)
		}
	}
	return int64(math.Round(terms.Score())), nil
}

func (pl *LoadThreshold) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore scores the least loaded candidate 100 and the most loaded 0, because all of them are above their lines.
func (pl *LoadThreshold) NormalizeScore(
	_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	if !pl.Waived(state) || len(scores) == 0 {
		return nil
	}
	least, most := scores[0].Score, scores[0].Score
	for _, n := range scores {
		least, most = min(least, n.Score), max(most, n.Score)
	}
	span := max(most-least, 1)
	for i := range scores {
		scores[i].Score = config.MaxNodeScore * (most - scores[i].Score) / span
	}
	return nil
}
