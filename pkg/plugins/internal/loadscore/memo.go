package loadscore

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

// Memo keeps one value per scheduling cycle, stored at any extension point by one of several goroutines. Clones of the
// CycleState that are made after Store, for nominated pods and preemption, share it. A lookup does not allocate. A Memo is safe for
// concurrent use; use NewMemo.
type Memo[T any] struct {
	key fwk.StateKey
	pin estimate.Pin[T]
}

// NewMemo returns a memo for a plugin. Make only one per plugin: its name is the key in CycleState.
func NewMemo[T any](plugin string) *Memo[T] {
	return &Memo[T]{key: fwk.StateKey(plugin)}
}

// shared is a value as CycleState keeps it. Later clones share it.
type shared[T any] struct{ value *T }

func (s shared[T]) Clone() fwk.StateData { return s }

// Lookup returns the cycle's value, or nil.
func (m *Memo[T]) Lookup(state fwk.CycleState) *T {
	if value := m.pin.Get(state); value != nil {
		return value
	}
	return m.lookupShared(state)
}

// lookupShared is a separate function so that Lookup is inlined.
func (m *Memo[T]) lookupShared(state fwk.CycleState) *T {
	if data, err := state.Read(m.key); err == nil {
		return data.(shared[T]).value
	}
	return nil
}

// Store keeps the value for the cycle unless another goroutine was first. It returns the value that is kept, and whether
// it is the one passed.
func (m *Memo[T]) Store(state fwk.CycleState, value *T) (kept *T, first bool) {
	kept, first = m.pin.Set(state, value)
	if first {
		state.Write(m.key, shared[T]{kept})
	}
	return kept, first
}
