package sim_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Nodes a and b have one core each. Pods of one core fit on b at once, and on a once pod low is gone: the third does not fit.
func TestPlaceGroup(t *testing.T) {
	low, held := pod("low", "1", "1Gi").Node("a").Obj(), pod("p2", "1", "1Gi").Priority(1).Obj()
	nominated := pod("nominated", "1", "1Gi").Obj() // loses its place on a to p2
	nominated.Status.NominatedNodeName = "a"
	s := newScheduler(t, "profiles: [{schedulerName: default-scheduler}]", sim.Options{
		Objects: []apiruntime.Object{node("a", "1", "8Gi"), node("b", "1", "8Gi"), low, held, nominated},
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
	check.OK(t, s.Remove(low))
	check.OK(t, s.Add(pod("full", "1", "1Gi").Node("b").Obj()))
	check.Equal(t, "the node of a pod, as a is reserved", "", decide(t, s, pod("p4", "1", "1Gi").Obj()).Node)
}

// If a pod finds no node, pods that the filters cannot tell from it are not tried.
func TestPlaceGroup_Alike(t *testing.T) {
	const index = "batch.kubernetes.io/job-completion-index"
	of := func(name string) *st.PodWrapper {
		w := pod(name, "1", "1Gi").Label(index, name).Annotation(index, name)
		w.Spec.Hostname, w.Spec.Volumes = name, []corev1.Volume{{Name: "kube-api-access-" + name}}
		w.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-" + name}}
		return w
	}
	byIndex := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: index, Operator: metav1.LabelSelectorOpExists}}}
	ephemeral := of("p2")
	ephemeral.Spec.Volumes[0].Ephemeral = &corev1.EphemeralVolumeSource{}
	for _, tc := range []struct {
		name  string
		other *corev1.Pod // on the full node
		pod   *st.PodWrapper
		want  bool // the pod is not tried
	}{
		{"another index", pod("full", "1", "1Gi").Obj(), of("p2"), true},
		{"another index, which a pod on a node excludes", pod("full", "1", "1Gi").PodAntiAffinity("zone", byIndex, st.PodAntiAffinityWithRequiredReq).Obj(), of("p2"), false},
		{"another index, which the pod selects", pod("full", "1", "1Gi").Obj(), of("p2").SpreadConstraint(1, "zone", corev1.ScheduleAnyway, byIndex, nil, nil, nil, nil), false},
		{"another label", pod("full", "1", "1Gi").Obj(), of("p2").Label("app", "other"), false},
		{"another request", pod("full", "1", "1Gi").Obj(), of("p2").Req(map[corev1.ResourceName]string{"cpu": "2"}), false},
		{"a claim of its own", pod("full", "1", "1Gi").Obj(), ephemeral, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.other.Spec.NodeName = "a"
			s := newScheduler(t, "profiles: [{schedulerName: default-scheduler}]", sim.Options{
				Objects: []apiruntime.Object{node("a", "1", "8Gi"), tc.other},
			})
			first, second := of("p1"), tc.pod.Obj()
			first.Spec.TopologySpreadConstraints = second.Spec.TopologySpreadConstraints
			first.Spec.Volumes[0].Ephemeral = second.Spec.Volumes[0].Ephemeral
			g := check.Value(s.PlaceGroup(t.Context(), []*corev1.Pod{first.Obj(), second}))(t)
			check.Equal(t, "pods without a node", []string{"p1", "p2"}, []string{g.Failed[0].Pod.Name, g.Failed[1].Pod.Name})
			check.Equal(t, "the second is not tried", tc.want, errors.Is(g.Failed[1].Err, g.Failed[0].Err))
		})
	}
}
