// Package descriptor describes plugins to the rest of the program.
package descriptor

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

// Descriptor describes a plugin to other packages.
type Descriptor struct {
	// Name is the name of the plugin in configurations.
	Name string
	// New makes the plugin. It fails if the arguments are not valid.
	New func(ctx context.Context, args runtime.Object, handle minor.Handle, deps Deps) (minor.Plugin, error)
	// Reads returns what a plugin with valid arguments reads; it is nil for a plugin that reads no load.
	Reads func(args runtime.Object) reading.Request
	// Limits says how a plugin with valid arguments filters; nil arguments are the defaults.
	Limits func(args runtime.Object) configlint.Limits
	// Replaces is the stock plugin whose answers the plugin gives faster; empty for none. New takes the stock plugin's arguments too.
	Replaces string
	// Validate validates arguments that apis/config/validation leaves to the scheduler; nil for none.
	Validate func(path *field.Path, args runtime.Object) error
	// LineRank orders the plugins with a load line or target in a profile, from 1; 0 means neither.
	LineRank int
	// ScoresByLoad reports whether scores by requests must not outweigh those of the plugin.
	ScoresByLoad bool
}

// LoadProvider opens readers of load.
type LoadProvider interface {
	// Open returns a reader for the request, of the handle's cluster. The source is read until ctx is done.
	Open(ctx context.Context, handle minor.Handle, request reading.Request) (*reading.Reader, error)
}

// Deps are a plugin's dependencies, beside its arguments and its handle.
type Deps struct {
	Load LoadProvider
	// Counters are those of the plugin; the zero Counters for a plugin that reads no load.
	Counters Counters
	Clock    clock.Clock
	// Records counts recorded decisions by result.
	Records *metrics.CounterVec
	// Pods counts the pods of the scheduler's nodes.
	Pods *podindex.Index
	// Explainers returns those of the same profile, once all plugins are built.
	Explainers func() []explain.Explainer
}

// Inputs are those of a plugin, beside its arguments.
type Inputs struct {
	Deps
	Handle minor.Handle
	// Reader reads what Parts.Reads returned; it is nil for a plugin that reads no load.
	Reader *reading.Reader
}

// Parts are the functions of a plugin with arguments of one type.
type Parts[Args runtime.Object] struct {
	// Reads is nil for a plugin that reads no load.
	Reads func(args Args) reading.Request
	// Limits is nil for a plugin that does not filter.
	Limits func(args Args) configlint.Limits
	// Build makes the plugin of valid arguments.
	Build func(ctx context.Context, args Args, in Inputs) (minor.Plugin, error)
}

// Of returns the descriptor with the functions of the plugin.
func Of[Args runtime.Object](d Descriptor, p Parts[Args]) Descriptor {
	if p.Reads != nil {
		d.Reads = func(args runtime.Object) reading.Request { return p.Reads(args.(Args)) }
	}
	d.Limits = func(args runtime.Object) configlint.Limits {
		switch {
		case p.Limits == nil:
			return configlint.Limits{}
		case args == nil:
			return configlint.Limits{Filters: true}
		}
		return p.Limits(args.(Args))
	}
	d.New = func(ctx context.Context, object runtime.Object, handle minor.Handle, deps Deps) (minor.Plugin, error) {
		args, ok := object.(Args)
		if !ok {
			return nil, fmt.Errorf("want args of type %T, got %T", args, object)
		}
		err := validation.ValidateArgs(nil, args)
		if err != nil {
			return nil, err
		}
		in := Inputs{Deps: deps, Handle: handle}
		if p.Reads != nil {
			if in.Reader, err = deps.Load.Open(ctx, handle, p.Reads(args)); err != nil {
				return nil, err
			}
		}
		return p.Build(ctx, args, in)
	}
	return d
}

// Replacing returns the descriptor of a plugin that replaces a stock one. stockArgs turns arguments of the plugin into stock ones.
func Replacing[Own, Stock runtime.Object, P minor.Plugin](
	name, replaces string, stockArgs func(Own) Stock, validate func(*field.Path, Stock) error,
	build func(context.Context, Stock, minor.Handle, *podindex.Index) (P, error),
) Descriptor {
	return Descriptor{
		Name: name, Replaces: replaces, Limits: NoLimits,
		Validate: func(path *field.Path, args runtime.Object) error {
			if own, ok := args.(Own); ok {
				return validate(path, stockArgs(own))
			}
			return nil
		},
		New: func(ctx context.Context, args runtime.Object, handle minor.Handle, deps Deps) (minor.Plugin, error) {
			if own, ok := args.(Own); ok {
				args = stockArgs(own)
			}
			stock, ok := args.(Stock)
			if !ok {
				return nil, fmt.Errorf("want args of type %sArgs, got %T", name, args)
			}
			return build(ctx, stock, handle, deps.Pods)
		},
	}
}

// NoLimits are the Limits of a plugin that does not filter by load.
func NoLimits(runtime.Object) configlint.Limits { return configlint.Limits{} }

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
