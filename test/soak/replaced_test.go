package soak

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// pair is a stock plugin and the one that replaces it, which are asked the same. counts are of the pods that were compared.
type pair struct {
	stock, ours                         plugintest.Spreader
	compared, filtered, refused, scored int
}

// withStock returns the registry with a stock plugin beside each one that replaces it, on the same snapshot.
func (s *soak) withStock(registry frameworkruntime.Registry) frameworkruntime.Registry {
	for _, d := range plugins.All() {
		if d.Replaces == "" {
			continue
		}
		build := registry[d.Name]
		registry[d.Name] = func(ctx context.Context, args apiruntime.Object, handle minor.Handle) (minor.Plugin, error) {
			ours := check.Value(build(ctx, args, handle))(s.t)
			stock := check.Value(inTree.NewInTreeRegistry()[d.Replaces](ctx, args, handle))(s.t)
			s.replaced[d.Name] = &pair{ours: ours.(plugintest.Spreader), stock: stock.(plugintest.Spreader)}
			return ours, nil
		}
	}
	return registry
}

// compareReplaced fails the test if a plugin and the stock one differ about a pod that was just decided.
func (s *soak) compareReplaced(pod *corev1.Pod) {
	s.t.Helper()
	nodes := check.Value(s.sim.NodeInfos(s.ctx))(s.t)
	for name, r := range s.replaced {
		q := plugintest.Question{Pod: pod, Nodes: nodes}
		want := q.Ask(s.ctx, r.stock, framework.NewCycleState())
		got := q.Ask(s.ctx, r.ours, framework.NewCycleState())
		if !slices.Equal(want.Said, got.Said) {
			check.Equal(s.t, fmt.Sprintf("what %s says of %s, after %d equal pods", name, pod.Name, r.compared), want.Said, got.Said)
			s.t.FailNow()
		}
		r.compared++
		for n, when := range map[*int]bool{&r.filtered: want.Filtered, &r.refused: want.Passed < len(nodes), &r.scored: want.Scored} {
			if when {
				*n++
			}
		}
	}
}

// ownerOf returns what selects the pods of a workload: in turn a ReplicaSet, and a Service.
func ownerOf(workload int) apiruntime.Object {
	name, selector := workloadName(workload), map[string]string{"app": workloadName(workload)}
	meta := metav1.ObjectMeta{Namespace: "soak", Name: name}
	if workload%2 == 0 {
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}}}
	}
	return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: selector}}
}

// constraintsOf returns a pod's own constraints: for a quarter of the pods one that filters, for a quarter one that scores, and
// none for the others, which the defaults spread.
func constraintsOf(pod int, labels map[string]string) []corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{MaxSkew: 1, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}
	switch pod % 4 {
	case 0:
		c.TopologyKey, c.WhenUnsatisfiable = corev1.LabelTopologyZone, corev1.DoNotSchedule
	case 1:
		c.TopologyKey, c.WhenUnsatisfiable = corev1.LabelHostname, corev1.ScheduleAnyway
	default:
		return nil
	}
	return []corev1.TopologySpreadConstraint{c}
}

// affinityOf returns the affinity of a pod to those of its workload. A third of the pods is kept off their hosts, a third prefers
// their zone, and the others have no affinity.
func affinityOf(pod int, labels map[string]string) *corev1.Affinity {
	term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: corev1.LabelHostname}
	switch pod % 3 {
	case 0:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	case 1:
		term.TopologyKey = corev1.LabelTopologyZone
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: term}},
		}}
	}
	return nil
}
