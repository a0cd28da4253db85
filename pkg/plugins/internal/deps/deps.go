// Package deps is what a plugin is given beside its arguments.
package deps

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
)

// Deps is what a plugin is given beside its arguments.
type Deps struct {
	Handle fwk.Handle
	// Model gives the load model that the arguments ask for, in which pods are expected to use what usage says, or what they
	// request if that is nil. The load is read until ctx is done.
	Model func(ctx context.Context, spec config.LoadSpec, usage load.Usage) (*load.Model, error)
	// Metrics gives the metrics of the PromQL expressions, which the arguments' source is asked for until ctx is done.
	Metrics func(ctx context.Context, spec config.LoadSpec, expressions []string) (*load.Metrics, error)
	// Counters are the plugin's own.
	Counters counters.Counters
}
