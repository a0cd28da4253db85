package estimate

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	info.(*framework.NodeInfo).AddPod(st.MakePod().Name("c").Obj())
	check("with another pod", podsAndMean{3, 4000}, deriving{both: 2, meanAlone: 1})
	republish(publisher, load.NodeLoad{load.CPU: measurement(0.5, 0, maxAge+time.Second)})
	check("with load that has expired", podsAndMean{3, 4000}, deriving{both: 2, meanAlone: 1, same: 1})
	check("once more", podsAndMean{3, 4000}, deriving{both: 2, meanAlone: 1, same: 1})

	t.Run("pods of a group change the node without a new generation", func(t *testing.T) {
		state := minortest.PodGroupCycle(t)
		generation := info.(*framework.NodeInfo).Generation
		info.(*framework.NodeInfo).AddPod(st.MakePod().Name("member").Obj())
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
	check.Equal(t, "derived times", 1, d.both)
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
	check.Equal(t, "nodes are kept, want the 10 after the bound", 10, kept)
}

// podsWithout are two pods of namespace a without requests, and one of namespace b with a request of 500 milliCPU.
func podsWithout(t *testing.T, change func(*corev1.Pod)) fwk.NodeInfo {
	t.Helper()
	pods := []*corev1.Pod{
		st.MakePod().Namespace("a").Name("a0").Container("i").Obj(),
		st.MakePod().Namespace("a").Name("a1").Container("i").Obj(),
		st.MakePod().Namespace("b").Name("b0").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "500m"}).Obj(),
	}
	for _, pod := range pods {
		change(pod)
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(newNode(t, "n").Node())
	return info
}

func TestView_For(t *testing.T) {
	const mib = 1 << 20
	running := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			started := boundAgo(ago, "0").Status
			pod.Status.Conditions = started.Conditions
			pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &started.Conditions[0].LastTransitionTime
		}
	}
	// The default is 1 core and 1 GiB. To other namespaces, all of one namespace counts at most 100 milliCPU and 200 MiB.
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   map[string]podusage.Amounts
	}{
		{
			"just bound", func(*corev1.Pod) {}, map[string]podusage.Amounts{
				"":  {2*1000 + 500, 3 * gib},
				"a": {2*1000 + 500, 2*gib + 200*mib},
				"b": {100 + 500, 200*mib + gib},
				"c": {100 + 500, 200*mib + 200*mib},
			},
		},
		{
			"half covered", running(window / 2), map[string]podusage.Amounts{
				"":  {1000 + 250, 1.5 * gib},
				"a": {1000 + 250, gib + 200*mib},
				"b": {100 + 250, 200*mib + gib/2},
				"c": {100 + 250, 200*mib + 200*mib},
			},
		},
		{
			"below the bound together", running(window * 96 / 100),
			map[string]podusage.Amounts{"": {0.04 * 2500, 0.04 * 3 * gib}, "a": {0.04 * 2500, 0.04 * 3 * gib}, "c": {0.04 * 2500, 0.04 * 3 * gib}},
		},
		{
			"bound for two windows, without a start", func(pod *corev1.Pod) { pod.Status.Conditions = boundAgo(2*window, "0").Status.Conditions },
			map[string]podusage.Amounts{"": {500, 0}, "a": {500, 0}, "c": {500, 0}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := podusage.ByRequests{Default: podusage.Amounts{load.CPU: 1000, load.Memory: gib}}
			n := load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.25, 0, 0)}
			model, _ := newModel(e, map[string]load.NodeLoad{"n": n})
			view, info := model.View(framework.NewCycleState()), podsWithout(t, tc.change)
			for namespace, want := range tc.want {
				of := view.For(st.MakePod().Namespace(namespace).Obj()).Estimate(info)
				near := cmp.Comparer(func(a, b float64) bool { return max(a-b, b-a) <= 1e-6*a+1e-9 })
				check.Equal(t, fmt.Sprintf("pending for a pod of %q", namespace), want,
					podusage.Amounts{of[load.CPU].Pending, of[load.Memory].Pending}, near)
			}
		})
	}
}

func TestView_ForAllocatesNothingPerNode(t *testing.T) {
	model, _ := newModel(podusage.BySpec{DefaultCPUMillis: 1000, MaxRequestRatio: 10},
		map[string]load.NodeLoad{"n": {load.CPU: measurement(0.25, 0, 0)}})
	info := podsWithout(t, func(*corev1.Pod) {})
	view := model.View(framework.NewCycleState()).For(st.MakePod().Namespace("c").Obj())
	check.Equal(t, "allocations", 0.0, testing.AllocsPerRun(100, func() { view.Resource(info, load.CPU) }))
}
