// Package counters counts the decisions of plugins, and those that were not made by measured load alone.
package counters

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Counters count one plugin's decisions, and those that were not made by measured load alone.
type Counters struct {
	Decisions metrics.CounterMetric
	// Absent and Expired count the decisions in which at least one node was judged without load, because none was ever
	// measured or because it was too old. Skipped counts those in which no node's load was known.
	Absent, Expired, Skipped metrics.CounterMetric
}

// Decision counts a decision, and whether the plugin skips it because no node's load is known.
func (c *Counters) Decision(skipped bool) {
	c.Decisions.Inc()
	if skipped {
		c.Skipped.Inc()
	}
}

// Fallbacks are the states that Fallback counted in one decision. It is safe for concurrent use.
type Fallbacks struct{ absent, expired atomic.Bool }

// Fallback counts that a node was judged without its load, which is in the given state. Each state counts once a decision;
// counted holds which have been.
func (c *Counters) Fallback(counted *Fallbacks, state load.State) {
	flag, counter := &counted.absent, c.Absent
	if state == load.Expired {
		flag, counter = &counted.expired, c.Expired
	}
	if !flag.Load() && flag.CompareAndSwap(false, true) {
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
				"not lately (Expired) were judged otherwise, or no load was known and the plugin left the decision to others (StepAside).",
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
		Skipped:   m.fallbacks.WithLabelValues(plugin, "StepAside"),
	}
}
