package descriptor

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Counters count one plugin's decisions and fallbacks.
type Counters struct {
	Decisions metrics.CounterMetric
	// Absent and Expired count decisions in which the load of a node was never measured or too old.
	// Skipped counts decisions in which no node's load was known.
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

// Fallback counts a node without fresh load. Each state counts once a decision; counted holds the counted states.
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
			Name: "plimsoll_decisions_total", Help: "Placements that the plugin was asked about.", StabilityLevel: metrics.ALPHA,
		}, []string{"plugin"}),
		fallbacks: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "plimsoll_fallback_total",
			Help: "Placements that the plugin did not decide by measured load alone, by reason: a node was never measured (Absent) " +
				"or not lately (Expired), or no load was known and the plugin left the decision to others (StepAside).",
			StabilityLevel: metrics.ALPHA,
		}, []string{"plugin", "reason"}),
	}
	register(m.decisions, m.fallbacks)
	return m
}

// For returns the counters of the named plugin, which begin at zero.
func (m *Metrics) For(plugin string) Counters {
	return Counters{
		Decisions: m.decisions.WithLabelValues(plugin), Absent: m.fallbacks.WithLabelValues(plugin, "Absent"),
		Expired: m.fallbacks.WithLabelValues(plugin, "Expired"), Skipped: m.fallbacks.WithLabelValues(plugin, "StepAside"),
	}
}
