package sim_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Nodes a and b have one core each. Pods of one core fit on b at once, and on a once pod low is gone: the third does not fit.
func TestPlaceGroup(t *testing.T) {
	low, held := pod("low", "1", "1Gi").Node("a").Obj(), pod("p2", "1", "1Gi").Priority(1).Obj()
	s := newScheduler(t, "profiles: [{schedulerName: default-scheduler}]", sim.Options{
		Objects: []apiruntime.Object{node("a", "1", "8Gi"), node("b", "1", "8Gi"), low, held},
	})
	podsOn := func(name string) int { return len(check.Value(s.NodeInfo(t.Context(), name))(t).GetPods()) }
	for range 2 { // the first time leaves nothing behind
		g := check.Value(s.PlaceGroup(t.Context(), []*corev1.Pod{
			pod("p1", "1", "1Gi").Priority(1).Obj(), held, pod("p3", "1", "1Gi").Priority(1).Obj(),
		}))(t)
		check.Equal(t, "placed, failed and evicted pods", [3]int{2, 1, 1}, [3]int{len(g.Placed), len(g.Failed), len(g.Victims)})
		check.Equal(t, "the pod without a node", "p3", g.Failed[0].Pod.Name)
		check.Equal(t, "pods on a and b", [2]int{1, 1}, [2]int{podsOn("a"), podsOn("b")})
		check.OK(t, g.Undo(t.Context()))
		check.Equal(t, "pods on a and b afterwards", [2]int{1, 0}, [2]int{podsOn("a"), podsOn("b")})
	}
	check.Equal(t, "the node of a pod of low priority", "b", decide(t, s, pod("p4", "1", "1Gi").Obj()).Node)
}
