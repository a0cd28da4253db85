//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package softlimit_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

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
// it may evict. It returns the nodes of the pods in the first of the placements in which all have one.
func (c *cluster) groupCycle(
	t *testing.T, pods []*corev1.Pod, evicted bool, placements ...[]string,
) (root fwk.PodGroupCycleState, placed []string) {
	t.Helper()
	if placements == nil {
		placements = [][]string{slices.Collect(maps.Keys(c.ruledOut))}
	}
	root = framework.NewCycleState()
	for _, placement := range placements {
		if nodes := c.place(t, root, pods, evicted, placement); placed == nil {
			placed = nodes
		}
	}
	return root, placed
}

// groupOf returns the cycle of the group, or of a group within it.
func (c *cluster) groupOf(root fwk.PodGroupCycleState) fwk.PodGroupCycleState {
	if !c.composite {
		return root
	}
	placement, group := framework.NewCycleState(), framework.NewCycleState()
	minortest.SetPodGroupCycle(placement, root)
	group.SetPlacementCycleState(placement)
	return group
}

// place returns the nodes of the pods; a pod without a node ends it.
func (c *cluster) place(
	t *testing.T, root fwk.PodGroupCycleState, pods []*corev1.Pod, evicted bool, placement []string,
) (placed []string) {
	t.Helper()
	cycle := c.groupOf(root)
	nodes := slices.SortedFunc(slices.Values(check.Value(c.SnapshotSharedLister().NodeInfos().List())(t)), func(a, b fwk.NodeInfo) int {
		return strings.Compare(a.Node().Name, b.Node().Name)
	})
	for _, pod := range pods {
		state := framework.NewCycleState()
		minortest.SetPodGroupCycle(state, cycle)
		for _, plugin := range slices.Sorted(maps.Keys(c.gates)) {
			c.gates[plugin].Begin(state, pod)
		}
		chosen := ""
		for _, node := range nodes { // all are filtered
			name := node.Node().Name
			if slices.Contains(placement, name) && c.passesInGroup(state, pod, node, evicted) && chosen == "" {
				chosen = name
			}
		}
		if chosen == "" {
			return nil
		}
		placed = append(placed, chosen)
	}
	return placed
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
		if !full && !c.gates[plugin].Filter(state, node, reasons[plugin]).IsSuccess() {
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
		check.Equal(t, tc.name+": passes", tc.repeated, g.Filter(state, node, "above the line").IsSuccess())
	}
}

// A limit is waived for all placements of the next attempt, also where the group consists of groups with cycles of their own.
func TestGate_PodGroupPlacements(t *testing.T) {
	for _, composite := range []bool{false, true} {
		c := newCluster(t, map[string][]string{"a": {"Full"}, "b": {"Limit"}})
		c.composite = composite
		g, pods, placements := c.gate(t, "Limit", config.WhenNoneFitsRelax), []*corev1.Pod{podNamed("p-1"), podNamed("p-2")}, [][]string{{"a"}, {"b"}}
		c.Has(t, pods[0])
		cycle, placed := c.groupCycle(t, pods, false, placements...)
		check.Equal(t, "placed without a reason to wait", 0, len(placed))
		_, status := g.PodGroupPostFilter(t.Context(), cycle, podGroup{pods: pods}, func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
			if _, placed := c.groupCycle(t, pods, false, placements...); placed == nil {
				return nil, fwk.NewStatus(fwk.Unschedulable)
			}
			return nil, nil
		})
		check.Equal(t, "PodGroupPostFilter", fwk.Success, status.Code())
		next := []*corev1.Pod{podNamed("p-1"), podNamed("p-2")}
		_, placed = c.groupCycle(t, next, false, placements...)
		check.Equal(t, "nodes at the next attempt", []string{"b", "b"}, placed)
	}
}

// No pod is evicted for a strict limit where the group consists of groups.
func TestGate_CompositePodGroup(t *testing.T) {
	c, pods := newCluster(t, map[string][]string{"a": {"Pending"}}), []*corev1.Pod{podNamed("p-1"), podNamed("p-2")}
	c.composite = true
	g := c.gate(t, "Limit", config.WhenNoneFitsReject)
	c.untilTheGateWaits(t) // so that the gate does not forget the pods while a later test counts
	cycle, _ := c.groupCycle(t, pods, false)
	g.PodGroupPostFilter(t.Context(), cycle, podGroup{pods: pods}, nil)
	_, placed := c.groupCycle(t, pods, true)
	check.Equal(t, "nodes once pods are evicted", []string(nil), placed)
}

// A group that waits is retried after a refresh that leaves room, until its next attempt begins.
func TestGate_PodGroupWaits(t *testing.T) {
	metrics.Register()
	for _, tc := range []struct {
		name       string
		ruledOut   map[string][]string
		placements [][]string
		pods       []string
		// want is the number of pods that the scheduler does not count: it counts those without a node in the first placement, if the
		// limit has ruled out any node for them.
		want int
		// waits is the pod that stands for the group.
		waits string
	}{
		{"the second pod is not tried", map[string][]string{"a": {"Limit"}}, nil, []string{"p-1", "p-2"}, 1, "ns/p-1"},
		{"the first pod has a node, and the second has not", map[string][]string{"a": {"Limit"}, "b": {"Second"}}, nil, []string{"p-1", "p-2"}, 1, "ns/p-2"},
		{"and the third is not tried", map[string][]string{"a": {"Limit"}, "b": {"Second"}}, nil, []string{"p-1", "p-2", "p-3"}, 2, "ns/p-2"},
		{"the first pod has a node in the second placement", map[string][]string{"a": {"Limit"}, "b": {"Second"}}, [][]string{{"a"}, {"b"}}, []string{"p-1", "p-2"}, 1, "ns/p-1"},
		{"the second pod is refused in the second placement", map[string][]string{"a": {"Full"}, "b": {"Second"}}, [][]string{{"a"}, {"b"}}, []string{"p-1", "p-2"}, 2, "ns/p-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, tc.ruledOut)
			g, before, pods := c.gate(t, "Limit", config.WhenNoneFitsReject), c.counted(t), []*corev1.Pod(nil)
			for _, name := range tc.pods {
				pods = append(pods, podNamed(name))
				c.Has(t, podNamed(name))
			}
			cycle, placed := c.groupCycle(t, pods, false, tc.placements...)
			check.Equal(t, "placed", []string(nil), placed)
			g.PodGroupPostFilter(t.Context(), cycle, podGroup{pods: pods}, nil)
			c.makeRoomFor(tc.pods...)
			check.Equal(t, "pods to count", before+tc.want, c.counted(t))
			for range 2 {
				c.loads.Measure(nil, nil)
				c.wantActivated(t, tc.waits)
			}
			g.Begin(framework.NewCycleState(), pods[0])
			check.Equal(t, "pods to count once the next attempt begins", before, c.counted(t))
		})
	}
}

// counted is the number of pods that the limit has added to scheduler_unschedulable_pods.
func (c *cluster) counted(t *testing.T) int {
	t.Helper()
	return int(check.Value(testutil.GetGaugeMetricValue(metrics.UnschedulableReason("Limit", "")))(t))
}

// refused returns the cycles of a group, and of its one pod, which the limit keeps from node a.
func (c *cluster) refused(t *testing.T, pod *corev1.Pod) (root, state *framework.CycleState) {
	t.Helper()
	root, state = framework.NewCycleState(), framework.NewCycleState()
	minortest.SetPodGroupCycle(state, root)
	c.gates["Limit"].Begin(state, pod)
	c.loads.Snapshots.ForCycle(state) // as the filter does
	c.gates["Limit"].Filter(state, check.Value(c.SnapshotSharedLister().NodeInfos().Get("a"))(t), "above the line")
	return root, state
}

// A group that was refused keeps no cycle, whose plugins' state has a snapshot of the load.
func TestGate_PodGroupKeepsNoCycle(t *testing.T) {
	for _, whenNoneFits := range []config.WhenNoneFits{config.WhenNoneFitsReject, config.WhenNoneFitsRelax} {
		c, pod := newCluster(t, map[string][]string{"a": {"Limit"}}), podNamed("p-1")
		g := c.gate(t, "Limit", whenNoneFits)
		root, state := c.refused(t, pod)
		kept := weak.Make(state)
		g.PodGroupPostFilter(t.Context(), root, podGroup{pods: []*corev1.Pod{pod}},
			func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) { return nil, nil })
		c.loads.Snapshots.ForCycle(framework.NewCycleState()) // the next cycle
		runtime.GC()
		runtime.GC()
		check.Equal(t, string(whenNoneFits)+": the cycle is kept", false, kept.Value() != nil)
		runtime.KeepAlive(g)
	}
}

// While a group is retried each 100 ms, other pods that wait are not checked again by the same load.
func TestGate_PodGroupRetriesChecksOthersOnce(t *testing.T) {
	c, pod := newWaiting(t, "other"), podNamed("p-1")
	c.Has(t, pod)
	root, _ := c.refused(t, pod)
	c.loads.Measure(nil, nil) // the attempt is outdated
	c.askedAtLeast(t, 1)
	c.gates["Limit"].PodGroupPostFilter(t.Context(), root, podGroup{pods: []*corev1.Pod{pod}}, nil)
	for range 10 {
		c.wantActivated(t, "ns/p-1")
		c.untilTheGateWaits(t)
		c.clock.Step(100 * time.Millisecond)
	}
	c.wantActivated(t, "ns/p-1")
	check.Equal(t, "checks of the other pod by one snapshot", 1, c.asked)
	c.untilTheGateWaits(t)
	c.clock.Step(time.Minute)
	c.askedAtLeast(t, 2)
}
