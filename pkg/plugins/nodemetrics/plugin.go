package nodemetrics

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
)

// Name is the name of the plugin in configurations.
const Name = config.NodeMetrics

// NodeMetrics is a plugin that scores nodes and rules nodes out by metrics. It is safe for concurrent use; its only state
// beside the gate's is the present decision and which metrics were last without any value.
type NodeMetrics struct {
	source    *estimate.NodeMetrics
	metrics   []*metric
	gate      *softlimit.Gate
	decisions *softlimit.Decisions[decision]
	counters  counters.Counters
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
func New(ctx context.Context, object runtime.Object, handle fwk.Handle, given deps.Deps) (fwk.Plugin, error) {
	args, ok := object.(*config.NodeMetricsArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type NodeMetricsArgs, got %T", object)
	}
	if err := validation.ValidateNodeMetricsArgs(nil, args); err != nil {
		return nil, err
	}
	pl := &NodeMetrics{decisions: softlimit.NewDecisions[decision](Name), counters: given.Counters}
	var expressions []string
	for _, m := range args.Metrics {
		rule, err := config.ParseRejectRule(m.Reject)
		if err != nil {
			return nil, fmt.Errorf("metric %s: reject: %w", m.Name, err)
		}
		pl.metrics = append(pl.metrics, &metric{NodeMetric: m, reject: rule, reason: fmt.Sprintf("node(s) with %s %s", m.Name, rule)})
		expressions = append(expressions, m.Query)
	}
	var err error
	if pl.source, err = given.Load.NodeMetrics(ctx, handle, args.LoadSpec, expressions); err != nil {
		return nil, err
	}
	limit := softlimit.Limit{Plugin: Name, WhenNoneFits: args.WhenNoneFits, Refuses: pl.refuses, MayTake: pl.mayTake}
	pl.gate = softlimit.NewGate(ctx, limit, handle, pl.source.Snapshots(), given.Clock)
	return pl, nil
}

// Name returns the name of the plugin.
func (pl *NodeMetrics) Name() string { return Name }

// decision is what all nodes of one decision are judged by.
type decision struct {
	view estimate.NodeMetricsView
	// values runs parallel to the plugin's metrics.
	values []estimate.MetricValues
	noted  counters.Noted
}

func (pl *NodeMetrics) decisionOn(view estimate.NodeMetricsView) *decision {
	d := &decision{view: view, values: make([]estimate.MetricValues, len(pl.metrics))}
	for i, m := range pl.metrics {
		d.values[i] = view.Values(m.Query)
	}
	return d
}

// decide returns the metrics as the decision sees them. Whichever extension points are enabled, its first call counts
// the decision and notes which metrics have no value.
func (pl *NodeMetrics) decide(ctx context.Context, state fwk.CycleState) *decision {
	d, first := pl.decisions.Of(state, func() *decision { return pl.decisionOn(pl.source.View(state)) })
	if first {
		known := false
		for i, m := range pl.metrics {
			m.note(ctx, !d.values[i].Any())
			known = known || d.values[i].Any()
		}
		pl.counters.Decisions.Inc()
		if !known {
			pl.counters.Aside.Inc()
		}
	}
	return d
}

// PreFilter steps aside where no rule rules out any node, and for pods that the rules were waived for.
func (pl *NodeMetrics) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	waived, d := pl.gate.Begin(state, pod), pl.decide(ctx, state) // before the state is cloned
	if waived || !pl.rejectsAny(d) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// rejectsAny tells whether some rule may rule out some node.
func (pl *NodeMetrics) rejectsAny(d *decision) bool {
	for i, m := range pl.metrics {
		if least, most, known := d.values[i].Range(); known && (m.reject.RulesOut(least) || m.reject.RulesOut(most)) {
			return true
		}
	}
	return false
}

// PreFilterExtensions returns nil: no pod that goes or comes changes a metric.
func (pl *NodeMetrics) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rules the node out if a value is known that its metric's rule rejects.
func (pl *NodeMetrics) Filter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	d := pl.decide(ctx, state)
	m, unknown := pl.rejecting(d, d.view.Row(node))
	if unknown {
		pl.counters.FallBack(&d.noted, load.Absent)
	}
	if m != nil && !pl.gate.Waived(state) {
		return pl.gate.Refuse(m.reason)
	}
	return nil
}

// refuses tells whether some rule rules the node out.
func (pl *NodeMetrics) refuses(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) bool {
	d := pl.decide(ctx, state)
	m, _ := pl.rejecting(d, d.view.Row(node))
	return m != nil
}

// rejecting returns the first metric whose rule rules out the node with the row, and whether a rule had no value to go by that
// other nodes have.
func (pl *NodeMetrics) rejecting(d *decision, row int) (rejecting *metric, unknown bool) {
	for i, m := range pl.metrics {
		if m.reject.IsZero() {
			continue
		}
		value, known := d.values[i].At(row)
		if known && m.reject.RulesOut(value) {
			return m, unknown
		}
		unknown = unknown || !known && d.values[i].Any()
	}
	return nil, unknown
}

// PostFilter relaxes the rules or lets the pod wait, as the arguments say.
func (pl *NodeMetrics) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return pl.gate.PostFilter(ctx, state, pod, statuses)
}

// mayTake tells which nodes no rule rules out.
func (pl *NodeMetrics) mayTake(*corev1.Pod) func(node *corev1.Node) bool {
	d := pl.decisionOn(pl.source.Latest())
	return func(node *corev1.Node) bool {
		m, _ := pl.rejecting(d, d.view.RowOf(node.Name))
		return m == nil
	}
}

// EventsToRegister names the events that can let a pod in that a rule kept out. Metrics are not among them: the gate looks
// at each refresh.
func (pl *NodeMetrics) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

// Score is the row of the node's values, which NormalizeScore turns into the score: only that sees all candidates, on whose
// values the scores depend.
func (pl *NodeMetrics) Score(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return int64(pl.decide(ctx, state).view.Row(node)), nil
}

// ScoreExtensions returns the plugin itself.
func (pl *NodeMetrics) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore scores the candidates: the weighted mean of their marks in each metric. A candidate without a value has the
// candidates' mean of that metric. A metric that no candidate has a value of drops out. When all do, all score alike, and
// the profile's other plugins decide.
func (pl *NodeMetrics) NormalizeScore(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	d, scales, weights := pl.decide(ctx, state), make([]weightedScale, 0, len(pl.metrics)), 0.0
	candidates := make([]span, len(pl.metrics))
	for i := range scores { // whose values of all metrics stand together
		for j := range candidates {
			if value, known := d.values[j].At(int(scores[i].Score)); known {
				candidates[j].add(value)
			}
		}
	}
	for i, m := range pl.metrics {
		known, weight := candidates[i].known, float64(m.Weight)
		if weight == 0 {
			continue
		}
		if known < len(scores) && d.values[i].Any() {
			pl.counters.FallBack(&d.noted, load.Absent)
		}
		if known == 0 {
			continue
		}
		s := weightedScale{values: d.values[i], scale: candidates[i].scale(m.Prefer, m.Bounds), weight: weight}
		if known < len(scores) {
			s.unknown = s.scale.mark(meanOf(d.values[i], scores))
		}
		scales = append(scales, s)
		weights += weight
	}
	for i := range scores {
		row, marks := int(scores[i].Score), 0.0
		for j := range scales {
			marks += scales[j].weight * scales[j].mark(row)
		}
		scores[i].Score = scoreOf(marks, weights)
	}
	return nil
}

// meanOf is the mean of the values in the rows that Score returned.
func meanOf(values estimate.MetricValues, rows fwk.NodeScoreList) float64 {
	mean, n := 0.0, 0.0
	for i := range rows {
		if value, known := values.At(int(rows[i].Score)); known {
			n++
			mean += value/n - mean/n // not by way of the sum, which may be infinite
		}
	}
	return mean
}

// note says once that the metric has no value, and once that it has again.
func (m *metric) note(ctx context.Context, missing bool) {
	if m.missing.Load() == missing || !m.missing.CompareAndSwap(!missing, missing) {
		return
	}
	logger := klog.FromContext(ctx)
	if missing {
		logger.Info("No node has a value of the metric: nothing is scored or rejected by it", "plugin", Name, "metric", m.Name)
		return
	}
	logger.Info("The metric has values again", "plugin", Name, "metric", m.Name)
}

// SignPod signs nothing: the result is the same for all pods.
func (pl *NodeMetrics) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}
