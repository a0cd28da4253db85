package estimate

import (
	"sync"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestPin_AllGoroutinesOfACycleGetOneValue(t *testing.T) {
	const goroutines = 16
	var pin Pin[int]
	for range 200 {
		state := framework.NewCycleState()
		var seen [goroutines]*int
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				v := pin.Get(state)
				if v == nil {
					mine := i
					v, _ = pin.Set(state, &mine)
				}
				seen[i] = v
			})
		}
		wg.Wait()
		for i, v := range seen {
			if v != seen[0] {
				t.Fatalf("goroutine %d sees %p, goroutine 0 sees %p", i, v, seen[0])
			}
		}
	}
}

func TestPin_FirstSetWins(t *testing.T) {
	var pin Pin[int]
	one, two := 1, 2
	cycle, next := framework.NewCycleState(), framework.NewCycleState()
	if pinned, first := pin.Set(cycle, &one); pinned != &one || !first {
		t.Errorf("the first call gets %v, %v; want its own value, true", pinned, first)
	}
	if pinned, first := pin.Set(cycle, &two); pinned != &one || first {
		t.Errorf("the second call gets %v, %v; want the first call's value, false", pinned, first)
	}
	if pinned, first := pin.Set(next, &two); pinned != &two || !first {
		t.Errorf("the next cycle gets %v, %v; want its own value, true", pinned, first)
	}
}
