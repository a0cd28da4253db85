// Package decisionrecord writes what the scheduler saw when it placed a pod into an Event of the pod.
package decisionrecord

import (
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Name is the name of the plugin in configurations.
const Name = config.DecisionRecord

const (
	stateKey fwk.StateKey = Name
	// The API server accepts names of 253 bytes, and instances of 128.
	maxPodNameBytes  = 253 - len(".0123456789abcdef")
	maxInstanceBytes = 128
	// dropped and failed are results.
	dropped, failed = "Dropped", "Failed"
)

// DecisionRecord is a plugin that records decisions. It is safe for concurrent use. If the rate allows a record, Reserve runs the
// profile's Score plugins once more over the feasible nodes, with the snapshot and the CycleState of the decision.
type DecisionRecord struct {
	handle     minor.Handle
	clock      clock.PassiveClock
	explainers func() []explain.Explainer
	records    *metrics.CounterVec
	instance   string
	limiter    *rate.Limiter
	// events are written by one goroutine.
	events chan *eventsv1.Event
}

var (
	_ minor.PreScorePlugin = &DecisionRecord{}
	_ minor.ReservePlugin  = &DecisionRecord{}
	_ minor.PostBindPlugin = &DecisionRecord{}
	_ minor.SignPlugin     = &DecisionRecord{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{Name: Name}, descriptor.Parts[*config.DecisionRecordArgs]{Build: build})
}

func build(ctx context.Context, args *config.DecisionRecordArgs, in descriptor.Inputs) (minor.Plugin, error) {
	instance, err := os.Hostname()
	if err != nil {
		instance = explain.RecordReporter
	}
	pl := &DecisionRecord{
		handle: in.Handle, clock: in.Clock, explainers: in.Explainers, records: in.Records,
		instance: instance[:min(len(instance), maxInstanceBytes)],
		limiter:  rate.NewLimiter(rate.Limit(args.EventsPerSecond), int(args.Burst)),
		events:   make(chan *eventsv1.Event, args.Burst),
	}
	go pl.write(ctx, in.Handle.ClientSet())
	return pl, nil
}

func (pl *DecisionRecord) Name() string { return Name }

type feasible []fwk.NodeInfo

func (f feasible) Clone() fwk.StateData { return f }

// recorded is the Event to write once the pod is bound, or the result without one.
type recorded struct {
	event  *eventsv1.Event
	result string
}

func (r recorded) Clone() fwk.StateData { return r }

func (pl *DecisionRecord) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	state.Write(stateKey, feasible(nodes))
	return nil
}

// Reserve records the decision, if the rate allows it. A pod of a group is reserved whenever its group is tried, and again to bind
// it. Its record is of the former, when its node had the group's pods before it. Only the latter takes from the rate.
func (pl *DecisionRecord) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	data, _ := state.Read(stateKey)
	r, again := data.(recorded)
	switch {
	case r.result == dropped:
	case !pl.limiter.AllowN(pl.clock.Now(), 1):
		r = recorded{result: dropped}
	case !again:
		nodes, _ := data.(feasible) // none if PreScore was not called
		r = pl.record(ctx, state, pod, withoutPod(klog.FromContext(ctx), nodes, pod, node), node)
	}
	if r.event == nil && !minor.IsPodGroupCycle(state) {
		pl.count(r.result)
	}
	state.Write(stateKey, r) // without the nodes: binding may take long
	return nil
}

// Unreserve returns to the rate what trying a group took from it. Without PostBind, nothing is written.
func (pl *DecisionRecord) Unreserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) {
	data, _ := state.Read(stateKey)
	if r, ok := data.(recorded); ok && r.result != dropped && minor.IsPodGroupCycle(state) {
		pl.limiter.AllowN(pl.clock.Now(), -1)
	}
}

func (pl *DecisionRecord) record(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes feasible, node string) recorded {
	var scores []minor.NodePluginScores
	if len(nodes) > 1 { // a batch scores the node before alone
		var status *fwk.Status
		if scores, status = pl.handle.RunScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
			return failure(ctx, pod, status.AsError())
		}
	}
	record := explain.NewRecord(pod.Spec.SchedulerName, node, scores, func(plugin string) []explain.Term {
		return pl.terms(ctx, state, pod, nodes, node, plugin)
	})
	content, note, err := record.Encode()
	if err != nil {
		return failure(ctx, pod, err)
	}
	return recorded{event: pl.event(pod, note, content)}
}

func failure(ctx context.Context, pod *corev1.Pod, err error) recorded {
	klog.FromContext(ctx).V(4).Info("Cannot record a decision", "pod", klog.KObj(pod), "err", err)
	return recorded{result: failed}
}

// withoutPod returns nodes as they were before the pod: a pod of a group is in the snapshot by now.
func withoutPod(logger klog.Logger, nodes feasible, pod *corev1.Pod, node string) feasible {
	i := slices.IndexFunc(nodes, func(n fwk.NodeInfo) bool { return n.Node().Name == node })
	if i < 0 || !slices.ContainsFunc(nodes[i].GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().UID == pod.UID }) {
		return nodes
	}
	before := nodes[i].Snapshot()
	if err := before.RemovePod(logger, pod); err != nil {
		return nodes
	}
	nodes = slices.Clone(nodes)
	nodes[i] = before
	return nodes
}

func (pl *DecisionRecord) terms(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, node, plugin string,
) []explain.Term {
	i := slices.IndexFunc(nodes, func(n fwk.NodeInfo) bool { return n.Node().Name == node })
	for _, e := range pl.explainers() {
		if e.Name() == plugin {
			return e.Explain(ctx, state, pod, nodes[i]).List()
		}
	}
	return nil
}

func (pl *DecisionRecord) event(pod *corev1.Pod, note, record string) *eventsv1.Event {
	now := pl.clock.Now()
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name[:min(len(pod.Name), maxPodNameBytes)], now.UnixNano()),
			Annotations: map[string]string{explain.RecordAnnotation: record},
		},
		EventTime: metav1.NewMicroTime(now), Type: corev1.EventTypeNormal, Reason: explain.RecordReason, Action: "Binding", Note: note,
		ReportingController: explain.RecordReporter, ReportingInstance: pl.instance,
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
	}
}

// PostBind hands the record over. It never waits.
func (pl *DecisionRecord) PostBind(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) {
	data, _ := state.Read(stateKey)
	if r, ok := data.(recorded); ok && r.event != nil {
		select {
		case pl.events <- r.event:
		default:
			pl.count(dropped)
		}
	}
}

// SignPod signs nothing: the plugin neither filters nor scores.
func (pl *DecisionRecord) SignPod(context.Context, *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return nil, nil
}

func (pl *DecisionRecord) write(ctx context.Context, client kubernetes.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-pl.events:
			if _, err := client.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
				pl.count(failed)
				klog.FromContext(ctx).V(4).Info("Cannot record a decision", "pod", event.Regarding.Name, "err", err)
				continue
			}
			pl.count("Written")
		}
	}
}

func (pl *DecisionRecord) count(result string) { pl.records.WithLabelValues(result).Inc() }
