// Package source says what a metrics source is. Each kind of source is a package below it.
package source

import (
	"context"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Source measures the load of nodes. An implementation need not be safe for concurrent use: one Watcher calls it, one
// refresh after the other.
type Source interface {
	// Name is what the source is called in logs and metrics, such as "Prometheus".
	Name() string
	// Fetch measures all nodes over each of the windows in a number of queries that does not grow with the nodes. It
	// returns by the time ctx is done or its own timeout has run out. Part of the nodes, or of the windows, is a good
	// answer; an answer without any sample is an error.
	Fetch(ctx context.Context, windows []time.Duration) (Batch, error)
}

// Batch is what one refresh brought.
type Batch struct {
	// Samples holds at most one sample per node and window. Values are as measured: the reader checks them.
	Samples []load.Sample
	// Unmatched describes the series that belong to no node, most notable first, shortened by the source to a few.
	Unmatched []string
	// UnmatchedCount is the number of series that belong to no node.
	UnmatchedCount int
}
