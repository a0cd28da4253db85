package loadscore_test

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
)

func TestMemo(t *testing.T) {
	memo := loadscore.NewMemo[int]("Plugin")
	state := framework.NewCycleState()
	if got := memo.Lookup(state); got != nil {
		t.Fatalf("%d before any was stored", *got)
	}
	if kept, first := memo.Store(state, new(1)); *kept != 1 || !first {
		t.Fatalf("stored %d, first: %v; want 1 and true", *kept, first)
	}
	if kept, first := memo.Store(state, new(2)); *kept != 1 || first {
		t.Errorf("stored %d, first: %v; want 1 as before, and false", *kept, first)
	}
	clone := state.Clone()
	want := map[string]fwk.CycleState{"the state": state, "a clone": clone, "a clone's clone": clone.Clone()}
	check := func(t *testing.T) {
		for name, s := range want {
			if got := memo.Lookup(s); got == nil || *got != 1 {
				t.Errorf("%s: %v, want 1", name, got)
			}
			if allocs := testing.AllocsPerRun(100, func() { memo.Lookup(s) }); allocs != 0 {
				t.Errorf("%s: %v allocations a lookup, want 0", name, allocs)
			}
		}
	}
	t.Run("a value is found by the state and its clones", check)

	next := framework.NewCycleState()
	if got := memo.Lookup(next); got != nil {
		t.Errorf("the next cycle finds %d", *got)
	}
	if kept, first := memo.Store(next, new(3)); *kept != 3 || !first {
		t.Errorf("the next cycle stored %d, first: %v; want 3 and true", *kept, first)
	}
	t.Run("and still so in the next cycle", check)
}
