package nodemetrics

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
)

// Name is the name of the plugin in configurations.
const Name = "NodeMetrics"

// NodeMetrics is a plugin that scores nodes and rules nodes out by metrics. It is safe for concurrent use; its only state
// beside the gate's is the present decision and which metrics were last without any value.
type NodeMetrics struct {
	source    *load.Metrics
	metrics   []*metric
	rejects   bool
	gate      *softlimit.Gate
	decisions *softlimit.Decisions[load.MetricsView]
}

// metric is one of the plugin's metrics.
type metric struct {
	config.NodeMetric
	reject config.RejectRule
	reason string
	// missing is whether the last decision found no node with a value.
	missing atomic.Bool
}

var (
	_ fwk.PreFilterPlugin   = &NodeMetrics{}
	_ fwk.FilterPlugin      = &NodeMetrics{}
	_ fwk.PostFilterPlugin  = &NodeMetrics{}
	_ fwk.ScorePlugin       = &NodeMetrics{}
	_ fwk.ScoreExtensions   = &NodeMetrics{}
	_ fwk.EnqueueExtensions = &NodeMetrics{}
	_ fwk.SignPlugin        = &NodeMetrics{}
)

// New returns the plugin. It wakes waiting pods until ctx is done.
func New(ctx context.Context, object runtime.Object, given deps.Deps) (fwk.Plugin, error) {
	args, ok := object.(*config.NodeMetricsArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type NodeMetricsArgs, got %T", object)
	}
	if err := validation.ValidateNodeMetricsArgs(nil, args); err != nil {
		return nil, err
	}
	pl := &NodeMetrics{decisions: softlimit.NewDecisions[load.MetricsView](Name)}
	var expressions []string
	for _, m := range args.Metrics {
		rule, err := config.ParseRejectRule(m.Reject)
		if err != nil {
			return nil, fmt.Errorf("metric %s: reject: %w", m.Name, err)
		}
		pl.metrics = append(pl.metrics, &metric{NodeMetric: m, reject: rule, reason: fmt.Sprintf("node(s) with %s %s", m.Name, rule)})
		pl.rejects = pl.rejects || !rule.IsZero()
		expressions = append(expressions, m.Query)
	}
	var err error
	if pl.source, err = given.Metrics(ctx, args.LoadSpec, expressions); err != nil {
		return nil, err
	}
	limit := softlimit.Limit{Plugin: Name, WhenNoneFits: args.WhenNoneFits, MayTake: pl.mayTake}
	pl.gate = softlimit.NewGate(ctx, limit, given.Handle, pl.source.Updates(), clock.RealClock{})
	return pl, nil
}

// Name returns the name of the plugin.
func (pl *NodeMetrics) Name() string { return Name }

// decide returns the metrics as the decision sees them.
func (pl *NodeMetrics) decide(state fwk.CycleState) *load.MetricsView {
	return pl.decisions.Of(state, func() *load.MetricsView {
		view := pl.source.View(state)
		return &view
	})
}

// PreFilter steps aside where there is nothing to reject by, and for pods that the rules were waived for.
func (pl *NodeMetrics) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if waived := pl.gate.Begin(state, pod); waived || !pl.rejects {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.decide(state) // before the state is cloned
	return nil, nil
}

// PreFilterExtensions returns nil: no pod that goes or comes changes a metric.
func (pl *NodeMetrics) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rules the node out if a value is known that its metric's rule rejects.
func (pl *NodeMetrics) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if m := pl.rejecting(pl.decide(state), node.Node().Name); m != nil && !pl.gate.Waived(state) {
		return pl.gate.Refuse(m.reason)
	}
	return nil
}

// rejecting returns the first metric whose rule rules the node out.
func (pl *NodeMetrics) rejecting(view *load.MetricsView, node string) *metric {
	for _, m := range pl.metrics {
		if m.reject.IsZero() {
			continue
		}
		if value, known := view.Values(m.Query).Of(node); known && m.reject.RulesOut(value) {
			return m
		}
	}
	return nil
}

// PostFilter relaxes the rules or lets the pod wait, as the arguments say.
func (pl *NodeMetrics) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return pl.gate.PostFilter(ctx, state, pod, statuses)
}

// mayTake tells which nodes no rule rules out.
func (pl *NodeMetrics) mayTake(*corev1.Pod) func(node *corev1.Node) bool {
	view := pl.source.Latest()
	return func(node *corev1.Node) bool { return pl.rejecting(&view, node.Name) == nil }
}

// EventsToRegister names the events that can let a pod in that a rule kept out. Metrics are not among them: the gate looks
// at each refresh.
func (pl *NodeMetrics) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

// Score is the same for all nodes: only NormalizeScore sees all candidates, on whose values the scores depend.
func (pl *NodeMetrics) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return fwk.MinScore, nil
}

// ScoreExtensions returns the plugin itself.
func (pl *NodeMetrics) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore scores the candidates: the weighted mean of their marks in each metric. A candidate without a value has the
// candidates' mean of that metric. A metric that no candidate has a value of drops out.
func (pl *NodeMetrics) NormalizeScore(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	view := pl.decide(state)
	marks, weights := make([]float64, len(scores)), 0.0
	for _, m := range pl.metrics {
		if m.Weight == 0 {
			continue
		}
		values := view.Values(m.Query)
		var candidates span
		for i := range scores {
			if value, known := values.Of(scores[i].Name); known {
				candidates.add(value)
			}
		}
		m.note(ctx, candidates.known == 0 && !values.Any())
		if candidates.known == 0 {
			continue
		}
		scale, mean := candidates.scale(m.Prefer, m.Bounds), candidates.mean()
		weights += float64(m.Weight)
		for i := range scores {
			value, known := values.Of(scores[i].Name)
			if !known {
				value = mean
			}
			marks[i] += float64(m.Weight) * scale.mark(value)
		}
	}
	if weights == 0 {
		return nil // nothing is known: all score alike, and the profile's other plugins decide
	}
	for i := range scores {
		scores[i].Score = scoreOf(marks[i], weights)
	}
	return nil
}

// note says once that the metric has no value, and once that it has again.
func (m *metric) note(ctx context.Context, missing bool) {
	if m.missing.Load() == missing || !m.missing.CompareAndSwap(!missing, missing) {
		return
	}
	logger := klog.FromContext(ctx)
	if missing {
		logger.Info("No node has a value of the metric: it drops out of the score", "plugin", Name, "metric", m.Name)
		return
	}
	logger.Info("The metric has values again", "plugin", Name, "metric", m.Name)
}

// SignPod signs nothing: the result is the same for all pods. A pod that the rules are waived for is not signed: it is like
// no other.
func (pl *NodeMetrics) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if pl.gate.HasWaiver(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the rules are waived for this pod")
	}
	return nil, nil
}
