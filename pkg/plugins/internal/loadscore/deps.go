package loadscore

import (
	"context"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Deps is what a load plugin is given beside its arguments.
type Deps struct {
	// Model gives the load model that the arguments ask for, in which pods are expected to use what usage says. The load
	// is read until ctx is done.
	Model func(ctx context.Context, spec config.LoadSpec, usage load.Usage) (*load.Model, error)
	// Counters are the plugin's own.
	Counters Counters
}
