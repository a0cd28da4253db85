package softlimit

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

// Decisions holds what a filter makes up its mind about once per decision, also for the clones that the framework makes of
// a decision's CycleState, for nominated pods and for preemption. It is safe for concurrent use.
type Decisions[T any] struct {
	key fwk.StateKey
	pin estimate.Pin[T]
}

// NewDecisions returns the decisions of the named plugin.
func NewDecisions[T any](plugin string) *Decisions[T] {
	return &Decisions[T]{key: fwk.StateKey(plugin)}
}

// held is a T as CycleState keeps it. It is shared by clones: what changes in a T is safe for concurrent use.
type held[T any] struct{ value *T }

// Clone implements fwk.StateData.
func (h held[T]) Clone() fwk.StateData { return h }

// Of returns what was decided, and decides if it is the first call with the state or a state that it was cloned from, which
// first tells.
func (d *Decisions[T]) Of(state fwk.CycleState, decide func() *T) (decided *T, first bool) {
	if value := d.pin.Get(state); value != nil {
		return value, false
	}
	if data, err := state.Read(d.key); err == nil {
		return data.(held[T]).value, false
	}
	value, first := d.pin.Set(state, decide())
	if first {
		state.Write(d.key, held[T]{value})
	}
	return value, first
}
