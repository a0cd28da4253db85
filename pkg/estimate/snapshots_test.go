package estimate

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

func TestRowMemo_FindsEachNodeAtAnyGenerations(t *testing.T) {
	const count = 20
	var names []string
	var infos []*framework.NodeInfo
	for i := range count {
		names = append(names, fmt.Sprint("n", i))
		info := framework.NewNodeInfo()
		info.SetNode(st.MakeNode().Name(names[i]).Obj())
		infos = append(infos, info)
	}
	stranger := framework.NewNodeInfo()
	stranger.SetNode(st.MakeNode().Name("stranger").Obj())
	memo := newRowMemo(load.NewIndex(names))
	for _, tc := range []struct {
		name       string
		generation func(i int) int64
	}{
		{"generations follow one another", func(i int) int64 { return int64(1 + i) }},
		{"all generations share a word", func(i int) int64 { return int64(1+i) << 20 }},
		{"generations are large", func(i int) int64 { return 1<<40 - int64(1+i)<<20 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i, info := range infos {
				info.Generation = tc.generation(i)
			}
			stranger.Generation = tc.generation(count)
			for range 3 {
				for i, info := range infos {
					if row, ok := memo.row(info); row != i || !ok {
						t.Fatalf("node %d has row %d, %v", i, row, ok)
					}
				}
				if row, ok := memo.row(stranger); ok {
					t.Fatalf("a node that is not in the index has row %d", row)
				}
			}
		})
	}
}

func TestRowMemo_WithoutNodes(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name("n").Obj())
	if row, ok := newRowMemo(load.NewIndex(nil)).row(info); ok {
		t.Errorf("row %d", row)
	}
}

func TestRowMemo_LooksUpANameOnceAGeneration(t *testing.T) {
	names := []string{"a", "b"}
	memo := newRowMemo(load.NewIndex(names))
	var infos []*framework.NodeInfo
	for i, name := range names {
		info := framework.NewNodeInfo()
		info.SetNode(st.MakeNode().Name(name).Obj())
		info.Generation = int64(1 + i)
		infos = append(infos, info)
		memo.row(info)
	}
	for want, info := range infos {
		if row, ok := memo.row(nameless{info}); row != want || !ok {
			t.Errorf("row %d, %v, want %d", row, ok, want)
		}
	}
}

// nameless is a NodeInfo that panics when it is asked for its Node object.
type nameless struct{ fwk.NodeInfo }

func (nameless) Node() *corev1.Node { panic("the node is looked up by name again") }

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
