package descriptor

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Counters count one plugin's decisions and fallbacks.
type Counters struct {
	Decisions metrics.CounterMetric
	// Absent counts decisions with a node that was never measured, Expired with one whose load is too old. Skipped counts decisions in
	// which no node's load was known.
	Absent, Expired, Skipped metrics.CounterMetric

	plugin string
	lines  *metrics.GaugeVec
}

// Lines shows the lowest and the highest load line of the nodes, in percent; 0 if there is none.
func (c *Counters) Lines(r load.Resource, lowest, highest int) {
	for bound, percent := range map[string]int{"Lowest": lowest, "Highest": highest} {
		labels := map[string]string{"plugin": c.plugin, "resource": r.String(), "bound": bound}
		if percent > 0 {
			c.lines.With(labels).Set(float64(percent) / 100)
		} else {
			c.lines.Delete(labels)
		}
	}
}

// Decision counts a decision, and whether the plugin skips it because no node's load is known.
func (c *Counters) Decision(skipped bool) {
	c.Decisions.Inc()
	if skipped {
		c.Skipped.Inc()
	}
}

// Fallbacks holds the states already counted for one decision. It is safe for concurrent use.
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
	lines     *metrics.GaugeVec
	// Records counts recorded decisions by result.
	Records *metrics.CounterVec
}

// Names of metrics that doctor reads.
const (
	DecisionsTotal = "plimsoll_decisions_total"
	FallbackTotal  = "plimsoll_fallback_total"
)

// NewMetrics returns the metrics, registered by register.
func NewMetrics(register func(...metrics.Registerable)) *Metrics {
	counter := func(name, help string, labels ...string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	}
	m := &Metrics{
		decisions: counter(DecisionsTotal, "Placements that the plugin was asked about.", "plugin"),
		fallbacks: counter(FallbackTotal,
			"Placements that the plugin did not decide by measured load alone, by reason: a node was never measured (Absent) "+
				"or not lately (Expired), or no load was known and the plugin left the decision to others (StepAside).",
			"plugin", "reason"),
		lines: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "plimsoll_load_line_ratio", Help: "Load line of the nodes with the Lowest and the Highest one, as a share of capacity.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"plugin", "resource", "bound"}),
		Records: counter("plimsoll_decision_records_total",
			"Decisions to record by result: Written to an Event, Dropped because of the rate, or Failed.", "result"),
	}
	register(m.decisions, m.fallbacks, m.lines, m.Records)
	return m
}

// For returns the counters of the named plugin, which begin at zero.
func (m *Metrics) For(plugin string) Counters {
	return Counters{
		Decisions: m.decisions.WithLabelValues(plugin), Absent: m.fallbacks.WithLabelValues(plugin, "Absent"),
		Expired: m.fallbacks.WithLabelValues(plugin, "Expired"), Skipped: m.fallbacks.WithLabelValues(plugin, "StepAside"),
		plugin: plugin, lines: m.lines,
	}
}
