// Package deps holds what a plugin is given in addition to its arguments and its handle.
package deps

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// LoadProvider opens the source that a plugin's arguments name. The source is read until ctx is done.
type LoadProvider interface {
	// Model returns a model of the nodes' load. Pods are estimated by e.
	Model(ctx context.Context, handle minor.Handle, spec config.LoadSpec, e podusage.Estimator) (*estimate.Model, error)
	// QuantileModel is Model with a quantile of the load in place of its mean: fraction is in (0, 1]. Only a Prometheus has quantiles.
	QuantileModel(ctx context.Context, handle minor.Handle, spec config.LoadSpec, fraction float64, e podusage.Estimator) (*estimate.Model, error)
	// Statistics returns what the statistics of the workloads' usage appear in. Equal specs share one publisher. It is empty until the
	// first statistics are known, and stays so where the source has none.
	Statistics(ctx context.Context, handle minor.Handle, spec config.LoadSpec, s config.StatisticsSpec) (*learned.Publisher, error)
	// NodeMetrics returns the node metrics of the PromQL expressions.
	NodeMetrics(ctx context.Context, handle minor.Handle, spec config.LoadSpec, expressions []string) (*estimate.NodeMetrics, error)
}

// Deps is what a plugin is given in addition to its arguments and its handle.
type Deps struct {
	Load LoadProvider
	// Counters are those of the plugin.
	Counters counters.Counters
	Clock    clock.Clock
}
