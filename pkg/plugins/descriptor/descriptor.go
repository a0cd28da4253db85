// Package descriptor describes plugins to the rest of the program.
package descriptor

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
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
	// LineRank orders the plugins with a load line in a profile, from 1; 0 means no load line.
	LineRank int
	// ScoresByLoad reports whether scores by requests must not outweigh those of the plugin.
	ScoresByLoad bool
	// BesideRequests is as in configlint.Plugin.
	BesideRequests func(args runtime.Object) bool
	// FilterSkipped and ScoreSkipped say why the plugin skipped.
	FilterSkipped, ScoreSkipped Skipped
}

// Skipped holds why a plugin skips. An empty reason is not shown.
type Skipped struct {
	// Unknown is the reason if no node's load is known, and Known if some node's is.
	Unknown, Known string
}

// NoLoad is the reason if no node's load is known.
const NoLoad = "no node has fresh load"

// Reason returns Known or Unknown.
func (s Skipped) Reason(loadKnown bool) string {
	if loadKnown {
		return s.Known
	}
	return s.Unknown
}

// LoadProvider opens readers of load.
type LoadProvider interface {
	// Open returns a reader for the request. The source is read until ctx is done.
	Open(ctx context.Context, request reading.Request) (*reading.Reader, error)
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
	// BesideRequests reports whether the plugin belongs beside scores by requests. It is nil for a plugin that does not.
	BesideRequests func(args Args) bool
	// Limits is nil for a plugin that does not filter.
	Limits func(args Args) configlint.Limits
	// Build makes the plugin of valid arguments.
	Build func(ctx context.Context, args Args, in Inputs) (minor.Plugin, error)
}

// WithoutLoad returns the descriptor of a plugin that reads no load and takes no arguments.
func WithoutLoad(d Descriptor, build func(in Inputs) (minor.Plugin, error)) Descriptor {
	d.Limits = func(runtime.Object) configlint.Limits { return configlint.Limits{} }
	d.New = func(_ context.Context, args runtime.Object, handle minor.Handle, deps Deps) (minor.Plugin, error) {
		if args != nil {
			return nil, errors.New("the plugin takes no arguments: remove its entry in pluginConfig")
		}
		return build(Inputs{Deps: deps, Handle: handle})
	}
	return d
}

// Of returns the descriptor with the functions of the plugin.
func Of[Args runtime.Object](d Descriptor, p Parts[Args]) Descriptor {
	if p.Reads != nil {
		d.Reads = func(args runtime.Object) reading.Request { return p.Reads(args.(Args)) }
	}
	if p.BesideRequests != nil {
		d.BesideRequests = func(args runtime.Object) bool { return args == nil || p.BesideRequests(args.(Args)) }
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
			if in.Reader, err = deps.Load.Open(ctx, p.Reads(args).In(reading.ClusterOf(handle))); err != nil {
				return nil, err
			}
		}
		return p.Build(ctx, args, in)
	}
	return d
}
