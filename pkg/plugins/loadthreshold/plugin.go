// Package loadthreshold rules out nodes whose present load, pods just placed and the pod itself included, would pass a
// threshold.
package loadthreshold

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/cyclestate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Name is the name of the plugin in configurations.
const Name = config.LoadThreshold

// LoadThreshold is a plugin that rules out nodes above their load line. It is safe for concurrent use.
type LoadThreshold struct {
	reader *reading.Reader
	// models are those of the reader.
	models      [load.ResourceCount]*estimate.Model
	reasons     [load.ResourceCount]reasons
	line        line
	deviations  float64
	missingLoad config.MissingLoad
	exemptions  exemptions
	// peaks are nil unless peaks are compared with the line.
	peaks [load.ResourceCount]*peak.Model

	gate     *softlimit.Gate
	states   *cyclestate.Memo[filterState]
	counters counters.Counters
	events   events.EventRecorder

	*annotations
}

var (
	_ minor.PreFilterPlugin   = &LoadThreshold{}
	_ minor.FilterPlugin      = &LoadThreshold{}
	_ minor.PostFilterPlugin  = &LoadThreshold{}
	_ minor.PreScorePlugin    = &LoadThreshold{}
	_ minor.ScorePlugin       = &LoadThreshold{}
	_ minor.ScoreExtensions   = &LoadThreshold{}
	_ minor.EnqueueExtensions = &LoadThreshold{}
	_ minor.SignPlugin        = &LoadThreshold{}
	_ explain.UsageExplainer  = &LoadThreshold{}
	_ explain.LoadReader      = &LoadThreshold{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	a := &annotations{} // of all profiles
	return descriptor.Of(descriptor.Descriptor{
		Name:     Name,
		LineRank: 1,
		FilterSkipped: descriptor.Skipped{
			Unknown: descriptor.NoLoad, Known: "the pod is exempt (ignoreDaemonSets or exempt in the plugin's arguments)",
		},
	}, descriptor.Parts[*config.LoadThresholdArgs]{
		Validate: validation.ValidateLoadThresholdArgs,
		Reads:    reads,
		Limits:   limits,
		Build:    a.build,
	})
}

func (a *annotations) build(ctx context.Context, args *config.LoadThresholdArgs, given descriptor.Given) (minor.Plugin, error) {
	exemptions, err := newExemptions(args, given.Handle)
	if err != nil {
		return nil, err
	}
	pl := &LoadThreshold{
		reader:      given.Reader,
		line:        lineOf(args.Thresholds),
		missingLoad: args.MissingLoad,
		exemptions:  exemptions,
		states:      cyclestate.New[filterState](Name),
		counters:    given.Counters,
		events:      given.Handle.EventRecorder(),
		annotations: a,
	}
	switch args.Statistic {
	case config.StatisticMeanPlusStdDev:
		pl.deviations = args.StdDevFactor
	case config.StatisticPredictedPeak:
		pl.deviations = args.PredictedPeak.Deviations
	}
	for r := range load.ResourceCount {
		pl.reasons[r], pl.models[r], pl.peaks[r] = reasonsOf(r), pl.reader.Model(r), pl.reader.Peak(r)
	}
	if err := pl.observe(given.Handle.SharedInformerFactory().Core().V1().Nodes().Informer()); err != nil {
		return nil, err
	}
	limit := softlimit.Limit{Plugin: Name, WhenNoneFits: args.WhenNoneFits, Refuses: pl.refuses, HasRoom: pl.hasRoom}
	pl.gate = softlimit.NewGate(ctx, limit, given.Handle, pl.reader.Snapshots(), given.Clock)
	return pl, nil
}

func limits(args *config.LoadThresholdArgs) configlint.Limits {
	return configlint.Limits{Filters: true, Waives: args.WhenNoneFits == config.WhenNoneFitsRelax, Scores: true}
}

func reads(args *config.LoadThresholdArgs) reading.Request {
	r := reading.Request{
		Spec:          args.LoadSpec,
		Windows:       [load.ResourceCount]time.Duration{load.CPU: args.Windows.CPU.Duration, load.Memory: args.Windows.Memory.Duration},
		UsesDeviation: args.Statistic == config.StatisticMeanPlusStdDev,
		Estimator:     podusage.ByRequests{Default: podusage.AmountsOf(args.DefaultRequests)},
	}
	switch args.Statistic {
	case config.StatisticP95:
		r.Fraction = 0.95
	case config.StatisticMax:
		r.Fraction = 1
	case config.StatisticPredictedPeak:
		r.Peak = &args.PredictedPeak
	}
	return r
}

// Name returns the name of the plugin.
func (pl *LoadThreshold) Name() string { return Name }

// filterState is what all nodes of one scheduling cycle are judged by.
type filterState struct {
	views    [load.ResourceCount]*estimate.View
	podUsage podusage.Amounts
	// peaks and podUsages are the predictions; nil unless the statistic is PredictedPeak.
	peaks     [load.ResourceCount]*peak.View
	podUsages *learned.Usages
	exempt    bool
	// limited are the resources whose thresholds hold: those that some node's load is known of, and none for an exempt pod.
	limited   [load.ResourceCount]bool
	fallbacks counters.Fallbacks
}

// skips reports whether no threshold holds, so that every node passes.
func (s *filterState) skips() bool { return s.limited == [load.ResourceCount]bool{} }

// filterState returns the state of the cycle. The first call in a cycle, at whichever extension point, makes it, and counts
// the decision.
func (pl *LoadThreshold) filterState(state fwk.CycleState, pod *corev1.Pod) *filterState {
	if s := pl.states.Lookup(state); s != nil {
		return s
	}
	s := pl.newFilterState(state)
	if s.exempt = pl.exemptions.cover(pod); s.exempt {
		s.limited = [load.ResourceCount]bool{}
	}
	s.podUsage = s.views[load.CPU].Estimator().Estimate(pod)
	if s.peaks[load.CPU] != nil {
		s.podUsages = s.peaks[load.CPU].Pod(pod)
	}
	s, first := pl.states.Store(state, s)
	if first {
		pl.counters.Decision(s.skips() && !s.exempt)
	}
	return s
}

// newFilterState returns the state of the cycle without a pod.
func (pl *LoadThreshold) newFilterState(state fwk.CycleState) *filterState {
	s := &filterState{}
	for r, model := range pl.models {
		if peaks := pl.peaks[r]; peaks != nil {
			s.peaks[r] = peaks.View(state)
		}
		s.views[r] = model.View(state)
		s.limited[r] = pl.missingLoad == config.MissingLoadReject || s.views[r].Knows(load.Resource(r))
	}
	return s
}

// PreFilter skips filtering for exempt pods, for pods that the thresholds are waived for, and when no load is known.
func (pl *LoadThreshold) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*minor.PreFilterResult, *fwk.Status) {
	waived := pl.gate.Begin(state, pod)
	if pl.filterState(state, pod).skips() || waived {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreFilterExtensions returns nil: a pod that comes or goes changes the NodeInfo, which the node is judged by.
func (pl *LoadThreshold) PreFilterExtensions() minor.PreFilterExtensions { return nil }

// Filter rules the node out if it would be above its load line with the pod on it.
func (pl *LoadThreshold) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if reason := pl.reason(pl.filterState(state, pod), node); reason != "" && !pl.gate.Waived(state) {
		return pl.gate.Refuse(reason)
	}
	return nil
}

// refuses reports whether the node would be above its load line with the pod on it.
func (pl *LoadThreshold) refuses(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
	return pl.reason(pl.filterState(state, pod), node) != ""
}

func (pl *LoadThreshold) terms(s *filterState, node fwk.NodeInfo) Terms {
	t := Terms{Node: s.views[load.CPU].Estimate(node), Fraction: pl.reader.Request().Fraction, Pod: s.podUsage, Deviations: pl.deviations, LinePercent: pl.lineOf(node.Node())}
	if pl.models[load.Memory] != pl.models[load.CPU] {
		t.Node[load.Memory] = s.views[load.Memory].Resource(node, load.Memory)
	}
	if s.podUsages != nil {
		peaks := pl.nodePeaks(s, node)
		for r := range peaks {
			t.Peak[r] = peaks[r].Peak()
		}
	}
	for r, limited := range s.limited {
		if !limited {
			t.LinePercent[r] = 0
		}
	}
	return t
}

// nodePeaks returns the terms of the node's peaks in the cycle.
func (pl *LoadThreshold) nodePeaks(s *filterState, node fwk.NodeInfo) [load.ResourceCount]peak.Resource {
	peaks := s.peaks[load.CPU].Node(node, s.podUsages, pl.deviations)
	if pl.models[load.Memory] != pl.models[load.CPU] {
		peaks[load.Memory] = s.peaks[load.Memory].Node(node, s.podUsages, pl.deviations)[load.Memory]
	}
	return peaks
}

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

// LoadLine implements explain.LoadReader. A node is above its line if it would be refused to a pod that uses nothing.
func (pl *LoadThreshold) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	s := pl.newFilterState(state)
	if s.peaks[load.CPU] != nil {
		s.podUsages = &learned.Usages{}
	}
	t := pl.terms(s, node)
	var own line
	if annotation, ok := node.Node().Annotations[Annotation]; ok {
		own, _ = pl.lookup(annotation)
	}
	l := explain.LoadLine{Node: t.Node}
	for r := range load.ResourceCount {
		l.Utilization[r] = t.Utilization(r)
		l.Percent[r] = float64(t.LinePercent[r])
		l.Annotated[r] = t.LinePercent[r] > 0 && own[r] > 0
		l.Above[r] = pl.resourceReason(s, &t, r) != ""
	}
	return l
}

// ExplainPodUsage implements explain.UsageExplainer for the resources that some threshold of the profile holds for.
func (pl *LoadThreshold) ExplainPodUsage(state fwk.CycleState, pod *corev1.Pod) (usages []explain.PodUsage) {
	s := pl.filterState(state, pod)
	explanations := s.views[load.CPU].Estimator().Explain(pod)
	for r, limited := range s.limited {
		if limited && pl.line[r] > 0 {
			usages = append(usages, explain.NewPodUsage(load.Resource(r), s.podUsage[r], explanations[r]))
		}
	}
	return usages
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
		pl.counters.Fallback(&s.fallbacks, state)
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

// reasons are why one resource rules a node out: by the threshold in percent, and at 0 because no load is known. They are made
// beforehand, because a cycle may rule out many nodes.
type reasons [101]string

func reasonsOf(r load.Resource) reasons {
	all := reasons{fmt.Sprintf("node(s) without known %s load", r)}
	for percent := 1; percent < len(all); percent++ {
		// In words: the scheduler uses reasons as the format string of its Events, without arguments, in which "80%)" would
		// become "80%!)(MISSING)".
		all[percent] = fmt.Sprintf("node(s) above their %s load line (%d percent)", r, percent)
	}
	return all
}

// PostFilter relaxes the thresholds or lets the pod wait, as the arguments say.
func (pl *LoadThreshold) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses minor.NodeToStatusReader) (*minor.PostFilterResult, *fwk.Status) {
	return pl.gate.PostFilter(ctx, state, pod, statuses)
}

// hasRoom returns whether a node is measured below its load line with the pod on it. Where its load is not known, only trying can
// tell. A peak is predicted from the pods that were on the node when a cycle looked last.
func (pl *LoadThreshold) hasRoom(pod *corev1.Pod) func(node *corev1.Node) bool {
	podUsage := pl.reader.PodUsage(pod)
	var podUsages learned.Usages
	if peaks := pl.peaks[load.CPU]; peaks != nil {
		podUsages = peaks.Latest().Incoming(pod)
	}
	return func(node *corev1.Node) bool {
		t := Terms{Pod: podUsage, Deviations: pl.deviations, LinePercent: pl.lineOf(node)}
		for r, model := range pl.models {
			r := load.Resource(r)
			t.Node[r] = model.Measured(node)[r]
			if peaks := pl.peaks[r]; peaks != nil && t.Node[r].State == load.Fresh {
				resource := peak.With(t.Node[r], peaks.LatestPods(node.Name)[r], &podUsages[r], pl.deviations)
				t.Peak[r] = resource.Peak()
			}
			known := t.Node[r].State == load.Fresh
			if known && t.Above(r) || !known && t.LinePercent[r] > 0 && pl.missingLoad == config.MissingLoadReject {
				return false
			}
		}
		return true
	}
}

// EventsToRegister names the events that can let a pod in that the thresholds kept out. Load is not among them: the gate
// requeues pods after refreshes.
func (pl *LoadThreshold) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}, QueueingHintFn: pl.isQueueableAfterNodeAnnotation},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: pl.isQueueableAfterPodLabel},
	}, nil
}

// isQueueableAfterNodeAnnotation retries the pod if the node's thresholds changed. Other annotations change all the time.
func (pl *LoadThreshold) isQueueableAfterNodeAnnotation(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before == nil || now == nil || annotationChanged(before, now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isQueueableAfterPodLabel retries the pod if its own labels changed and exempt it now.
func (pl *LoadThreshold) isQueueableAfterPodLabel(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if now != nil && now.UID == pod.UID && pl.exemptions.cover(now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// PreScore skips the scoring of all pods but those that the thresholds are waived for.
func (pl *LoadThreshold) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if pl.gate.Waived(state) {
		return nil
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score scores nodes for a pod that the thresholds are waived for, by how full they would be with the pod on them.
func (pl *LoadThreshold) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if !pl.gate.Waived(state) {
		return minor.MinScore, nil
	}
	s := pl.filterState(state, pod)
	terms := pl.terms(s, node)
	for r := range load.ResourceCount {
		if state := terms.Node[r].State; terms.LinePercent[r] > 0 && state != load.Fresh {
			pl.counters.Fallback(&s.fallbacks, state)
		}
	}
	return int64(math.Round(terms.Score())), nil
}

// ScoreExtensions returns the plugin itself.
func (pl *LoadThreshold) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore gives the least loaded candidate 100 and the most loaded 0, however close they are to each other: all of them
// are above their lines.
func (pl *LoadThreshold) NormalizeScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores minor.NodeScoreList) *fwk.Status {
	if !pl.gate.Waived(state) || len(scores) == 0 {
		return nil
	}
	least, most := scores[0].Score, scores[0].Score
	for _, n := range scores {
		least, most = min(least, n.Score), max(most, n.Score)
	}
	span := max(most-least, 1)
	for i := range scores {
		scores[i].Score = minor.MaxScore * (most - scores[i].Score) / span
	}
	return nil
}

// SignPod signs what the pod requests and whether it is exempt.
func (pl *LoadThreshold) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	var value any = pl.reader.PodUsage(pod)
	if peaks := pl.peaks[load.CPU]; peaks != nil {
		value = peaks.Config().Predictor.Key(pod)
	}
	return []minor.SignFragment{{
		Key: "v1.Pod." + Name + "()",
		Value: struct {
			Usage  any
			Exempt bool
		}{value, pl.exemptions.cover(pod)},
	}}, nil
}
