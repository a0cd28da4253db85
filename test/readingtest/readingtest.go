// Package readingtest gives readers, in tests, what the test says was measured.
package readingtest

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

// Loads opens readers of one publisher, whatever source they request. Use New.
type Loads struct {
	*load.Publisher
	// Source is what the readers read.
	Source *reading.Source
	// Workloads publishes the statistics of workloads.
	Workloads *learned.Publisher

	mu sync.Mutex
	// required is what the readers require.
	required load.Requirements
	// nodes and metrics are those of MeasureAll.
	nodes   map[string]load.NodeLoad
	metrics map[string]load.MetricTable
}

// New returns loads of which nothing is known yet.
func New(c clock.PassiveClock) *Loads {
	p := load.NewPublisher()
	return &Loads{Publisher: p, Source: reading.NewSource(p, c), Workloads: learned.NewPublisher()}
}

// MeasureAll publishes the nodes' load for every window and every quantile, now and later.
// Metrics, by expression, may be nil.
func (l *Loads) MeasureAll(nodes map[string]load.NodeLoad, metrics map[string]load.MetricTable) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes, l.metrics = nodes, metrics
	l.publishAll()
}

func (l *Loads) publishAll() {
	const unread = -1 // has all nodes, also where no window is read
	byWindow := map[time.Duration]map[string]load.NodeLoad{unread: l.nodes}
	for _, window := range l.required.Windows {
		byWindow[window] = overWindow(l.nodes, window)
	}
	for _, q := range l.required.Quantiles {
		byWindow[q.Window] = overWindow(l.nodes, q.Window)
	}
	s := loadtest.Snapshot(byWindow, l.metrics)
	quantiles := map[load.Quantile]*load.Table{}
	for _, q := range l.required.Quantiles {
		quantiles[q] = s.Over(q.Window)
	}
	means := map[time.Duration]*load.Table{}
	for _, window := range l.required.Windows {
		means[window] = s.Over(window)
	}
	l.Publish(load.NewSnapshot(s.Index(), means, l.metrics).WithQuantiles(quantiles))
}

func overWindow(nodes map[string]load.NodeLoad, window time.Duration) map[string]load.NodeLoad {
	over := maps.Clone(nodes)
	for name, measured := range over {
		for r := range measured {
			measured[r].Window = window
		}
		over[name] = measured
	}
	return over
}

// Open returns a reader of the publisher.
func (l *Loads) Open(_ context.Context, _ minor.Handle, request reading.Request) (*reading.Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.required = l.required.Add(request.Requirements())
	if l.nodes != nil || l.metrics != nil {
		l.publishAll()
	}
	return l.Source.Reader(request, l.Workloads), nil
}
