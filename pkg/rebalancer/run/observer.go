package run

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// eventAction is the action of all events.
const eventAction = "Rebalance"

// observer counts what happens, and records events. Use it by one goroutine at a time.
type observer struct {
	events                 events.EventRecorder
	hot, planned, underWay *metrics.Gauge
	stopped, staying       *metrics.GaugeVec
	moves, minutes, steps  *metrics.CounterVec
	refused, regrets       *metrics.Counter
	shown                  map[string]string
}

var _ plan.Observer = &observer{}

func newObserver(register func(...metrics.Registerable)) *observer {
	gauge := func(name, help string) metrics.GaugeOpts {
		return metrics.GaugeOpts{Subsystem: "plimsoll_rebalancer", Name: name, Help: help, StabilityLevel: metrics.ALPHA}
	}
	counter := func(name, help string) *metrics.CounterOpts {
		o := metrics.CounterOpts(gauge(name, help))
		return &o
	}
	newGauge := func(name, help string) *metrics.Gauge {
		o := gauge(name, help)
		return metrics.NewGauge(&o)
	}
	newVec := func(name, help, label string) *metrics.GaugeVec {
		o := gauge(name, help)
		return metrics.NewGaugeVec(&o, []string{label})
	}
	o := &observer{
		hot:      newGauge("hot_nodes", "Nodes above their load line for so long that pods should move."),
		planned:  newGauge("planned_moves", "Moves of the last plan that were not begun."),
		underWay: newGauge("moves_under_way", "Moves whose replacement is not ready yet."),
		stopped:  newVec("stopped", "1 if this reason stops all moves, else 0.", "reason"),
		staying:  newVec("staying_pods", "Pods of hot nodes that stay, by the reason.", "reason"),
		moves: metrics.NewCounterVec(counter("moves_total",
			"Moves that ended. Landed is on another node that is not above its line, LandedHot on one above it. "+
				"Returned and NotReady are failures."),
			[]string{"outcome"}),
		minutes: metrics.NewCounterVec(counter("hot_minutes_total",
			"Minutes above the line that moves of the last hour removed from their sources, or added to destinations."), []string{"effect"}),
		refused: metrics.NewCounter(counter("refused_evictions_total", "Evictions that a budget, a webhook or a quota refused.")),
		regrets: metrics.NewCounter(counter("regrets_total", "Moves back to the source, or that made their destination hot.")),
		steps: metrics.NewCounterVec(counter("steps_total", "Steps, of which each looks for pauses, replacements and hot nodes."),
			[]string{"result"}),
		shown: map[string]string{},
	}
	register(o.hot, o.planned, o.underWay, o.stopped, o.staying, o.moves, o.minutes, o.refused, o.regrets, o.steps)
	for _, outcome := range plan.Outcomes() {
		o.moves.WithLabelValues(string(outcome))
	}
	for _, result := range []string{succeeded, failed} {
		o.steps.WithLabelValues(result)
	}
	for _, effect := range []string{removed, added} {
		o.minutes.WithLabelValues(effect)
	}
	for _, stop := range plan.Stops() {
		o.stopped.WithLabelValues(string(stop))
	}
	return o
}

// The effects of moves on hot minutes.
const removed, added = "Removed", "Added"

// The results of steps.
const succeeded, failed = "Success", "Failure"

// show shows the result of a step. In plan mode, nodes get an event for each new plan.
func (o *observer) show(s *plan.Status, plans bool) {
	o.underWay.Set(float64(len(s.UnderWay)))
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
	o.hot.Set(float64(len(s.Plan.Hot)))
	o.planned.Set(float64(len(s.Plan.Moves)))
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

// Began implements plan.Observer.
func (o *observer) Began(m *plan.Moving, pod *corev1.Pod) {
	o.events.Eventf(pod, nil, corev1.EventTypeNormal, "Moved", eventAction, "Evicted from %s, expected on %s: %s", m.From, m.To,
		m.Why())
	o.events.Eventf(node(m.From), nil, corev1.EventTypeNormal, "PodMoved", eventAction, "Moved pod %s/%s, expected on %s: %s",
		m.Namespace, m.Pod, m.To, m.Why())
}

// Refused implements plan.Observer.
func (o *observer) Refused(m *plan.Move, pod *corev1.Pod, reason string) {
	o.refused.Inc()
	o.events.Eventf(pod, nil, corev1.EventTypeNormal, "MoveRefused", eventAction, "Stays on %s: %.500s", m.From, reason)
}

// Ended implements plan.Observer.
func (o *observer) Ended(r *plan.Record) {
	o.moves.WithLabelValues(string(r.Outcome)).Inc()
	if r.Outcome == plan.Returned {
		o.regrets.Inc()
	}
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

// HotMinutes implements plan.Observer.
func (o *observer) HotMinutes(less, more float64) {
	o.minutes.WithLabelValues(removed).Add(less)
	o.minutes.WithLabelValues(added).Add(more)
}

// Regretted implements plan.Observer.
func (o *observer) Regretted(*plan.Record) { o.regrets.Inc() }
