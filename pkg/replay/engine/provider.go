package engine

import (
	"context"
	"errors"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// loadProvider gives plugins the simulated load, whatever source their arguments name. It is read each Tick, whatever their
// refreshInterval is.
type loadProvider struct {
	watcher *refresh.Watcher
	source  *reading.Source
	// used says that a plugin reads load.
	used       bool
	statistics []*statistics
}

var _ plugins.LoadProvider = &loadProvider{}

func newLoadProvider(m *measured, c clock.Clock, registry metrics.KubeRegistry) *loadProvider {
	watcher := refresh.NewWatcher(m, m.Name(), m, c, refresh.NewMetrics(registry))
	return &loadProvider{watcher: watcher, source: reading.NewSource(watcher.Publisher(), c)}
}

// Open implements plugins.LoadProvider.
func (p *loadProvider) Open(_ context.Context, request reading.Request) (*reading.Reader, error) {
	switch {
	case len(request.Metrics) > 0:
		return nil, errors.New("a replay has no values of PromQL expressions: remove the plugin from the profile")
	case request.Fraction > 0:
		return nil, errors.New("a replay measures means and deviations alone: write another statistic than P95 and Max")
	}
	requirements := request.Requirements()
	requirements.RefreshInterval = input.Tick
	p.watcher.Register(requirements, request.Trust())
	p.used = true
	if request.Peak != nil {
		return p.source.Reader(request, p.workloads(request.Peak.StatisticsSpec)), nil
	}
	return p.source.Reader(request, nil), nil
}

// workloads returns the statistics that the spec describes.
func (p *loadProvider) workloads(spec config.StatisticsSpec) *learned.Publisher {
	for _, s := range p.statistics {
		if s.spec == spec {
			return s.publisher
		}
	}
	s := newStatistics(spec)
	p.statistics = append(p.statistics, s)
	return s.publisher
}

// refresh reads the load that was measured up to now.
func (p *loadProvider) refresh(ctx context.Context) error {
	if !p.used {
		return nil
	}
	return p.watcher.Refresh(ctx)
}
