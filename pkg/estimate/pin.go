package estimate

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// Pin holds one value for one scheduling cycle, identified by its CycleState. It serves plugins of Score alone:
// many goroutines make their first calls of a cycle at once. It costs no allocation per node.
//
// A Pin is safe for concurrent use. It holds the value of the latest cycle only, because cycles follow one another. It references
// the CycleState, whose address is therefore unique: comparing pointers is sound.
type Pin[T any] struct {
	latest atomic.Pointer[pinned[T]]
}

type pinned[T any] struct {
	state fwk.CycleState
	value *T
}

// Get returns the value pinned for the cycle, or nil.
func (p *Pin[T]) Get(state fwk.CycleState) *T {
	if current := p.latest.Load(); current != nil && current.state == state {
		return current.value
	}
	return nil
}

// Set pins the value for the cycle unless another goroutine was first. It returns what is pinned, and whether that is value.
func (p *Pin[T]) Set(state fwk.CycleState, value *T) (winner *T, first bool) {
	fresh := &pinned[T]{state: state, value: value}
	for {
		current := p.latest.Load()
		if current != nil && current.state == state {
			return current.value, false
		}
		if p.latest.CompareAndSwap(current, fresh) {
			return value, true
		}
	}
}
