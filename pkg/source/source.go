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
	// Fetch measures all nodes in a number of queries that does not grow with the nodes. It returns by the time ctx is done
	// or its own timeout has run out. Part of what is asked for is a good answer; an answer that holds nothing is an error.
	Fetch(ctx context.Context, request Request) (Batch, error)
}

// Request is what one refresh asks for.
type Request struct {
	// Windows are the spans that load is measured over; none asks for no load.
	Windows []time.Duration
	// Metrics are PromQL expressions with one value per node. Sources that do not speak PromQL answer none.
	Metrics []string
}

// MetricValues are the values of one of a Request's Metrics.
type MetricValues struct {
	// Metric is the PromQL expression.
	Metric string
	// End is the moment the expression was evaluated at.
	End time.Time
	// Values are by name of the Node object, as they came: the reader checks them.
	Values map[string]float64
}

// Batch is what one refresh brought.
type Batch struct {
	// Samples holds at most one sample per node and window. Values are as measured: the reader checks them.
	Samples []load.Sample
	// Metrics holds at most one element per metric; a metric that could not be read has none.
	Metrics []MetricValues
	// Unmatched describes the series that belong to no node, most notable first, shortened by the source to a few.
	Unmatched []string
	// UnmatchedCount is the number of series that belong to no node.
	UnmatchedCount int
}
