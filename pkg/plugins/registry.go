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
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
)

// Models gives the load model that a plugin's arguments ask for. The load is read until ctx is done.
type Models interface {
	Model(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, usage load.Usage) (*load.Model, error)
}

// NewRegistry returns the factories of all plugins, by name. Their metrics are registered by register.
func NewRegistry(models Models, register func(...metrics.Registerable)) frameworkruntime.Registry {
	type builder = func(context.Context, runtime.Object, loadscore.Deps) (fwk.Plugin, error)
	loadMetrics := loadscore.NewMetrics(register)
	registry := frameworkruntime.Registry{}
	for name, build := range map[string]builder{
		loadvariationriskbalancing.Name: loadvariationriskbalancing.New,
		targetloadpacking.Name:          targetloadpacking.New,
	} {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return build(ctx, args, loadscore.Deps{
				Model: func(ctx context.Context, spec config.LoadSpec, usage load.Usage) (*load.Model, error) {
					return models.Model(ctx, handle, spec, usage)
				},
				Counters: loadMetrics.For(name),
			})
		}
	}
	return registry
}
