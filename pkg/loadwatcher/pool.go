package loadwatcher

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Pool shares one Watcher per distinct source between all plugins and profiles of a process. K is what makes two sources
// the same: a comparable value of all their settings. It is safe for concurrent use. Use NewPool.
type Pool[K comparable] struct {
	clock    clock.Clock
	mu       sync.Mutex
	watchers map[K]*Watcher
}

// NewPool returns an empty pool.
func NewPool[K comparable](c clock.Clock) *Pool[K] {
	return &Pool[K]{clock: c, watchers: map[K]*Watcher{}}
}

// Publisher returns where the load of the source appears. The first call for a source opens it and starts its watcher,
// which runs until that call's ctx is done; further calls add their demand.
func (p *Pool[K]) Publisher(ctx context.Context, key K, d Demand, ready cache.InformerSynced, open func() (source.Source, error)) (*load.Publisher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.watchers[key]
	if !ok {
		src, err := open()
		if err != nil {
			return nil, err
		}
		w = NewWatcher(src, ready, p.clock)
		p.watchers[key] = w
	}
	w.Want(d)
	if !ok {
		go w.Run(ctx)
	}
	return w.Publisher(), nil
}
