// Package plugins lists the plugins that the scheduler is built with.
package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/lowriskovercommitment"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/peaks"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/predictedpeak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
)

// LoadProvider opens the sources that plugins' arguments name.
type LoadProvider = deps.LoadProvider

// Terms are the terms of one node's score.
type Terms = explain.Terms

// Term is one of the Terms, as an operator reads it.
type Term = explain.Term

// Explainer is a plugin that shows its Terms. All plugins are Explainers.
type Explainer = explain.Explainer

// LoadReader is a plugin that filters or scores nodes by their load. All plugins but NodeMetrics are LoadReaders.
type LoadReader = explain.LoadReader

// LoadLine compares a node with the load line of a LoadReader.
type LoadLine = explain.LoadLine

// Limit is a limit that a filter compares a figure of the node with.
type Limit = explain.Limit

// Limiter is Terms of a plugin that filters by limits.
type Limiter = explain.Limiter

// PodUsage is the usage of one resource that a plugin expects of the incoming pod.
type PodUsage = explain.PodUsage

// UsageExplainer is an Explainer that predicts the usage of the incoming pod.
type UsageExplainer = explain.UsageExplainer

// Descriptor describes a plugin to the rest of the program.
type Descriptor = descriptor.Descriptor

// All returns the descriptors of all plugins, for one scheduler.
func All() []Descriptor {
	return []Descriptor{
		loadthreshold.Describe(),
		loadvariationriskbalancing.Describe(),
		lowriskovercommitment.Describe(),
		nodemetrics.Describe(),
		peaks.Describe(),
		predictedpeak.Describe(),
		targetloadpacking.Describe(),
	}
}

// Find returns the descriptor of the named plugin; the zero Descriptor if it is none of these.
func Find(name string) Descriptor {
	for _, d := range All() {
		if d.Name == name {
			return d
		}
	}
	return Descriptor{}
}

// Lint returns what configlint knows of the plugins.
func Lint() []configlint.Plugin {
	var all []configlint.Plugin
	for _, d := range All() {
		all = append(all, configlint.Plugin{Name: d.Name, ScoresByLoad: d.ScoresByLoad, Limits: d.Limits})
	}
	return all
}

// NewRegistry returns the factories of all plugins of one scheduler, by name. Their telemetry is registered by register.
func NewRegistry(provider LoadProvider, c clock.Clock, register func(...metrics.Registerable)) frameworkruntime.Registry {
	counterSets := counters.NewMetrics(register)
	registry := frameworkruntime.Registry{}
	for _, d := range All() {
		given := deps.Deps{Load: provider, Counters: counterSets.For(d.Name), Clock: c}
		registry[d.Name] = func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
			return d.New(ctx, args, handle, given)
		}
	}
	return registry
}
