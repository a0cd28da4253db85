package estimate

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// deriving derives the number of pods and the mean of cpu. It counts derivations of both, and of the mean alone. A mean that stays
// the same is the same value.
type deriving struct{ both, meanAlone, same int }

type podsAndMean struct {
	pods int
	mean float64
}

func (d *deriving) Derive(f Facts, earlier *podsAndMean) (value podsAndMean, same bool) {
	mean := f.Fresh[load.CPU].Mean
	switch {
	case !f.Unchanged:
		d.both++
		return podsAndMean{len(f.Pods), mean}, false
	case earlier.mean == mean:
		d.same++
		return podsAndMean{}, true
	}
	d.meanAlone++
	return podsAndMean{earlier.pods, mean}, false
}

func TestPerNode(t *testing.T) {
	d := &deriving{}
	model, publisher := newModel(flat(0), map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	values := NewPerNode[podsAndMean](model)
	info := newNode(t, "n")
	check := func(when string, want podsAndMean, wantCalls deriving) {
		t.Helper()
		view := model.View(framework.NewCycleState())
		e, got := values.Of(view, info, d)
		if *got != want {
			t.Errorf("%s: %+v, want %+v", when, *got, want)
		}
		if whole := view.Estimate(info); *e[load.CPU] != whole[load.CPU] || *e[load.Memory] != whole[load.Memory] {
			t.Errorf("%s: estimate %+v beside the derived value, %+v alone", when, e, whole)
		}
		if *d != wantCalls {
			t.Errorf("%s: %+v calls, want %+v", when, *d, wantCalls)
		}
		if values.Latest("n") != got {
			t.Errorf("%s: the latest value is %p, want %p", when, values.Latest("n"), got)
		}
	}
	check("at first", podsAndMean{2, 2000}, deriving{both: 1})
	check("in the next cycle", podsAndMean{2, 2000}, deriving{both: 1})
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.5, 0, 0)})
	check("with other load", podsAndMean{2, 4000}, deriving{both: 1, meanAlone: 1})
	info.AddPodInfo(podInfo(t, st.MakePod().Name("c").Obj()))
	check("with another pod", podsAndMean{3, 4000}, deriving{both: 2, meanAlone: 1})
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.5, 0, maxAge+time.Second)})
	check("with load that has expired", podsAndMean{3, 4000}, deriving{both: 2, meanAlone: 1, same: 1})
	check("once more", podsAndMean{3, 4000}, deriving{both: 2, meanAlone: 1, same: 1})

	t.Run("pods of a group change the node without a new generation", func(t *testing.T) {
		state := minortest.PodGroupCycle(t)
		generation := info.(*framework.NodeInfo).Generation
		info.AddPodInfo(podInfo(t, st.MakePod().Name("member").Obj()))
		info.(*framework.NodeInfo).Generation = generation
		if _, got := values.Of(model.View(state), info, d); got.pods != 4 {
			t.Errorf("%d pods in the cycle of a pod group, want 4", got.pods)
		}
	})
	t.Run("values that no cycle asks for are dropped", func(t *testing.T) {
		for range 2 {
			republish(publisher, load.NodeLoad{load.CPU: measurement(0.5, 0, 0)})
		}
		if got := values.Latest("n"); got != nil {
			t.Errorf("%+v is kept", *got)
		}
	})
}

// The value of a node that was never measured is kept as long as the node does not change.
func TestPerNode_NeverMeasured(t *testing.T) {
	d := &deriving{}
	model, _ := newModel(flat(0), map[string]load.NodeLoad{"other": {load.CPU: measurement(0.25, 0, 0)}})
	values := NewPerNode[podsAndMean](model)
	info := newNode(t, "n")
	for range 2 {
		e, got := values.Of(model.View(framework.NewCycleState()), info, d)
		if *got != (podsAndMean{2, 0}) || e[load.CPU].State != load.Absent || e[load.CPU].Mean != 2000 {
			t.Errorf("%+v with %+v, want 2 pods, and the requests as estimate", *got, e[load.CPU])
		}
	}
	if d.both != 1 {
		t.Errorf("derived %d times, want once", d.both)
	}
}

// TestPerNode_ManyNodesThatCameAndWent has an autoscaler replace nodes while no load is read.
func TestPerNode_ManyNodesThatCameAndWent(t *testing.T) {
	d := &deriving{}
	model, _ := newModel(flat(0), nil)
	values, view := NewPerNode[podsAndMean](model), model.View(framework.NewCycleState())
	for i := range maxUnmeasured + 10 {
		if _, got := values.Of(view, newNode(t, "n"+strconv.Itoa(i)), d); got.pods != 2 {
			t.Fatalf("%d pods on node %d, want 2", got.pods, i)
		}
	}
	kept := 0
	values.cache.Load().unmeasured.Range(func(any, any) bool { kept++; return true })
	if kept != 10 {
		t.Errorf("%d nodes are kept, want the 10 after the bound", kept)
	}
}
