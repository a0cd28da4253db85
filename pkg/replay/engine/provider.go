package engine

import (
	"context"
	"errors"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// loadProvider gives plugins the simulated load. The watcher reads the simulated load at each Tick, not at each refreshInterval.
type loadProvider struct {
	measured *measured
	watcher  *refresh.Watcher
	source   *reading.Source
	// used is true once a plugin has opened a reader.
	used       bool
	statistics []*statistics
}

var _ descriptor.LoadProvider = &loadProvider{}

func newLoadProvider(m *measured, c clock.Clock, registry metrics.KubeRegistry) *loadProvider {
	watcher := refresh.NewWatcher(m, m.Name(), m, c, refresh.NewMetrics(registry))
	return &loadProvider{measured: m, watcher: watcher, source: reading.NewSource(watcher.Publisher(), c)}
}

func (p *loadProvider) Open(_ context.Context, request reading.Request) (*reading.Reader, error) {
	if len(request.Metrics) > 0 {
		return nil, errors.New("a replay has no node metrics: leave the plugin out of the profile")
	}
	requirements := request.Requirements()
	requirements.RefreshInterval = input.Tick
	for _, window := range request.Windows {
		p.measured.keep(window)
	}
	p.watcher.Register(requirements, request.Trust())
	p.used = true
	if request.Peak != nil {
		return p.source.Reader(request, p.publisher(request.Peak.StatisticsSpec)), nil
	}
	return p.source.Reader(request, nil), nil
}

// publisher returns the publisher of a spec's statistics. Readers with the same spec share it.
func (p *loadProvider) publisher(spec config.StatisticsSpec) *learned.Publisher {
	for _, s := range p.statistics {
		if s.spec == spec {
			return s.publisher
		}
	}
	s := newStatistics(spec, p.measured.capacity)
	p.statistics = append(p.statistics, s)
	return s.publisher
}

// refresh publishes the load of the ticks so far.
func (p *loadProvider) refresh(ctx context.Context) error {
	if !p.used {
		return nil
	}
	return p.watcher.Refresh(ctx)
}
