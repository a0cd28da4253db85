// Package plugins lists the plugins that the scheduler is built with.
package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
)

// Models gives the load model that a plugin's arguments ask for. The load is read until ctx is done.
type Models interface {
	Model(ctx context.Context, handle fwk.Handle, spec config.LoadSpec) (*load.Model, error)
}

// NewRegistry returns the factories of all plugins, by name.
func NewRegistry(models Models) frameworkruntime.Registry {
	type modelOf = func(context.Context, config.LoadSpec) (*load.Model, error)
	factory := func(build func(context.Context, runtime.Object, modelOf) (fwk.Plugin, error)) frameworkruntime.PluginFactory {
		return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return build(ctx, args, func(ctx context.Context, spec config.LoadSpec) (*load.Model, error) {
				return models.Model(ctx, handle, spec)
			})
		}
	}
	return frameworkruntime.Registry{
		loadvariationriskbalancing.Name: factory(loadvariationriskbalancing.New),
		targetloadpacking.Name:          factory(targetloadpacking.New),
	}
}
