// Package plugins lists the plugins that the scheduler is built with.
package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/decisionrecord"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/incrementalinterpodaffinity"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/incrementalpodtopologyspread"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/lowriskovercommitment"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/peaks"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/predictedpeak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/requestbounds"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
)

// All returns the descriptors of all plugins, for one scheduler.
func All() []descriptor.Descriptor {
	return []descriptor.Descriptor{
		decisionrecord.Describe(),
		incrementalinterpodaffinity.Describe(),
		incrementalpodtopologyspread.Describe(),
		loadthreshold.Describe(),
		loadvariationriskbalancing.Describe(),
		lowriskovercommitment.Describe(),
		nodemetrics.Describe(),
		peaks.Describe(),
		predictedpeak.Describe(),
		requestbounds.Describe(),
		targetloadpacking.Describe(),
	}
}

// Find returns the descriptor of the named plugin, or the zero Descriptor.
func Find(name string) descriptor.Descriptor {
	for _, d := range All() {
		if d.Name == name {
			return d
		}
	}
	return descriptor.Descriptor{}
}

// LintOptions describe this version's scheduler to configlint, without flags and environment.
func LintOptions() configlint.Options {
	var o configlint.Options
	for _, d := range All() {
		o.LoadPlugins = append(o.LoadPlugins, configlint.Plugin{
			Name: d.Name, ScoresByLoad: d.ScoresByLoad, Limits: d.Limits, Replaces: d.Replaces,
			Validate: d.Validate,
		})
	}
	return o
}

// LoadRequests returns what the configuration's plugins ask of sources of load.
func LoadRequests(cfg *kubeschedulerconfig.KubeSchedulerConfiguration) (requests []reading.Request) {
	for i := range cfg.Profiles {
		for _, plugin := range cfg.Profiles[i].PluginConfig {
			if d := Find(plugin.Name); d.Reads != nil && configlint.Builds(&cfg.Profiles[i], plugin.Name) {
				requests = append(requests, d.Reads(plugin.Args))
			}
		}
	}
	return requests
}

// NewRegistry returns the factories of all plugins of one scheduler, by name. Their telemetry is registered by register.
func NewRegistry(
	provider descriptor.LoadProvider, c clock.Clock, register func(...metrics.Registerable),
) frameworkruntime.Registry {
	counterSets := descriptor.NewMetrics(register)
	pods := podindex.New()
	explainers := map[minor.Handle][]explain.Explainer{} // of each profile
	registry := frameworkruntime.Registry{}
	for _, d := range All() {
		given := descriptor.Deps{Load: provider, Clock: c, Records: counterSets.Records, Pods: pods}
		if d.Reads != nil { // the others never miss load
			given.Counters = counterSets.For(d.Name)
		}
		registry[d.Name] = func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
			given := given
			given.Explainers = func() []explain.Explainer { return explainers[handle] }
			pl, err := d.New(ctx, args, handle, given)
			if e, ok := pl.(explain.Explainer); ok {
				explainers[handle] = append(explainers[handle], e)
			}
			return pl, err
		}
	}
	return registry
}

// Replacements returns the factories of the plugins that replace stock ones, for one scheduler without load, by name.
func Replacements() frameworkruntime.Registry {
	deps, registry := descriptor.Deps{Pods: podindex.New()}, frameworkruntime.Registry{}
	for _, d := range All() {
		if d.Replaces != "" {
			registry[d.Name] = func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
				return d.New(ctx, args, handle, deps)
			}
		}
	}
	return registry
}
