// Package plugins lists the plugins that the scheduler is built with.
package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
)

// Models gives what a plugin's arguments ask for: a model of the load, or metrics. They are read until ctx is done.
type Models interface {
	Model(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, usage load.Usage) (*load.Model, error)
	Metrics(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, expressions []string) (*load.Metrics, error)
}

// NewRegistry returns the factories of all plugins of one scheduler, by name. Their metrics are registered by register.
func NewRegistry(models Models, register func(...metrics.Registerable)) frameworkruntime.Registry {
	type builder = func(context.Context, runtime.Object, deps.Deps) (fwk.Plugin, error)
	counts := counters.NewMetrics(register)
	registry := frameworkruntime.Registry{}
	for name, build := range map[string]builder{
		loadthreshold.Name:              new(loadthreshold.Factory).New,
		loadvariationriskbalancing.Name: loadvariationriskbalancing.New,
		nodemetrics.Name:                nodemetrics.New,
		targetloadpacking.Name:          targetloadpacking.New,
	} {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return build(ctx, args, deps.Deps{
				Handle: handle,
				Model: func(ctx context.Context, spec config.LoadSpec, usage load.Usage) (*load.Model, error) {
					return models.Model(ctx, handle, spec, usage)
				},
				Metrics: func(ctx context.Context, spec config.LoadSpec, expressions []string) (*load.Metrics, error) {
					return models.Metrics(ctx, handle, spec, expressions)
				},
				Counters: counts.For(name),
			})
		}
	}
	return registry
}
