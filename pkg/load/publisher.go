package load

import (
	"slices"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// Publisher hands the latest Snapshot from the one who refreshes it to all who decide by it. It is safe for concurrent
// use; readers never wait. Use NewPublisher.
type Publisher struct {
	latest atomic.Pointer[Snapshot]
	pin    Pin[Snapshot]

	mu sync.Mutex
	// published is closed when the next snapshot is published.
	published chan struct{}
	// caches hold what follows from the snapshots, one for all models with the same settings.
	caches []*cache
}

// NewPublisher returns a publisher whose snapshot is empty.
func NewPublisher() *Publisher {
	p := &Publisher{published: make(chan struct{})}
	p.latest.Store(NewSnapshot(nil))
	return p
}

// Publish makes s the snapshot of all decisions that begin from now on.
func (p *Publisher) Publish(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.caches {
		c.forget(p.latest.Load())
	}
	p.latest.Store(s)
	close(p.published)
	p.published = make(chan struct{})
}

// join returns the cache for the settings, and the usage's place in it.
func (p *Publisher) join(settings Settings, usage Usage) (c *cache, place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.caches, func(c *cache) bool { return c.serves(settings) })
	if i < 0 {
		i = len(p.caches)
		p.caches = append(p.caches, newCache(settings))
	}
	return p.caches[i], p.caches[i].add(usage)
}

// Published returns a channel that is closed when the next snapshot is published. Who takes it before looking at Latest
// misses none.
func (p *Publisher) Published() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}

// Latest returns the snapshot published last.
func (p *Publisher) Latest() *Snapshot { return p.latest.Load() }

// Outdated tells whether something was published since the decision's snapshot.
func (p *Publisher) Outdated(state fwk.CycleState) bool { return p.Pinned(state) != p.latest.Load() }

// Pinned returns the decision's snapshot: the latest at the first call of the decision, and the same at all further ones,
// whichever plugin asks.
func (p *Publisher) Pinned(state fwk.CycleState) *Snapshot {
	if s := p.pin.Get(state); s != nil {
		return s
	}
	s, _ := p.pin.Set(state, p.latest.Load())
	return s
}
