package estimate

import (
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/minortest"
)

// deriving derives the number of pods and the mean of cpu, and counts how often both are derived, and how often the mean alone.
type deriving struct {
	flat
	counts *struct{ both, meanAlone int }
}

type podsAndMean struct {
	pods int
	mean float64
}

func (d deriving) Derive(node fwk.NodeInfo, e *Estimate, earlier any) any {
	if known, ok := earlier.(*podsAndMean); ok {
		d.counts.meanAlone++
		return &podsAndMean{known.pods, e[load.CPU].Mean}
	}
	d.counts.both++
	return &podsAndMean{len(node.GetPods()), e[load.CPU].Mean}
}

func TestDerived(t *testing.T) {
	d := deriving{counts: &struct{ both, meanAlone int }{}}
	model, publisher := newModel(d, map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := newNode(t, "n")
	check := func(when string, wantPods int, wantMean float64, wantBoth, wantMeanAlone int) {
		t.Helper()
		view := model.View(framework.NewCycleState())
		e, derived := view.WithDerived(info)
		if got := *derived.(*podsAndMean); got != (podsAndMean{wantPods, wantMean}) {
			t.Errorf("%s: %+v, want %d pods and a mean of %v", when, got, wantPods, wantMean)
		}
		if whole := view.Estimate(info); e != whole {
			t.Errorf("%s: estimate %+v beside the derived value, %+v alone", when, e, whole)
		}
		if d.counts.both != wantBoth || d.counts.meanAlone != wantMeanAlone {
			t.Errorf("%s: derived %d times, and %d times from an earlier value; want %d and %d", when, d.counts.both, d.counts.meanAlone, wantBoth, wantMeanAlone)
		}
	}
	check("at first", 2, 2000, 1, 0)
	check("in the next cycle", 2, 2000, 1, 0)
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.5, 0, 0)})
	check("with other load", 2, 4000, 1, 1)
	info.AddPodInfo(podInfo(t, st.MakePod().Name("c").Obj()))
	check("with another pod", 3, 4000, 2, 1)
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.5, 0, maxAge+time.Second)})
	check("with load that has expired", 3, 4000, 2, 2)

	t.Run("pods of a group change the node without a new generation", func(t *testing.T) {
		state := minortest.PodGroupCycle(t)
		generation := info.(*framework.NodeInfo).Generation
		info.AddPodInfo(podInfo(t, st.MakePod().Name("member").Obj()))
		info.(*framework.NodeInfo).Generation = generation
		if _, derived := model.View(state).WithDerived(info); derived.(*podsAndMean).pods != 4 {
			t.Errorf("%d pods in the cycle of a pod group, want 4", derived.(*podsAndMean).pods)
		}
	})
}

// The value of a node that was never measured is kept as long as the node does not change.
func TestDerived_NeverMeasured(t *testing.T) {
	d := deriving{counts: &struct{ both, meanAlone int }{}}
	model, _ := newModel(d, map[string]load.NodeLoad{"other": {load.CPU: measurement(0.25, 0, 0)}})
	info := newNode(t, "n")
	for range 2 {
		e, derived := model.View(framework.NewCycleState()).WithDerived(info)
		if got := *derived.(*podsAndMean); got != (podsAndMean{2, 0}) || e[load.CPU].State != load.Absent || e[load.CPU].Mean != 2000 {
			t.Errorf("%+v with %+v, want 2 pods, and the requests as estimate", got, e[load.CPU])
		}
	}
	if d.counts.both != 1 {
		t.Errorf("derived %d times, want once", d.counts.both)
	}
}
