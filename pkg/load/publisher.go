package load

import (
	"sync"
	"sync/atomic"
)

// Publisher passes the latest Snapshot from a refresh to all decisions. It is safe for concurrent use; Latest never waits.
// Use NewPublisher.
type Publisher struct {
	latest atomic.Pointer[Snapshot]

	mu        sync.Mutex
	published chan struct{}
	hooks     []func(previous *Snapshot)
}

// NewPublisher returns a publisher whose snapshot is empty.
func NewPublisher() *Publisher {
	p := &Publisher{published: make(chan struct{})}
	p.latest.Store(NewSnapshot(NewIndex(nil), nil, nil))
	return p
}

// Publish makes s the snapshot of all decisions that begin from now on.
func (p *Publisher) Publish(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	previous := p.latest.Load()
	p.latest.Store(s)
	for _, hook := range p.hooks {
		hook(previous)
	}
	close(p.published)
	p.published = make(chan struct{})
}

// OnPublish calls hook after each Publish with the previous snapshot, in the goroutine that publishes. The hook must not wait, and
// must not call the publisher, except for Latest.
func (p *Publisher) OnPublish(hook func(previous *Snapshot)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append(p.hooks, hook)
}

// Published returns a channel that is closed when the next snapshot is published. Take the channel before calling Latest;
// otherwise an update in between is missed.
func (p *Publisher) Published() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}

// Latest returns the last published snapshot.
func (p *Publisher) Latest() *Snapshot { return p.latest.Load() }
