package loadthreshold

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.LoadThreshold

// LoadThreshold is a plugin that rules out nodes above their load line. It is safe for concurrent use; its only state
// beside the gate's is the present decision.
type LoadThreshold struct {
	// cpu and memory are models of the load over the resources' windows; they are the same where the windows are.
	cpu, memory *estimate.Model
	line        line
	deviations  float64
	missingLoad config.MissingLoad

	cpuReasons, memoryReasons reasons

	exemptions exemptions
	gate       *softlimit.Gate
	decisions  *softlimit.Decisions[decision]
	counters   counters.Counters
	complaints *complaints
	events     events.EventRecorder
	// scoringAlone is done once it is told that nothing but scoring is enabled.
	scoringAlone sync.Once
}

var (
	_ fwk.PreFilterPlugin   = &LoadThreshold{}
	_ fwk.FilterPlugin      = &LoadThreshold{}
	_ fwk.PostFilterPlugin  = &LoadThreshold{}
	_ fwk.PreScorePlugin    = &LoadThreshold{}
	_ fwk.ScorePlugin       = &LoadThreshold{}
	_ fwk.ScoreExtensions   = &LoadThreshold{}
	_ fwk.EnqueueExtensions = &LoadThreshold{}
	_ fwk.SignPlugin        = &LoadThreshold{}
)

// Factory makes the plugins of all profiles of one scheduler, which share what concerns the nodes. Its zero value is ready.
type Factory struct{ complaints complaints }

// New returns the plugin. It wakes waiting pods until ctx is done.
func (f *Factory) New(ctx context.Context, object runtime.Object, handle fwk.Handle, given deps.Deps) (fwk.Plugin, error) {
	args, ok := object.(*config.LoadThresholdArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type LoadThresholdArgs, got %T", object)
	}
	if err := validation.ValidateLoadThresholdArgs(nil, args); err != nil {
		return nil, err
	}
	modelOver := func(window metav1.Duration) (*estimate.Model, error) {
		spec := args.LoadSpec
		spec.Window = window
		return given.Load.Model(ctx, handle, spec, podusage.ByRequests{})
	}
	cpu, err := modelOver(args.Windows.CPU)
	if err != nil {
		return nil, err
	}
	memory := cpu
	if args.Windows.Memory != args.Windows.CPU {
		if memory, err = modelOver(args.Windows.Memory); err != nil {
			return nil, err
		}
	}
	exemptions, err := newExemptions(args)
	if err != nil {
		return nil, err
	}
	pl := &LoadThreshold{
		cpu:         cpu,
		memory:      memory,
		line:        lineOf(args.Thresholds),
		missingLoad: args.MissingLoad,
		exemptions:  exemptions,
		decisions:   softlimit.NewDecisions[decision](Name),
		counters:    given.Counters,
		complaints:  &f.complaints,
		events:      handle.EventRecorder(),

		cpuReasons:    reasonsOf("cpu"),
		memoryReasons: reasonsOf("memory"),
	}
	if args.Statistic == config.StatisticMeanPlusStdDev {
		pl.deviations = args.StdDevFactor
	}
	limit := softlimit.Limit{Plugin: Name, WhenNoneFits: args.WhenNoneFits, Refuses: pl.refuses, MayTake: pl.mayTake}
	pl.gate = softlimit.NewGate(ctx, limit, handle, cpu.Snapshots(), given.Clock)
	if err := f.complaints.watch(handle.SharedInformerFactory().Core().V1().Nodes().Informer()); err != nil {
		return nil, err
	}
	return pl, nil
}

// Name returns the name of the plugin.
func (pl *LoadThreshold) Name() string { return Name }

// decision is what all nodes of one decision are judged by.
type decision struct {
	cpu, memory *estimate.View
	demand      demand
	exempt      bool
	// looksAtCPU and looksAtMemory say which thresholds hold: those of resources that some node's load is known of, and
	// none for a pod that is exempt.
	looksAtCPU, looksAtMemory bool
	noted                     counters.Noted
}

// aside tells whether every node passes.
func (d *decision) aside() bool { return !d.looksAtCPU && !d.looksAtMemory }

// demand is what the pod that is being placed requests.
type demand struct{ CPUMillis, MemoryBytes float64 }

func demandOf(pod *corev1.Pod) demand {
	usage := podusage.ByRequests{}.Estimate(pod)
	return demand{CPUMillis: usage[load.CPU], MemoryBytes: usage[load.Memory]}
}

// decide returns what the decision is made by. Its first call, whichever extension points are enabled, counts the decision and
// tells of malformed annotations.
func (pl *LoadThreshold) decide(state fwk.CycleState, pod *corev1.Pod) *decision {
	d, first := pl.decisions.Of(state, func() *decision {
		d := &decision{cpu: pl.cpu.View(state), memory: pl.memory.View(state), demand: demandOf(pod), exempt: pl.exemptions.hold(pod)}
		if !d.exempt {
			rejects := pl.missingLoad == config.MissingLoadReject
			d.looksAtCPU, d.looksAtMemory = rejects || d.cpu.Knows(load.CPU), rejects || d.memory.Knows(load.Memory)
		}
		return d
	})
	if first {
		pl.counters.Decisions.Inc()
		if d.aside() && !d.exempt {
			pl.counters.Aside.Inc()
		}
		pl.complaints.tell(pl.events)
	}
	return d
}

// PreFilter steps aside for exempt pods, for those that the thresholds were waived for, and when no load is known.
func (pl *LoadThreshold) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	waived := pl.gate.Begin(state, pod)
	if pl.decide(state, pod).aside() || waived {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreFilterExtensions returns nil: a pod that goes or comes changes the NodeInfo, which is all that is looked at.
func (pl *LoadThreshold) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rules the node out if it would pass its load line with the pod on it.
func (pl *LoadThreshold) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	d := pl.decide(state, pod)
	if reason := pl.reason(d, node); reason != "" && !pl.gate.Waived(state) {
		return pl.gate.Refuse(reason)
	}
	return nil
}

// refuses tells whether the node would pass its load line with the pod on it.
func (pl *LoadThreshold) refuses(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
	return pl.reason(pl.decide(state, pod), node) != ""
}

func (pl *LoadThreshold) estimate(d *decision, node fwk.NodeInfo) estimate.Estimate {
	e := d.cpu.Estimate(node)
	if pl.memory != pl.cpu {
		e[load.Memory] = d.memory.Estimate(node)[load.Memory]
	}
	return e
}

// reason says why the node cannot have the pod, or is empty.
func (pl *LoadThreshold) reason(d *decision, node fwk.NodeInfo) string {
	if d.aside() {
		return ""
	}
	e, line := pl.estimate(d, node), pl.lineOf(node.Node())
	if d.looksAtCPU {
		if reason := pl.resourceReason(d, &pl.cpuReasons, &e[load.CPU], d.demand.CPUMillis, line.cpu); reason != "" {
			return reason
		}
	}
	if d.looksAtMemory {
		return pl.resourceReason(d, &pl.memoryReasons, &e[load.Memory], d.demand.MemoryBytes, line.memory)
	}
	return ""
}

// reasons are why one resource keeps a node out: by the percentage that would be passed, and at 0 because nothing is known.
// They are made beforehand, for many nodes of a decision may be ruled out.
type reasons [101]string

func reasonsOf(resource string) reasons {
	r := reasons{fmt.Sprintf("node(s) without known %s load", resource)}
	for percent := 1; percent < len(r); percent++ {
		// In words: the scheduler hands the reasons to its Events as a format string, without arguments, in which "80%)" would
		// read "80%!)(MISSING)".
		r[percent] = fmt.Sprintf("node(s) above their %s load line (%d percent)", resource, percent)
	}
	return r
}

func (pl *LoadThreshold) resourceReason(d *decision, reasons *reasons, r *estimate.ResourceEstimate, extra float64, percent int64) string {
	if percent == 0 {
		return ""
	}
	if r.State != load.Fresh {
		pl.counters.FallBack(&d.noted, r.State)
		switch pl.missingLoad {
		case config.MissingLoadPass:
			return ""
		case config.MissingLoadReject:
			return reasons[0]
		}
	}
	if passes(utilization(r, extra, pl.deviations), percent) {
		return reasons[percent]
	}
	return ""
}

// lineOf returns the node's load line: the profile's where the annotation is malformed, which an Event tells.
func (pl *LoadThreshold) lineOf(node *corev1.Node) line {
	annotation, ok := node.Annotations[Annotation]
	if !ok {
		return pl.line
	}
	line, err := pl.line.overriddenBy(annotation)
	if err != nil {
		return pl.line
	}
	return line
}

// PostFilter relaxes the thresholds or lets the pod wait, as the arguments say.
func (pl *LoadThreshold) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return pl.gate.PostFilter(ctx, state, pod, statuses)
}

// mayTake tells which nodes are measured below their line, with the pod on them. Of a node whose load is not known, only
// trying tells.
func (pl *LoadThreshold) mayTake(pod *corev1.Pod) func(node *corev1.Node) bool {
	demand := demandOf(pod)
	return func(node *corev1.Node) bool {
		cpu, memory, line := pl.cpu.Measured(node)[load.CPU], pl.memory.Measured(node)[load.Memory], pl.lineOf(node)
		return pl.mayBear(&cpu, demand.CPUMillis, line.cpu) && pl.mayBear(&memory, demand.MemoryBytes, line.memory)
	}
}

func (pl *LoadThreshold) mayBear(r *estimate.ResourceEstimate, extra float64, percent int64) bool {
	switch {
	case percent == 0:
		return true
	case r.State != load.Fresh:
		return pl.missingLoad != config.MissingLoadReject
	}
	return !passes(utilization(r, extra, pl.deviations), percent)
}

// EventsToRegister names the events that can let a pod in that the thresholds kept out. Load is not among them: the gate
// looks at each refresh.
func (pl *LoadThreshold) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}, QueueingHintFn: pl.afterNodeAnnotation},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: pl.afterPodLabel},
	}, nil
}

// afterNodeAnnotation retries the pod if the node's line changed. Other annotations change all the time.
func (pl *LoadThreshold) afterNodeAnnotation(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if annotationChanged(before, now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterPodLabel retries the pod if it is the one whose labels changed, and is exempt by them. The queue asks also when it is
// the waiting pod itself that is updated.
func (pl *LoadThreshold) afterPodLabel(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if now != nil && now.UID == pod.UID && pl.exemptions.hold(now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// PreScore skips the scoring of all pods but those that the thresholds were waived for.
func (pl *LoadThreshold) PreScore(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if pl.gate.Waived(state) {
		return nil
	}
	pl.warnIfScoringAlone(ctx, state)
	return fwk.NewStatus(fwk.Skip)
}

// warnIfScoringAlone says once that the plugin does nothing where only its scoring is enabled.
func (pl *LoadThreshold) warnIfScoringAlone(ctx context.Context, state fwk.CycleState) {
	if !pl.gate.Begun(state) {
		pl.scoringAlone.Do(func() {
			klog.FromContext(ctx).Info("The plugin is enabled for scoring, but not at preFilter: it rules no node out and scores no pod. Enable it by multiPoint or under filter", "plugin", Name)
		})
	}
}

// scoreUnit is the utilization that is one point before normalization; usedUp is where points end.
const (
	scoreUnit = 0.0001
	usedUp    = 1000.0
)

// Score is, for a pod that the thresholds were waived for, the utilization of the scarcer resource that has a threshold on
// the node, as it is held against it. It may be beyond 1. NormalizeScore turns it round.
func (pl *LoadThreshold) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if !pl.gate.Waived(state) {
		pl.warnIfScoringAlone(ctx, state)
		return fwk.MinScore, nil
	}
	d := pl.decide(state, pod)
	e, line, used := pl.estimate(d, node), pl.lineOf(node.Node()), 0.0
	use := func(r *estimate.ResourceEstimate, extra float64) {
		if r.State != load.Fresh {
			pl.counters.FallBack(&d.noted, r.State)
		}
		used = max(used, utilization(r, extra, pl.deviations))
	}
	if d.looksAtCPU && line.cpu > 0 {
		use(&e[load.CPU], d.demand.CPUMillis)
	}
	if d.looksAtMemory && line.memory > 0 {
		use(&e[load.Memory], d.demand.MemoryBytes)
	}
	return int64(math.Round(min(used, usedUp) / scoreUnit)), nil
}

// ScoreExtensions returns the plugin itself.
func (pl *LoadThreshold) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore gives the least loaded candidate 100 and the most loaded 0, however near to each other they are: above
// their lines is where all of them are.
func (pl *LoadThreshold) NormalizeScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if !pl.gate.Waived(state) || len(scores) == 0 {
		return nil
	}
	least, most := scores[0].Score, scores[0].Score
	for _, n := range scores {
		least, most = min(least, n.Score), max(most, n.Score)
	}
	span := max(most-least, 1)
	for i := range scores {
		scores[i].Score = fwk.MaxScore * (most - scores[i].Score) / span
	}
	return nil
}

// SignPod signs what the pod requests and whether it is exempt.
func (pl *LoadThreshold) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{
		Key: "v1.Pod." + Name + "()",
		Value: struct {
			demand
			Exempt bool
		}{demandOf(pod), pl.exemptions.hold(pod)},
	}}, nil
}

// exemptions tell which pods the thresholds do not hold for.
type exemptions struct {
	daemonSets      bool
	priorityClasses []string
	selector        labels.Selector
}

func newExemptions(args *config.LoadThresholdArgs) (exemptions, error) {
	// A nil selector matches nothing.
	selector, err := metav1.LabelSelectorAsSelector(args.Exempt.PodSelector)
	if err != nil {
		return exemptions{}, fmt.Errorf("exempt.podSelector: %w", err)
	}
	return exemptions{
		daemonSets:      args.IgnoreDaemonSets,
		priorityClasses: args.Exempt.PriorityClassNames,
		selector:        selector,
	}, nil
}

func (e *exemptions) hold(pod *corev1.Pod) bool {
	if e.daemonSets {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "DaemonSet" {
			return true
		}
	}
	return slices.Contains(e.priorityClasses, pod.Spec.PriorityClassName) || e.selector.Matches(labels.Set(pod.Labels))
}
