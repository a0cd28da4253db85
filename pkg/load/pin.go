package load

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// Pin holds one value for the length of one decision, known by its CycleState: the framework hands the same CycleState to
// every plugin call of a decision and another one to the next. Unlike the CycleState's own storage it serves plugins that
// are enabled at the Score extension point alone, whose calls for the nodes of a decision come from many goroutines at
// once with no call before them, and it costs no allocation per node.
//
// A Pin is safe for concurrent use. It holds the latest decision's value only, which is enough because decisions follow
// one another. The reference that it keeps to the CycleState is what makes comparing pointers sound: no other CycleState
// can stand at the same address meanwhile.
type Pin[T any] struct {
	latest atomic.Pointer[pinned[T]]
}

type pinned[T any] struct {
	state fwk.CycleState
	value *T
}

// Get returns the value pinned for the decision, or nil.
func (p *Pin[T]) Get(state fwk.CycleState) *T {
	if held := p.latest.Load(); held != nil && held.state == state {
		return held.value
	}
	return nil
}

// Set pins the value for the decision unless another goroutine was first, and returns what is pinned and whether it is
// value.
func (p *Pin[T]) Set(state fwk.CycleState, value *T) (held *T, first bool) {
	fresh := &pinned[T]{state: state, value: value}
	for {
		held := p.latest.Load()
		if held != nil && held.state == state {
			return held.value, false
		}
		if p.latest.CompareAndSwap(held, fresh) {
			return value, true
		}
	}
}
