// Package counters counts the decisions of plugins, and those that were not made by what is measured alone.
package counters

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Counters count one plugin's decisions and those that were not made by measured load alone.
type Counters struct {
	Decisions metrics.CounterMetric
	// Absent and Expired count the decisions in which at least one node was judged without load, because none was ever
	// measured or because it was too old. Aside counts those in which no node's load was known.
	Absent, Expired, Aside metrics.CounterMetric
}

// Noted holds for which reasons a decision has been counted. It is safe for concurrent use.
type Noted struct{ absent, expired atomic.Bool }

// FallBack counts that a node of the decision was judged without what should have been measured of it, which is in the given
// state. A reason counts once a decision, whose notes are noted.
func (c *Counters) FallBack(noted *Noted, state load.State) {
	reason, counter := &noted.absent, c.Absent
	if state == load.Expired {
		reason, counter = &noted.expired, c.Expired
	}
	if !reason.Load() && reason.CompareAndSwap(false, true) {
		counter.Inc()
	}
}

// Metrics are the metrics of all plugins.
type Metrics struct {
	decisions *metrics.CounterVec
	fallbacks *metrics.CounterVec
}

// NewMetrics returns the metrics, registered by register.
func NewMetrics(register func(...metrics.Registerable)) *Metrics {
	m := &Metrics{
		decisions: metrics.NewCounterVec(&metrics.CounterOpts{
			Name:           "plimsoll_decisions_total",
			Help:           "Placements that the plugin was asked about.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"plugin"}),
		fallbacks: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "plimsoll_fallback_total",
			Help: "Placements that the plugin could not judge by measured load alone: nodes never measured (Absent) or " +
				"not lately (Expired) were judged otherwise, or no load was known and the plugin stepped aside (StepAside).",
			StabilityLevel: metrics.ALPHA,
		}, []string{"plugin", "reason"}),
	}
	register(m.decisions, m.fallbacks)
	return m
}

// For returns the counters of the named plugin, which begin at zero.
func (m *Metrics) For(plugin string) Counters {
	return Counters{
		Decisions: m.decisions.WithLabelValues(plugin),
		Absent:    m.fallbacks.WithLabelValues(plugin, "Absent"),
		Expired:   m.fallbacks.WithLabelValues(plugin, "Expired"),
		Aside:     m.fallbacks.WithLabelValues(plugin, "StepAside"),
	}
}
