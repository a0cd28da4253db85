// Package nodemetrics scores nodes, and rules nodes out, by metrics with one value per node in Prometheus.
package nodemetrics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
)

// Name is the name of the plugin in configurations.
const Name = config.NodeMetrics

// NodeMetrics is a plugin that scores nodes and rules nodes out by metrics. It is safe for concurrent use.
type NodeMetrics struct {
	source  *estimate.NodeMetrics
	metrics []*metric
	// recent is nil where no metric counts pending pods.
	recent *estimate.RecentPods
	*softlimit.Gate
	states   *loadscore.Memo[cycleState]
	counters descriptor.Counters
}

type metric struct {
	config.NodeMetric
	reject config.RejectRule
	reason string
}

var (
	_ minor.PreFilterPlugin          = &NodeMetrics{}
	_ minor.FilterPlugin             = &NodeMetrics{}
	_ minor.PostFilterPlugin         = &NodeMetrics{}
	_ minor.PodGroupPostFilterPlugin = &NodeMetrics{}
	_ minor.PreScorePlugin           = &NodeMetrics{}
	_ minor.ScorePlugin              = &NodeMetrics{}
	_ minor.ScoreExtensions          = &NodeMetrics{}
	_ minor.EnqueueExtensions        = &NodeMetrics{}
	_ minor.SignPlugin               = &NodeMetrics{}
	_ explain.Explainer              = &NodeMetrics{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, ScoresByLoad: true,
	}, descriptor.Parts[*config.NodeMetricsArgs]{Reads: reads, Limits: limits, Build: build})
}

func build(ctx context.Context, args *config.NodeMetricsArgs, in descriptor.Inputs) (minor.Plugin, error) {
	pl, longest := &NodeMetrics{states: loadscore.NewMemo[cycleState](Name), counters: in.Counters}, time.Duration(0)
	for _, m := range args.Metrics {
		rule, err := config.ParseRejectRule(m.Reject)
		if err != nil {
			return nil, fmt.Errorf("metric %s: reject: %w", m.Name, err)
		}
		if m.Pending != nil {
			longest = max(longest, m.Pending.Window.Duration)
		}
		pl.metrics = append(pl.metrics, &metric{NodeMetric: m, reject: rule, reason: fmt.Sprintf("node(s) with %s %s", m.Name, rule)})
	}
	pl.source = in.Reader.NodeMetrics()
	if longest > 0 {
		pl.recent = pl.source.RecentPods(longest)
	}
	limit := softlimit.Limit{Plugin: Name, WhenNoneFits: args.WhenNoneFits, Refuses: pl.refuses, HasRoom: pl.hasRoom}
	pl.Gate = softlimit.NewGate(ctx, limit, in.Handle, pl.source.Snapshots(), in.Clock)
	return pl, nil
}

func limits(args *config.NodeMetricsArgs) configlint.Limits {
	rejects := slices.ContainsFunc(args.Metrics, func(m config.NodeMetric) bool { return m.Reject != "" })
	return configlint.Limits{Filters: rejects, Waives: rejects && args.WhenNoneFits == config.WhenNoneFitsRelax}
}

func reads(args *config.NodeMetricsArgs) reading.Request {
	r := reading.Request{Spec: args.LoadSpec}
	for _, m := range args.Metrics {
		r.Metrics = append(r.Metrics, m.Query)
	}
	return r
}

func (pl *NodeMetrics) Name() string { return Name }

// cycleState is shared by all nodes of one scheduling cycle.
type cycleState struct {
	metricsAt
	// scales are over the candidates: PreScore sets them, or NormalizeScore where PreScore is not called.
	scales  []scale
	own     loadscore.Attempt
	attempt *loadscore.Attempt
}

// metricsAt are the metrics at one moment, for pods of one namespace.
type metricsAt struct {
	view estimate.NodeMetricsView
	// columns runs parallel to the plugin's metrics.
	columns []column
}

func (pl *NodeMetrics) metricsAt(view estimate.NodeMetricsView, namespace string) metricsAt {
	at := metricsAt{view: view, columns: make([]column, len(pl.metrics))}
	for i, m := range pl.metrics {
		at.columns[i] = column{
			MetricValues: view.Values(m.Query), view: view, metric: &m.NodeMetric, recent: pl.recent, namespace: namespace,
		}
	}
	return at
}

// cycleState returns the state of the cycle. The first call in a cycle creates it, and counts the decision.
func (pl *NodeMetrics) cycleState(state fwk.CycleState, pod *corev1.Pod) *cycleState {
	if s := pl.states.Lookup(state); s != nil {
		return s
	}
	s := &cycleState{metricsAt: pl.metricsAt(pl.source.View(state), pod.Namespace)}
	s.attempt = pl.states.Attempt(state, pod, &s.own)
	s, first := pl.states.Store(state, s)
	if first && !s.attempt.Counted.Swap(true) {
		pl.counters.Decision(!slices.ContainsFunc(s.columns, func(c column) bool { return c.Any() }))
	}
	return s
}

func (s *cycleState) scoreAt(row int) int64 {
	return int64(math.Round(Terms{scales: s.scales, row: row}.Score()))
}

// PreFilter skips filtering where no rule rules out any node, and for pods that the rules are waived for.
func (pl *NodeMetrics) PreFilter(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	waived, s := pl.Begin(state, pod), pl.cycleState(state, pod) // now, so that later clones of the CycleState share the state
	if waived || !pl.rejectsAny(s) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (pl *NodeMetrics) rejectsAny(s *cycleState) bool {
	for i, m := range pl.metrics {
		if low, high, ok := s.columns[i].Range(); ok && (m.reject.RulesOut(low) || m.reject.RulesOut(high)) {
			return true
		}
	}
	return false
}

// PreFilterExtensions returns nil: a pod that comes or goes changes no metric.
func (pl *NodeMetrics) PreFilterExtensions() minor.PreFilterExtensions { return nil }

func (pl *NodeMetrics) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s := pl.cycleState(state, pod)
	m, unknown := pl.rejecting(&s.metricsAt, s.view.Row(node))
	if unknown {
		pl.counters.Fallback(&s.attempt.Fallbacks, load.Absent)
	}
	reason := ""
	if m != nil {
		reason = m.reason
	}
	return pl.Gate.Filter(state, node, reason)
}

func (pl *NodeMetrics) refuses(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
	s := pl.cycleState(state, pod)
	m, _ := pl.rejecting(&s.metricsAt, s.view.Row(node))
	return m != nil
}

// rejecting returns the first metric whose rule rules out the node in the row. unknown reports whether the node has no value for
// a rule while other nodes have one.
func (pl *NodeMetrics) rejecting(at *metricsAt, row int) (rejecting *metric, unknown bool) {
	for i, m := range pl.metrics {
		if m.reject.IsZero() {
			continue
		}
		value, known := at.columns[i].At(row)
		if known && m.reject.RulesOut(value) {
			return m, unknown
		}
		unknown = unknown || !known && at.columns[i].Any()
	}
	return nil, unknown
}

// hasRoom returns a function that reports whether the rules admit the pod to a node, by the latest metrics.
func (pl *NodeMetrics) hasRoom(*corev1.Pod) func(node *corev1.Node) bool {
	latest := pl.metricsAt(pl.source.Latest(), "")
	return func(node *corev1.Node) bool {
		m, _ := pl.rejecting(&latest, latest.view.RowOf(node.Name))
		return m == nil
	}
}

// EventsToRegister names the events after which a pod that a rule kept out can fit. New metrics are not among them: the gate
// requeues pods after refreshes.
func (pl *NodeMetrics) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

// PreScore determines the scales over the candidates. It skips scoring where no candidate has a value of any metric with a weight:
// the profile's other plugins decide. PreScore need not be enabled.
func (pl *NodeMetrics) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s, rows := pl.cycleState(state, pod), make([]int, len(nodes))
	for i, node := range nodes {
		rows[i] = pl.rowToScore(s, node)
	}
	if s.scales = pl.scalesOver(s, rows); len(s.scales) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score is the weighted mean of the node's marks; 0 without PreScore, because the candidates are not known yet.
func (pl *NodeMetrics) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := pl.cycleState(state, pod)
	row := pl.rowToScore(s, node)
	if len(s.scales) == 0 {
		return config.MinNodeScore, nil
	}
	return s.scoreAt(row), nil
}

// rowToScore returns the row of a candidate, and reads its pods if some metric counts them.
func (pl *NodeMetrics) rowToScore(s *cycleState, node fwk.NodeInfo) int {
	row := s.view.Row(node)
	if pl.recent != nil {
		pl.recent.Read(s.view, row, node)
	}
	return row
}

func (pl *NodeMetrics) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore scores the candidates where PreScore is not called. It finds them by name, which takes longer.
func (pl *NodeMetrics) NormalizeScore(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	s := pl.cycleState(state, pod)
	if len(s.scales) > 0 {
		return nil
	}
	rows := make([]int, len(scores))
	for i := range scores {
		rows[i] = s.view.RowOf(scores[i].Name)
	}
	s.scales = pl.scalesOver(s, rows)
	for i, row := range rows {
		scores[i].Score = s.scoreAt(row)
	}
	return nil
}

// scalesOver returns the scales of the metrics that have a weight, over the candidates in the given rows. A candidate without
// a value has the candidates' mean of that metric. A metric without any value drops out.
func (pl *NodeMetrics) scalesOver(s *cycleState, rows []int) []scale {
	spans, scales := make([]span, len(pl.metrics)), make([]scale, 0, len(pl.metrics))
	for _, row := range rows { // a row's values of all metrics are adjacent in memory
		for i := range spans {
			if value, known := s.columns[i].withPending(row); known {
				spans[i].add(value)
			}
		}
	}
	for i, m := range pl.metrics {
		if m.Weight == 0 {
			continue
		}
		known := spans[i].known
		if known < len(rows) && s.columns[i].Any() {
			pl.counters.Fallback(&s.attempt.Fallbacks, load.Absent)
		}
		if known == 0 {
			continue
		}
		c := scale{column: s.columns[i], weight: float64(m.Weight)}
		c.best, c.worst = spans[i].bounds(&m.NodeMetric)
		if known < len(rows) {
			c.unknown = c.mark(c.meanOf(rows))
		}
		scales = append(scales, c)
	}
	return scales
}

// Explain returns the node's Terms. Before PreScore or NormalizeScore they have only limits, because no candidate is known yet.
func (pl *NodeMetrics) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	s := pl.cycleState(state, pod)
	terms := Terms{scales: s.scales, row: s.view.Row(node)}
	for i, m := range pl.metrics {
		if value, known := s.columns[i].At(terms.row); known && !m.reject.IsZero() {
			terms.limits = append(terms.limits,
				explain.Limit{Name: m.Name, Value: value, Rule: m.reject.String(), Exceeded: m.reject.RulesOut(value)})
		}
	}
	return terms
}

// SignPod implements minor.SignPlugin: without recent pods, the scores of a node are the same for all pods.
func (pl *NodeMetrics) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	if pl.recent == nil {
		return nil, nil
	}
	return []minor.SignFragment{{Key: "v1.Pod.Namespace." + Name + "()", Value: pod.Namespace}}, nil
}
