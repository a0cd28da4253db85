package run

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// eventAction is the action of all events, and subsystem the prefix of all metrics.
const (
	eventAction = "Rebalance"
	subsystem   = "plimsoll_rebalancer"
)

// observer counts what happens, and records events. Use it by one goroutine at a time.
type observer struct {
	events                 events.EventRecorder
	hot, planned, underWay *metrics.GaugeVec
	stopped, staying       *metrics.GaugeVec
	moves, steps, refused  *metrics.CounterVec
	shown                  map[string]string
}

var _ plan.Observer = &observer{}

func newObserver(register func(...metrics.Registerable)) *observer {
	gauge := func(name, help string, labels ...string) *metrics.GaugeVec {
		o := metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
		return metrics.NewGaugeVec(&o, labels)
	}
	counter := func(name, help string, labels ...string) *metrics.CounterVec {
		o := metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
		return metrics.NewCounterVec(&o, labels)
	}
	o := &observer{
		hot:      gauge("hot_nodes", "Nodes above their load line for so long that pods should move."),
		planned:  gauge("planned_moves", "Moves of the last plan that were not begun."),
		underWay: gauge("moves_under_way", "Moves whose replacement is not ready yet."),
		stopped:  gauge("stopped", "1 if this reason stops all moves, else 0.", "reason"),
		staying:  gauge("staying_pods", "Pods of hot nodes that stay, by the reason.", "reason"),
		moves: counter("moves_total", "Moves that ended. Landed is on another node that is not above its line, LandedHot on one "+
			"above it. Returned and NotReady are failures.", "outcome"),
		refused: counter("refused_evictions_total", "Evictions that a budget, a webhook or a quota refused."),
		steps:   counter("steps_total", "Steps, of which each looks for pauses, replacements and hot nodes.", "result"),
		shown:   map[string]string{},
	}
	register(o.hot, o.planned, o.underWay, o.stopped, o.staying, o.moves, o.refused, o.steps)
	for _, g := range []*metrics.GaugeVec{o.hot, o.planned, o.underWay} {
		g.WithLabelValues()
	}
	o.refused.WithLabelValues()
	for _, outcome := range plan.Outcomes() {
		o.moves.WithLabelValues(string(outcome))
	}
	for _, result := range []string{succeeded, failed} {
		o.steps.WithLabelValues(result)
	}
	for _, stop := range plan.Stops() {
		o.stopped.WithLabelValues(string(stop))
	}
	return o
}

// The results of steps.
const succeeded, failed = "Success", "Failure"

// show shows the result of a step. In plan mode, nodes get an event for each new plan.
func (o *observer) show(s *plan.Status, plans bool) {
	o.underWay.WithLabelValues().Set(float64(len(s.UnderWay)))
	for _, stop := range plan.Stops() {
		value := 0.0
		if stop == s.Stop {
			value = 1
		}
		o.stopped.WithLabelValues(string(stop)).Set(value)
	}
	if s.Plan == nil {
		return
	}
	o.hot.WithLabelValues().Set(float64(len(s.Plan.Hot)))
	o.planned.WithLabelValues().Set(float64(len(s.Plan.Moves)))
	o.staying.Reset()
	for reason, n := range s.Plan.Stay {
		o.staying.WithLabelValues(string(reason)).Set(float64(n))
	}
	shown := map[string]string{}
	for i := range s.Plan.Moves {
		m := &s.Plan.Moves[i]
		if shown[m.From] = string(m.UID) + m.To; plans && shown[m.From] != o.shown[m.From] {
			o.events.Eventf(node(m.From), nil, corev1.EventTypeNormal, "MovePlanned", eventAction,
				"Would move pod %s/%s to %s: %s. The mode is Plan, so nothing moves", m.Namespace, m.Pod, m.To, m.Why())
		}
	}
	o.shown = shown
}

func node(name string) *corev1.Node {
	n := &corev1.Node{}
	n.Kind, n.APIVersion, n.Name, n.UID = "Node", "v1", name, "" // as the kubelet's own events, kubectl describe shows it by name
	return n
}

func (o *observer) Began(m *plan.Moving, pod *corev1.Pod) {
	o.events.Eventf(pod, nil, corev1.EventTypeNormal, "Moved", eventAction, "Evicted from %s, expected on %s: %s", m.From, m.To,
		m.Why())
	o.events.Eventf(node(m.From), nil, corev1.EventTypeNormal, "PodMoved", eventAction, "Moved pod %s/%s, expected on %s: %s",
		m.Namespace, m.Pod, m.To, m.Why())
}

func (o *observer) Refused(m *plan.Move, pod *corev1.Pod, reason string) {
	o.refused.WithLabelValues().Inc()
	o.events.Eventf(pod, nil, corev1.EventTypeNormal, "MoveRefused", eventAction, "Stays on %s: %.500s", m.From, reason)
}

func (o *observer) Ended(r *plan.Record) {
	o.moves.WithLabelValues(string(r.Outcome)).Inc()
	if problem := r.Problem(); problem != "" {
		if r.Outcome.Failed() {
			problem += fmt.Sprintf(". %s stays for a while", r.Owner)
		}
		o.events.Eventf(node(r.From), nil, corev1.EventTypeWarning, "MoveFailed", eventAction,
			"Pod %s/%s was moved, but %s", r.Namespace, r.Pod, problem)
	}
	if r.Replacement != "" {
		replacement := &corev1.Pod{}
		replacement.Kind, replacement.APIVersion = "Pod", "v1"
		replacement.Namespace, replacement.Name, replacement.UID = r.Namespace, r.Replacement, r.ReplacementUID
		o.events.Eventf(replacement, nil, corev1.EventTypeNormal, "Moved", eventAction, "Replaces %s, which was moved from %s (%s): %s",
			r.Pod, r.From, r.Outcome, r.Why())
	}
}
