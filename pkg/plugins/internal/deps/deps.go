// Package deps holds what a plugin is given in addition to its arguments and its handle.
package deps

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
)

// LoadProvider opens readers of load.
type LoadProvider interface {
	// Open returns a reader of what the request asks for. The source is read until ctx is done.
	Open(ctx context.Context, request reading.Request) (*reading.Reader, error)
}

// Deps is what a plugin is given in addition to its arguments and its handle.
type Deps struct {
	Load LoadProvider
	// Counters are those of the plugin.
	Counters counters.Counters
	Clock    clock.Clock
}
