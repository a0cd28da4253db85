//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package softlimit_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// podGroup is a group of pods.
type podGroup struct {
	fwk.PodGroupInfo
	pods []*corev1.Pod
}

func (g podGroup) GetUnscheduledPods() []*corev1.Pod { return g.pods }

// GetAllUnscheduledPods is GetUnscheduledPods from Kubernetes 1.38 on.
func (g podGroup) GetAllUnscheduledPods() []*corev1.Pod { return g.pods }

// groupCycle is an attempt to place the pods of a group. With evicted, it is the attempt of DefaultPreemption without the pods that
// it may evict. It returns the nodes of the pods; a pod without a node ends it.
func (c *cluster) groupCycle(t *testing.T, pods []*corev1.Pod, evicted bool) (fwk.PodGroupCycleState, []string) {
	t.Helper()
	cycle, placed := framework.NewCycleState(), []string(nil)
	nodes := slices.SortedFunc(slices.Values(check.Value(c.SnapshotSharedLister().NodeInfos().List())(t)), func(a, b fwk.NodeInfo) int {
		return strings.Compare(a.Node().Name, b.Node().Name)
	})
	for _, pod := range pods {
		state := framework.NewCycleState()
		minortest.SetPodGroupCycle(state, cycle)
		for _, plugin := range slices.Sorted(maps.Keys(c.gates)) {
			c.gates[plugin].Begin(state, pod)
		}
		i := slices.IndexFunc(nodes, func(node fwk.NodeInfo) bool { return c.passesInGroup(state, pod, node, evicted) })
		if i < 0 {
			return cycle, nil
		}
		placed = append(placed, nodes[i].Node().Name)
	}
	return cycle, placed
}

// passesInGroup evaluates the node by the cluster's ruledOut. The plugins Full and Pending rule it out unless pods are evicted; the
// latter is the limit. Second is the limit for the pod p-2, because of p-1, unless pods are evicted.
func (c *cluster) passesInGroup(state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, evicted bool) bool {
	reasons, full := map[string]string{}, false
	for _, by := range c.ruledOut[node.Node().Name] {
		switch {
		case by == "Full":
			full = !evicted
		case by == "Pending" && !evicted, by == "Second" && !evicted && pod.Name == "p-2":
			reasons["Limit"] = "above the line"
		case c.gates[by] != nil:
			reasons[by] = "above the line"
		}
	}
	for _, plugin := range slices.Sorted(maps.Keys(c.gates)) {
		if !full && !c.gates[plugin].Filter(state, pod, node, reasons[plugin]).IsSuccess() {
			return false
		}
	}
	return !full
}

func TestGate_PodGroups(t *testing.T) {
	metrics.Register()
	for _, tc := range []struct {
		name     string
		ruledOut map[string][]string
		// gates are the plugins in the order of their PodGroupPostFilter, with the policy of all.
		gates        []string
		whenNoneFits config.WhenNoneFits
		// wantWaived are the limits that do not hold for the next attempt. wantEvicted are the nodes of the pods once pods are evicted.
		wantWaived, wantEvicted []string
	}{
		{"a relaxed limit is waived", map[string][]string{"a": {"Limit"}}, []string{"Limit"}, config.WhenNoneFitsRelax, []string{"Limit"}, []string{"a", "a"}},
		{"a relaxed limit is waived for one pod", map[string][]string{"a": {"Second"}}, []string{"Limit"}, config.WhenNoneFitsRelax, []string{"Limit"}, []string{"a", "a"}},
		{"two relaxed limits are waived together", map[string][]string{"a": {"Limit", "Other"}}, []string{"Limit", "Other"}, config.WhenNoneFitsRelax, []string{"Limit", "Other"}, []string{"a", "a"}},
		{"one relaxed limit of two is waived", map[string][]string{"a": {"Limit"}, "b": {"Limit", "Other"}}, []string{"Other", "Limit"}, config.WhenNoneFitsRelax, []string{"Limit"}, []string{"a", "a"}},
		{"a relaxed limit does not hold for preemption", map[string][]string{"a": {"Full", "Limit"}}, []string{"Limit"}, config.WhenNoneFitsRelax, nil, []string{"a", "a"}},
		{"no pod is evicted for a strict limit", map[string][]string{"a": {"Pending"}}, []string{"Limit"}, config.WhenNoneFitsReject, nil, nil},
		{"pods are evicted for requests", map[string][]string{"a": {"Full"}, "b": {"Limit"}}, []string{"Limit"}, config.WhenNoneFitsReject, nil, []string{"a", "a"}},
		{"but not above a strict limit", map[string][]string{"a": {"Full", "Limit"}}, []string{"Limit"}, config.WhenNoneFitsReject, nil, nil},
		{"pods are evicted for the second pod alone", map[string][]string{"a": {"Second"}, "b": {"Full"}}, []string{"Limit"}, config.WhenNoneFitsReject, nil, []string{"a", "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, pods := newCluster(t, tc.ruledOut), []*corev1.Pod{podNamed("p-1"), podNamed("p-2")}
			for _, plugin := range tc.gates {
				c.gate(t, plugin, tc.whenNoneFits)
			}
			c.Has(t, pods[0])
			cycle, placed := c.groupCycle(t, pods, false)
			check.Equal(t, "placed without a reason to wait", 0, len(placed))
			schedule := func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
				if _, placed := c.groupCycle(t, pods, false); placed == nil {
					return nil, fwk.NewStatus(fwk.Unschedulable)
				}
				return nil, nil
			}
			succeeded := false
			for _, plugin := range tc.gates {
				result, status := c.gates[plugin].PodGroupPostFilter(t.Context(), cycle, podGroup{pods: pods}, schedule)
				if succeeded = status.IsSuccess(); succeeded {
					if result == nil { // the scheduler reads it
						t.Error("PodGroupPostFilter succeeds without a result")
					}
					break
				}
			}
			check.Equal(t, "PodGroupPostFilter succeeds", tc.wantWaived != nil, succeeded)
			_, placed = c.groupCycle(t, pods, true)
			check.Equal(t, "nodes once pods are evicted", tc.wantEvicted, placed)
			if succeeded {
				check.Equal(t, "activated", []string{"ns/p-1"}, slices.Sorted(maps.Keys(c.NextActivated(t))))
			}
			// The next attempt has other objects of the same pods.
			next := []*corev1.Pod{podNamed("p-1"), podNamed("p-2")}
			_, placed = c.groupCycle(t, next, false)
			check.Equal(t, "placed at the next attempt", succeeded, placed != nil)
			_, placed = c.groupCycle(t, next, false)
			check.Equal(t, "placed at the attempt after that", 0, len(placed))
		})
	}
}

// Pods that preemption would keep are put back even where they take the node above the limit.
func TestGate_PodGroupKeepsVictims(t *testing.T) {
	c, pods := newCluster(t, map[string][]string{"a": {"Full"}}), []*corev1.Pod{podNamed("p-1")}
	g := c.gate(t, "Limit", config.WhenNoneFitsReject)
	node := check.Value(c.SnapshotSharedLister().NodeInfos().Get("a"))(t)
	for _, tc := range []struct {
		name     string
		repeated bool
	}{{"an attempt", false}, {"the attempt of preemption", true}} {
		cycle, _ := c.groupCycle(t, pods, false)
		if tc.repeated {
			g.PodGroupPostFilter(t.Context(), cycle, podGroup{pods: pods}, nil)
		}
		state := framework.NewCycleState()
		minortest.SetPodGroupCycle(state, framework.NewCycleState())
		g.Begin(state, pods[0])
		g.AddPod(t.Context(), state, pods[0], nil, node)
		check.Equal(t, tc.name+": passes", tc.repeated, g.Filter(state, pods[0], node, "above the line").IsSuccess())
	}
}

// A group that waits is retried after a refresh that leaves room, until its next attempt begins.
func TestGate_PodGroupWaits(t *testing.T) {
	metrics.Register()
	c, pods := newCluster(t, map[string][]string{"a": {"Limit"}}), []*corev1.Pod{podNamed("p-1"), podNamed("p-2")}
	g := c.gate(t, "Limit", config.WhenNoneFitsReject)
	before := c.counted(t)
	for _, pod := range pods {
		c.Has(t, pod)
	}
	cycle, _ := c.groupCycle(t, pods, false)
	g.PodGroupPostFilter(t.Context(), cycle, podGroup{pods: pods}, nil)
	c.makeRoomFor("p-1")
	// The first pod was tried, and is counted by the scheduler; the second was not.
	check.Equal(t, "pods to count", before+1, c.counted(t))
	for range 2 {
		c.loads.Measure(nil, nil)
		check.Equal(t, "activated", []string{"ns/p-1"}, slices.Sorted(maps.Keys(c.NextActivated(t))))
	}
	g.Begin(framework.NewCycleState(), pods[0])
	check.Equal(t, "pods to count once the next attempt begins", before, c.counted(t))
}

// counted is the number of pods that the limit has added to scheduler_unschedulable_pods.
func (c *cluster) counted(t *testing.T) int {
	t.Helper()
	return int(check.Value(testutil.GetGaugeMetricValue(metrics.UnschedulableReason("Limit", "")))(t))
}
