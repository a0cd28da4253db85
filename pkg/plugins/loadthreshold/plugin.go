// Package loadthreshold rules out nodes whose load would exceed a threshold. Recently placed pods and the pod to place count.
package loadthreshold

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.LoadThreshold

// LoadThreshold is a plugin that rules out nodes above their load line. It is safe for concurrent use.
type LoadThreshold struct {
	reader *reading.Reader
	// models are those of the reader.
	models  [load.ResourceCount]*estimate.Model
	reasons [load.ResourceCount]reasons
	lines   *profileLines
	// deviations is the factor of standard deviations; 0 if the statistic has none.
	deviations  float64
	missingLoad config.MissingLoad
	exemptions  exemptions
	// peaks are nil unless peaks are compared with the line.
	peaks [load.ResourceCount]*peak.Model

	*softlimit.Gate
	states   *loadscore.Memo[filterState]
	counters descriptor.Counters
}

var (
	_ minor.PreFilterPlugin          = &LoadThreshold{}
	_ minor.FilterPlugin             = &LoadThreshold{}
	_ minor.PostFilterPlugin         = &LoadThreshold{}
	_ minor.PodGroupPostFilterPlugin = &LoadThreshold{}
	_ minor.PreScorePlugin           = &LoadThreshold{}
	_ minor.ScorePlugin              = &LoadThreshold{}
	_ minor.ScoreExtensions          = &LoadThreshold{}
	_ minor.EnqueueExtensions        = &LoadThreshold{}
	_ minor.SignPlugin               = &LoadThreshold{}
	_ explain.UsageExplainer         = &LoadThreshold{}
	_ explain.LoadReader             = &LoadThreshold{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	shared := &bounds{} // by all profiles
	build := func(ctx context.Context, args *config.LoadThresholdArgs, in descriptor.Inputs) (minor.Plugin, error) {
		return newPlugin(ctx, args, in, shared)
	}
	return descriptor.Of(descriptor.Descriptor{
		Name:     Name,
		LineRank: 1,
	}, descriptor.Parts[*config.LoadThresholdArgs]{Reads: reads, Limits: limits, Build: build})
}

func newPlugin(
	ctx context.Context, args *config.LoadThresholdArgs, in descriptor.Inputs, shared *bounds,
) (minor.Plugin, error) {
	exemptions, err := newExemptions(args, in.Handle)
	if err != nil {
		return nil, err
	}
	pl := &LoadThreshold{
		reader: in.Reader, lines: &profileLines{args.NodeThresholds, lineOf(args.Thresholds)},
		missingLoad: args.MissingLoad, exemptions: exemptions,
		states: loadscore.NewMemo[filterState](Name), counters: in.Counters,
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
	if err := shared.observe(in.Handle.SharedInformerFactory().Core().V1().Nodes().Informer(), pl.lines, &pl.counters); err != nil {
		return nil, err
	}
	limit := softlimit.Limit{Plugin: Name, WhenNoneFits: args.WhenNoneFits, Refuses: pl.refuses, HasRoom: pl.hasRoom}
	pl.Gate = softlimit.NewGate(ctx, limit, in.Handle, pl.reader.Snapshots(), in.Clock)
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
	for of, percent := range lineOf(args.Thresholds) {
		r.Ignores[of] = percent == 0 &&
			!slices.ContainsFunc(args.NodeThresholds, func(p config.NodeThresholds) bool { return lineOf(p.Thresholds)[of] > 0 })
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

func (pl *LoadThreshold) Name() string { return Name }

// SignPod signs the pod's usage by requests or, with predicted peaks, the predictor's key. It adds namespace and exemption. See
// estimate.View.For.
func (pl *LoadThreshold) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	var value any = pl.reader.PodUsage(pod)
	if peaks := pl.peaks[load.CPU]; peaks != nil {
		value = peaks.Config().Predictor.Key(pod)
	}
	return []minor.SignFragment{{
		Key: "v1.Pod." + Name + "()",
		Value: struct {
			Namespace string
			Usage     any
			Exempt    bool
		}{pod.Namespace, value, pl.exemptions.cover(pod)},
	}}, nil
}

// EventsToRegister names the events after which a pod that the thresholds kept out can fit. New load is not among them: the gate
// requeues pods after refreshes.
func (pl *LoadThreshold) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation | fwk.UpdateNodeLabel},
			QueueingHintFn: pl.isQueueableAfterNodeUpdate,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: pl.isQueueableAfterPodLabel},
	}, nil
}

// isQueueableAfterNodeUpdate retries the pod if the node's thresholds changed. Other annotations change all the time.
func (pl *LoadThreshold) isQueueableAfterNodeUpdate(
	_ klog.Logger, _ *corev1.Pod, oldObj, newObj any,
) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before == nil || now == nil || pl.lines.changed(before, now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isQueueableAfterPodLabel retries the pod if its own labels changed, and exempt it now.
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

// exemptions select the pods that are exempt from thresholds.
type exemptions struct {
	daemonSets      bool
	priorityClasses []string
	pods            labels.Selector
	// namespaces is nil where none is exempt.
	namespaces      labels.Selector
	namespaceLister corelisters.NamespaceLister
}

func newExemptions(args *config.LoadThresholdArgs, handle minor.Handle) (exemptions, error) {
	e := exemptions{daemonSets: args.IgnoreDaemonSets, priorityClasses: args.Exempt.PriorityClassNames}
	var err error
	if e.pods, err = metav1.LabelSelectorAsSelector(args.Exempt.PodSelector); err != nil { // a nil selector matches nothing
		return exemptions{}, fmt.Errorf("exempt.podSelector: %w", err)
	}
	if args.Exempt.NamespaceSelector == nil {
		return e, nil
	}
	if e.namespaces, err = metav1.LabelSelectorAsSelector(args.Exempt.NamespaceSelector); err != nil {
		return exemptions{}, fmt.Errorf("exempt.namespaceSelector: %w", err)
	}
	e.namespaceLister = handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	return e, nil
}

func (e *exemptions) cover(pod *corev1.Pod) bool {
	if e.daemonSets && isDaemonSetPod(pod) || slices.Contains(e.priorityClasses, pod.Spec.PriorityClassName) ||
		e.pods.Matches(labels.Set(pod.Labels)) {
		return true
	}
	if e.namespaces == nil {
		return false
	}
	namespace, err := e.namespaceLister.Get(pod.Namespace)
	return err == nil && e.namespaces.Matches(labels.Set(namespace.Labels))
}

// isDaemonSetPod reports whether the pod is a DaemonSet's and can run on one node only. Everybody can write an ownerReference:
// what counts is that the pod cannot go elsewhere.
func isDaemonSetPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String() && isBoundToOneNode(pod)
}

// isBoundToOneNode reports whether the pod's required node affinity names one node by metadata.name, as the DaemonSet
// controller writes it.
func isBoundToOneNode(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	node := ""
	for i := range terms {
		named := ""
		for _, field := range terms[i].MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				named = field.Values[0]
			}
		}
		if named == "" || node != "" && named != node {
			return false // this term lets the pod go to other nodes
		}
		node = named
	}
	return node != ""
}
