package plugins_test

import (
	"testing"

	"k8s.io/component-base/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// A pod of a group is tried for each placement and for preemption: all of that is one decision. The next attempt, with another
// object of the pod, is another one.
func TestDecisions_Group(t *testing.T) {
	for name := range kinds() {
		t.Run(name, func(t *testing.T) {
			registry, loads := metrics.NewKubeRegistry(), plugintest.NewLoads()
			loads.Measure(nil, nil)
			f, _ := frameworkOf(t, profileOf(t, name), registryOn(loads, registry.MustRegister), make(activations, 10),
				st.MakeNode().Name("a").Obj(), st.MakeNode().Name("b").Obj())
			nodes := check.Value(f.SnapshotSharedLister().NodeInfos().List())(t)
			for attempt := 1; attempt <= 2; attempt++ {
				pod := podOf("p", 0, "1").Obj()
				for range 3 {
					state := minortest.PodGroupCycle(t)
					f.RunPreFilterPlugins(t.Context(), state, pod)
					f.RunPreScorePlugins(t.Context(), state, pod, nodes)
				}
				decisions := 0.0
				for _, family := range check.Value(registry.Gather())(t) {
					if family.GetName() == descriptor.DecisionsTotal {
						for _, m := range family.GetMetric() {
							decisions += m.GetCounter().GetValue()
						}
					}
				}
				check.Equal(t, "decisions", float64(attempt), decisions)
			}
		})
	}
}
