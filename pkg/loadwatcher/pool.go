package loadwatcher

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Pool shares one Watcher per distinct source between all plugins and profiles of a process. K is what makes two sources
// the same: a comparable value of all their settings. It is safe for concurrent use. Use NewPool.
type Pool[K comparable] struct {
	clock    clock.Clock
	metrics  *Metrics
	mu       sync.Mutex
	watchers map[K]*Watcher
	named    map[string]int
}

// NewPool returns an empty pool.
func NewPool[K comparable](c clock.Clock, m *Metrics) *Pool[K] {
	return &Pool[K]{clock: c, metrics: m, watchers: map[K]*Watcher{}, named: map[string]int{}}
}

// Publisher returns where the load of the source appears. The first call for a source opens it and starts its watcher,
// which runs until that call's ctx is done; further calls add what they want.
func (p *Pool[K]) Publisher(ctx context.Context, key K, wanted load.Settings, nodes Nodes, open func() (source.Source, error)) (*load.Publisher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.watchers[key]; ok {
		w.Want(wanted)
		return w.Publisher(), nil
	}
	src, err := open()
	if err != nil {
		return nil, err
	}
	w := NewWatcher(src, p.label(src.Name()), nodes, p.clock, p.metrics)
	p.watchers[key] = w
	w.Want(wanted)
	go w.Run(ctx)
	return w.Publisher(), nil
}

// label makes the names of sources distinct, as the labels of metrics have to be.
func (p *Pool[K]) label(name string) string {
	p.named[name]++
	if n := p.named[name]; n > 1 {
		return fmt.Sprintf("%s (%d)", name, n)
	}
	return name
}
