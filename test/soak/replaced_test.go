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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// spreading asks the stock plugin what the simulation's own one is asked. counts are of the pods that were compared.
type spreading struct {
	stock, ours                         plugintest.Spreader
	compared, filtered, refused, scored int
}

// withStockSpread returns the registry with a stock plugin beside each one that replaces it, on the same snapshot.
func (s *soak) withStockSpread(registry frameworkruntime.Registry) frameworkruntime.Registry {
	build := registry[config.IncrementalPodTopologySpread]
	registry[config.IncrementalPodTopologySpread] = func(
		ctx context.Context, args apiruntime.Object, handle minor.Handle,
	) (minor.Plugin, error) {
		ours := check.Value(build(ctx, args, handle))(s.t)
		stock := check.Value(inTree.NewInTreeRegistry()[names.PodTopologySpread](ctx, args, handle))(s.t)
		s.spread = &spreading{ours: ours.(plugintest.Spreader), stock: stock.(plugintest.Spreader)}
		return ours, nil
	}
	return registry
}

// compareSpread fails the test if the plugins differ about a pod that was just decided.
func (s *soak) compareSpread(pod *corev1.Pod) {
	s.t.Helper()
	nodes := check.Value(s.sim.NodeInfos(s.ctx))(s.t)
	q := plugintest.Question{Pod: pod, Nodes: nodes}
	want := q.Ask(s.ctx, s.spread.stock, framework.NewCycleState())
	got := q.Ask(s.ctx, s.spread.ours, framework.NewCycleState())
	if !slices.Equal(want.Said, got.Said) {
		check.Equal(s.t, fmt.Sprintf("what is said of %s, after %d equal pods", pod.Name, s.spread.compared), want.Said, got.Said)
		s.t.FailNow()
	}
	s.spread.compared++
	for n, when := range map[*int]bool{
		&s.spread.filtered: want.Filtered, &s.spread.refused: want.Passed < len(nodes), &s.spread.scored: want.Scored,
	} {
		if when {
			*n++
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
