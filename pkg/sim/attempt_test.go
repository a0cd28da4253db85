package sim_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// withLine has a load line that is waived where it leaves a pod no node, and preemption.
const withLine = `
profiles:
- plugins:
    preFilter: {enabled: [{name: LoadThreshold}]}
    filter: {enabled: [{name: LoadThreshold}]}
    postFilter: {disabled: [{name: DefaultPreemption}], enabled: [{name: LoadThreshold}, {name: DefaultPreemption}]}
  pluginConfig: [{name: LoadThreshold, args: {thresholds: {cpu: 80}}}]
`

// Node a, of one core, carries 90 %, above its line of 80 %. A pod of one core fits once pod low is gone.
func TestAttempt(t *testing.T) {
	type attempt struct {
		Node, Nominated string
		Waived          bool
	}
	waived, none := attempt{Waived: true}, attempt{}
	for name, tc := range map[string]struct {
		occupied bool
		priority int32
		preempts bool
		want     []attempt
	}{
		"the line is waived":                        {false, 0, true, []attempt{waived, {Node: "a"}}},
		"low has the same priority":                 {true, 0, true, []attempt{none}},
		"low is preempted, then the line is waived": {true, 1, true, []attempt{{Nominated: "a"}, waived, {Node: "a"}}},
		"nothing is preempted":                      {true, 1, false, []attempt{{Nominated: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := loads{"a": 0.90}.plugins()
			o.Objects = []apiruntime.Object{node("a", "1", "8Gi")}
			if tc.occupied {
				o.Objects = append(o.Objects, pod("low", "1", "1Gi").Node("a").Obj())
			}
			s := newScheduler(t, withLine, o)
			var preempt func([]*corev1.Pod) error
			if tc.preempts {
				preempt = func(victims []*corev1.Pod) error { return s.Remove(victims[0]) }
			}
			results := check.Value(sim.Attempt(t.Context(), pod("p", "1", "1Gi").Priority(tc.priority).Obj(), s.Decide, preempt))(t)
			var got []attempt
			for _, d := range results {
				a := attempt{Node: d.Node, Waived: d.Waived()}
				if d.PostFilter != nil {
					a.Nominated = d.PostFilter.NominatedNode
				}
				got = append(got, a)
			}
			check.Equal(t, "attempts", tc.want, got)
		})
	}
}

// hopeful is a PostFilter plugin that always says that the next attempt may succeed.
type hopeful struct{}

func (hopeful) Name() string { return "Hopeful" }

func (hopeful) PostFilter(
	context.Context, fwk.CycleState, *corev1.Pod, minor.NodeToStatusReader,
) (*minor.PostFilterResult, *fwk.Status) {
	return nil, nil
}

func TestAttempt_IsBounded(t *testing.T) {
	const yaml = `
profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}], enabled: [{name: Hopeful}]}}}]
`
	build := func(context.Context, apiruntime.Object, minor.Handle) (minor.Plugin, error) { return hopeful{}, nil }
	s := newScheduler(t, yaml, sim.Options{
		Plugins: frameworkruntime.Registry{"Hopeful": build}, Objects: []apiruntime.Object{node("a", "1", "8Gi")},
	})
	large := pod("large", "2", "1Gi").Obj()
	if results, err := sim.Attempt(t.Context(), large, s.Explain, nil); err != nil || len(results) != 4 {
		t.Errorf("%d attempts, %v; want 4", len(results), err)
	}
	failed := errors.New("failed")
	tries := 0
	results, err := sim.Attempt(t.Context(), large, func(ctx context.Context, p *corev1.Pod) (*sim.Result, error) {
		if tries++; tries == 2 {
			return nil, failed
		}
		return s.Decide(ctx, p)
	}, nil)
	if !errors.Is(err, failed) || len(results) != 1 {
		t.Errorf("%d attempts, %v; want one, and the error of the second", len(results), err)
	}
}
