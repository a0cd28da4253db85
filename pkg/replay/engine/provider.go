package engine

import (
	"context"
	"errors"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// loadProvider gives plugins the simulated load, whatever source their arguments name. It is read each Tick, whatever their
// refreshInterval is.
type loadProvider struct {
	clock     clock.Clock
	watcher   *refresh.Watcher
	snapshots *estimate.Snapshots
	models    []*estimate.Model
	// used says that a plugin reads load.
	used       bool
	statistics []*statistics
}

var _ plugins.LoadProvider = &loadProvider{}

func newLoadProvider(m *measured, c clock.Clock, registry metrics.KubeRegistry) *loadProvider {
	watcher := refresh.NewWatcher(m, m.Name(), m, c, refresh.NewMetrics(registry))
	return &loadProvider{clock: c, watcher: watcher, snapshots: estimate.NewSnapshots(watcher.Publisher())}
}

// Model implements plugins.LoadProvider.
func (p *loadProvider) Model(_ context.Context, _ minor.Handle, spec config.LoadSpec, e podusage.Estimator) (*estimate.Model, error) {
	window, trust := spec.Window.Duration, provider.TrustOf(spec)
	p.watcher.Register(load.Requirements{Windows: []time.Duration{window}, RefreshInterval: input.Tick}, trust)
	p.used = true
	c := estimate.Config{Window: window, Trust: trust, Estimator: e, Clock: p.clock}
	for _, m := range p.models {
		if m.Config() == c {
			return m, nil
		}
	}
	m := estimate.NewModel(p.snapshots, c)
	p.models = append(p.models, m)
	return m, nil
}

// QuantileModel implements plugins.LoadProvider.
func (p *loadProvider) QuantileModel(context.Context, minor.Handle, config.LoadSpec, float64, podusage.Estimator) (*estimate.Model, error) {
	return nil, errors.New("a replay measures means and deviations alone: write another statistic than P95 and Max")
}

// Statistics implements plugins.LoadProvider.
func (p *loadProvider) Statistics(_ context.Context, _ minor.Handle, _ config.LoadSpec, spec config.StatisticsSpec) (*learned.Publisher, error) {
	for _, s := range p.statistics {
		if s.spec == spec {
			return s.publisher, nil
		}
	}
	s := newStatistics(spec)
	p.statistics = append(p.statistics, s)
	return s.publisher, nil
}

// NodeMetrics implements plugins.LoadProvider.
func (p *loadProvider) NodeMetrics(context.Context, minor.Handle, config.LoadSpec, []string) (*estimate.NodeMetrics, error) {
	return nil, errors.New("a replay has no values of PromQL expressions: remove the plugin from the profile")
}

// refresh reads the load that was measured up to now.
func (p *loadProvider) refresh(ctx context.Context) error {
	if !p.used {
		return nil
	}
	return p.watcher.Refresh(ctx)
}
