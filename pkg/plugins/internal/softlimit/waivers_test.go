package softlimit_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// A limit is relaxed where nothing else keeps the pod out.
func TestGate_Relax(t *testing.T) {
	for _, tc := range []struct {
		name     string
		ruledOut map[string][]string
		// gates are the relaxing plugins in the order of their PostFilter.
		gates []string
		// wantWaived are the limits that do not hold for the next attempt; none where the pod is left to preemption.
		wantWaived []string
	}{
		{"every node is ruled out by the limit", map[string][]string{"a": {"Limit"}, "b": {"Limit"}}, []string{"Limit"}, []string{"Limit"}},
		{"one node is ruled out by the limit alone", map[string][]string{"a": {"Fit"}, "b": {"Limit"}}, []string{"Limit"}, []string{"Limit"}},
		{"no node is ruled out by the limit", map[string][]string{"a": {"Fit"}, "b": {"Taint"}}, []string{"Limit"}, nil},
		{"the node that the limit rules out has another reason, too", map[string][]string{"a": {"Limit", "Fit"}, "b": {"Fit"}}, []string{"Limit"}, nil},
		{"two limits rule out one node", map[string][]string{"a": {"Limit", "Other"}}, []string{"Limit", "Other"}, []string{"Limit", "Other"}},
		{"two limits rule out one node, in the other order", map[string][]string{"a": {"Limit", "Other"}}, []string{"Other", "Limit"}, []string{"Limit", "Other"}},
		{"two limits, of which waiving one is enough", map[string][]string{"a": {"Limit"}, "b": {"Limit", "Other"}}, []string{"Other", "Limit"}, []string{"Limit"}},
		{"two limits and another reason", map[string][]string{"a": {"Limit", "Other", "Fit"}}, []string{"Limit", "Other"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, pod := newCluster(t, tc.ruledOut), podNamed("p")
			for _, plugin := range tc.gates {
				c.gate(t, plugin, config.WhenNoneFitsRelax)
			}
			state, waived := c.begin(pod)
			if len(waived) > 0 {
				t.Fatalf("waived without a reason: %v", waived)
			}
			statuses, succeeded := c.filter(state), false
			for _, plugin := range tc.gates {
				result, status := c.gates[plugin].PostFilter(t.Context(), state, pod, statuses)
				if result != nil {
					t.Errorf("%s nominates a node: %v", plugin, result)
				}
				if succeeded = status.IsSuccess(); succeeded {
					break // as the framework does
				}
				if status.Code() != fwk.Unschedulable {
					t.Errorf("%s: %v, want Unschedulable", plugin, status)
				}
			}
			if want := tc.wantWaived != nil; succeeded != want {
				t.Errorf("PostFilter succeeds: %v, want %v", succeeded, want)
			}
			var wantActivated []string
			if tc.wantWaived != nil {
				wantActivated = []string{"ns/p"}
			}
			if diff := cmp.Diff(wantActivated, c.activated()); diff != "" {
				t.Errorf("activated (-want +got):\n%s", diff)
			}
			if _, waived := c.begin(podNamed("another")); len(waived) > 0 {
				t.Errorf("waived for a pod that was not asked about: %v", waived)
			}
			state, waived = c.begin(pod)
			if diff := cmp.Diff(tc.wantWaived, slices.Sorted(maps.Keys(waived))); diff != "" {
				t.Errorf("waived at the next attempt (-want +got):\n%s", diff)
			}
			for plugin, g := range c.gates {
				if g.Waived(state) != waived[plugin] {
					t.Errorf("%s: the state says %v, Begin said %v", plugin, g.Waived(state), waived[plugin])
				}
			}
			if _, waived = c.begin(pod); len(waived) > 0 {
				t.Errorf("still waived at the attempt after that: %v", waived)
			}
		})
	}
}

// Without PreFilter no attempt would find a waiver, so none is granted.
func TestGate_RelaxWithoutPreFilter(t *testing.T) {
	c, pod := newCluster(t, map[string][]string{"a": {"Limit"}}), podNamed("p")
	g, state := c.gate(t, "Limit", config.WhenNoneFitsRelax), framework.NewCycleState() // without Begin: PreFilter is not enabled
	if _, status := g.PostFilter(t.Context(), state, pod, c.filter(state)); status.Code() != fwk.Unschedulable {
		t.Errorf("PostFilter: %v, want Unschedulable, so that preemption has its turn", status)
	}
	if got := c.activated(); got != nil {
		t.Errorf("activated %v", got)
	}
}

// The waivers of pods that are not tried again are forgotten.
func TestGate_WaiverExpires(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		kept  bool
	}{{10 * time.Minute, true}, {10*time.Minute + 1, false}} {
		c := newCluster(t, map[string][]string{"a": {"Limit"}})
		g := c.gate(t, "Limit", config.WhenNoneFitsRelax)
		relax := func(name string) {
			t.Helper()
			state, _ := c.begin(podNamed(name))
			if _, status := g.PostFilter(t.Context(), state, podNamed(name), c.filter(state)); !status.IsSuccess() {
				t.Fatal(status)
			}
		}
		relax("vanished")
		c.clock.Step(tc.after)
		relax("next")
		if _, waived := c.begin(podNamed("vanished")); waived["Limit"] != tc.kept {
			t.Errorf("%v later the waiver is kept: %v, want %v", tc.after, waived["Limit"], tc.kept)
		}
		if _, waived := c.begin(podNamed("next")); !waived["Limit"] {
			t.Errorf("%v later the new waiver is forgotten", tc.after)
		}
	}
}
