package softlimit_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is the deadline for what a test waits for.
const patience = 5 * time.Minute

// cluster is a framework with the limits of plugins. ruledOut holds the plugins that rule out a node, by name of the node. The
// plugin Full does so while the node has pods.
type cluster struct {
	*plugintest.Handle
	gates    map[string]*softlimit.Gate
	ruledOut map[string][]string
	loads    *plugintest.Loads
	clock    *clocktesting.FakeClock

	// composite says whether groups consist of groups.
	composite bool
	// tried counts the nodes that the gates ran the filters on.
	tried int

	mu sync.Mutex
	// room holds the names of the pods that every node has room for; asked counts how often the gates asked.
	room  map[string]bool
	asked int
}

func newCluster(t *testing.T, ruledOut map[string][]string) *cluster {
	t.Helper()
	var nodes []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(ruledOut)) {
		nodes = append(nodes, st.MakeNode().Name(name).Obj())
	}
	c := &cluster{
		Handle: plugintest.NewHandle(nodes...), gates: map[string]*softlimit.Gate{}, ruledOut: ruledOut, loads: plugintest.NewLoads(),
		clock: clocktesting.NewFakeClock(plugintest.Now()), room: map[string]bool{},
	}
	c.Passes = func(state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) bool {
		c.tried++
		return c.by(state, node) == ""
	}
	return c
}

func (c *cluster) gate(t *testing.T, plugin string, whenNoneFits config.WhenNoneFits) *softlimit.Gate {
	t.Helper()
	g := softlimit.NewGate(t.Context(), c.limit(plugin, whenNoneFits), c, c.loads.Snapshots, c.clock)
	c.gates[plugin] = g
	return g
}

func (c *cluster) limit(plugin string, whenNoneFits config.WhenNoneFits) softlimit.Limit {
	return softlimit.Limit{
		Plugin:       plugin,
		WhenNoneFits: whenNoneFits,
		Refuses: func(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) bool {
			return slices.Contains(c.ruledOut[node.Node().Name], plugin)
		},
		HasRoom: func(pod *corev1.Pod) func(*corev1.Node) bool {
			fits := c.hasRoom(pod)
			return func(node *corev1.Node) bool { return fits || !slices.Contains(c.ruledOut[node.Name], plugin) }
		},
	}
}

func (c *cluster) hasRoom(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.room[pod.Name]
}

// by is the first plugin that rules the node out with the waivers in the state, or is empty.
func (c *cluster) by(state fwk.CycleState, node fwk.NodeInfo) string {
	for _, plugin := range c.ruledOut[node.Node().Name] {
		g, ok := c.gates[plugin]
		if (!ok || !g.Waived(state)) && (plugin != "Full" || len(node.GetPods()) > 0) {
			return plugin
		}
	}
	return ""
}

// begin is a scheduling attempt up to PreFilter.
func (c *cluster) begin(pod *corev1.Pod) (fwk.CycleState, map[string]bool) {
	state, waived := framework.NewCycleState(), map[string]bool{}
	for plugin, g := range c.gates {
		if g.Begin(state, pod) {
			waived[plugin] = true
		}
	}
	return state, waived
}

// filter is what the filters of an attempt find.
func (c *cluster) filter(state fwk.CycleState) *framework.NodeToStatus {
	statuses := framework.NewDefaultNodeToStatus()
	nodes, err := c.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		panic(err)
	}
	for _, node := range nodes {
		if by := c.by(state, node); by != "" {
			status := fwk.NewStatus(fwk.Unschedulable)
			if g, ok := c.gates[by]; ok {
				status = g.Filter(state, node, "ruled out")
			} else if by == "Taint" {
				status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
			}
			statuses.Set(node.Node().Name, status.WithPlugin(by))
		}
	}
	return statuses
}

func podNamed(name string) *corev1.Pod {
	return st.MakePod().Namespace("ns").Name(name).UID(name).Obj()
}

// activated are the keys of the pods of the next call of Activate, or nil if there was none yet.
func (c *cluster) activated() []string {
	select {
	case pods := <-c.Activated:
		return slices.Sorted(maps.Keys(pods))
	default:
		return nil
	}
}

// refuse lets the limit refuse the pod, so that it waits.
func (c *cluster) refuse(t *testing.T, state fwk.CycleState, pod *corev1.Pod) {
	t.Helper()
	if _, status := c.gates["Limit"].PostFilter(t.Context(), state, pod, c.filter(state)); status.Code() != fwk.Unschedulable {
		t.Fatalf("PostFilter: %v, want Unschedulable", status)
	}
}

// No goroutine outlives the context.
func TestGate_EndsWithContext(t *testing.T) {
	leaked := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	c := newCluster(t, map[string][]string{"a": {"Limit"}})
	softlimit.NewGate(ctx, c.limit("Limit", config.WhenNoneFitsReject), c, c.loads.Snapshots, c.clock)
	cancel()
	check.OK(t, leak.Find(leaked))
}

// A limit whose filter was skipped is not asked.
func TestGate_SkippedLimit(t *testing.T) {
	c := newCluster(t, map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}})
	c.fill(4)
	c.gate(t, "Limit", config.WhenNoneFitsRelax)
	state, _ := c.begin(outranking("p"))
	state.SetSkipFilterPlugins(sets.New("Limit"))
	c.refuse(t, state, outranking("p"))
	if c.asked != 0 {
		t.Error("the limit is asked where the pod may go")
	}
}

// No pod is evicted for a limit that is not relaxed.
func TestGate_Filter(t *testing.T) {
	c := newCluster(t, nil)
	for whenNoneFits, want := range map[config.WhenNoneFits]fwk.Code{
		config.WhenNoneFitsRelax: fwk.Unschedulable,
		// Preemption tries only nodes whose status is Unschedulable.
		config.WhenNoneFitsReject: fwk.UnschedulableAndUnresolvable,
	} {
		status := c.gate(t, "Limit", whenNoneFits).Filter(framework.NewCycleState(), nil, "above the limit")
		check.Equal(t, fmt.Sprint(whenNoneFits, ": Code"), want, status.Code())
	}
}

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
			check.Equal(t, "PostFilter succeeds", tc.wantWaived != nil, succeeded)
			var wantActivated []string
			if tc.wantWaived != nil {
				wantActivated = []string{"ns/p"}
			}
			check.Equal(t, "activated", wantActivated, c.activated())
			if _, waived := c.begin(podNamed("another")); len(waived) > 0 {
				t.Errorf("waived for a pod that was not asked about: %v", waived)
			}
			state, waived = c.begin(pod)
			check.Equal(t, "waived at the next attempt", tc.wantWaived, slices.Sorted(maps.Keys(waived)))
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

// A limit that is relaxed does not hold for preemption.
func TestGate_WaivedForPreemption(t *testing.T) {
	// The node is full and above the limit: what is measured includes the pods that preemption would evict.
	for _, tc := range []struct {
		whenNoneFits config.WhenNoneFits
		want         bool
	}{{config.WhenNoneFitsRelax, true}, {config.WhenNoneFitsReject, false}} {
		t.Run(string(tc.whenNoneFits), func(t *testing.T) {
			c, pod := newCluster(t, map[string][]string{"full": {"Fit", "Limit"}}), podNamed("p")
			g := c.gate(t, "Limit", tc.whenNoneFits)
			state, _ := c.begin(pod)
			if _, status := g.PostFilter(t.Context(), state, pod, c.filter(state)); status.Code() != fwk.Unschedulable {
				t.Fatalf("PostFilter: %v, want Unschedulable, so that preemption has its turn", status)
			}
			check.Equal(t, "waived for what follows", tc.want, g.Waived(state.Clone()))
			if _, waived := c.begin(pod); len(waived) > 0 {
				t.Error("waived for the next attempt")
			}
		})
	}
}

// fill puts a pod of the priority on each of the cluster's nodes.
func (c *cluster) fill(priority int32) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(c.ruledOut)) {
		node, err := c.SharedInformerFactory().Core().V1().Nodes().Lister().Get(name)
		if err != nil {
			panic(err)
		}
		nodes = append(nodes, node)
		pods = append(pods, st.MakePod().Namespace("ns").Name("on-"+name).UID("on-"+name).Priority(priority).Node(name).Obj())
	}
	c.Runs(nodes, pods...)
}

// Preemption is not tried on nodes above the limit.
func TestGate_NoPreemptionAboveLimit(t *testing.T) {
	c := newCluster(t, map[string][]string{"hot": {"Full", "Limit"}, "hotter": {"Full", "Limit"}})
	c.fill(4)
	c.gate(t, "Limit", config.WhenNoneFitsRelax)
	state, _ := c.begin(outranking("p"))
	c.refuse(t, state, outranking("p"))
	check.Equal(t, "filters were run on nodes", 0, c.tried)
}

// outranking is a pod of priority 5.
func outranking(name string) *corev1.Pod {
	return st.MakePod().Namespace("ns").Name(name).UID(name).Priority(5).Obj()
}

// A relaxed limit holds for preemption where preemption helps below it.
func TestGate_PreemptionBelowLimit(t *testing.T) {
	never := outranking("p")
	never.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	for _, tc := range []struct {
		name     string
		ruledOut map[string][]string
		priority int32 // of the pods on the nodes
		pod      *corev1.Pod
		want     bool // whether the limit is waived for the plugins that follow
	}{
		{"a full node is below the limit", map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}}, 4, outranking("p"), false},
		{"all full nodes are above it", map[string][]string{"hot": {"Full", "Limit"}, "hotter": {"Limit", "Full"}}, 4, outranking("p"), true},
		{"nobody is to be evicted below it", map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}}, 5, outranking("p"), true},
		{"evicting is not enough below it", map[string][]string{"cool": {"Full", "Taint"}, "hot": {"Full", "Limit"}}, 4, outranking("p"), true},
		{"one of several below it serves", map[string][]string{"a": {"Full", "Taint"}, "b": {"Full"}, "c": {"Full", "Taint"}}, 4, outranking("p"), false},
		{"the pod never preempts", map[string][]string{"cool": {"Full"}}, 4, never, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, tc.ruledOut)
			c.fill(tc.priority)
			g := c.gate(t, "Limit", config.WhenNoneFitsRelax)
			state, _ := c.begin(tc.pod)
			if _, status := g.PostFilter(t.Context(), state, tc.pod, c.filter(state)); status.Code() != fwk.Unschedulable {
				t.Fatalf("PostFilter: %v, want Unschedulable: no node is ruled out by the limit alone", status)
			}
			check.Equal(t, "waived for preemption", tc.want, g.Waived(state))
		})
	}
}

func (c *cluster) makeRoomFor(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.room[name] = true
	}
}

// untilTheGateWaits returns once each gate has gone through the waiting pods for the first time.
func (c *cluster) untilTheGateWaits(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); c.clock.Waiters() < len(c.gates); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gate does not run")
		}
	}
}

// askedAtLeast returns once the gate has asked n times whether there is room for a pod.
func (c *cluster) askedAtLeast(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		asked := c.asked
		c.mu.Unlock()
		if asked >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gate asked %d times whether there is room, want %d", asked, n)
		}
	}
}

func (c *cluster) wantActivated(t *testing.T, want ...string) {
	t.Helper()
	check.Equal(t, "activated", want, slices.Sorted(maps.Keys(c.NextActivated(t))))
}

func newWaiting(t *testing.T, names ...string) *cluster {
	t.Helper()
	c := newCluster(t, map[string][]string{"a": {"Limit"}})
	var pods []*corev1.Pod
	for _, name := range names {
		pods = append(pods, podNamed(name))
	}
	c.makeWait(t, pods...)
	return c
}

// makeWait gives the cluster a limit that makes the pods wait.
func (c *cluster) makeWait(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	c.gate(t, "Limit", config.WhenNoneFitsReject)
	c.untilTheGateWaits(t)
	for _, pod := range pods {
		c.Has(t, pod)
		state, _ := c.begin(pod)
		c.loads.Snapshots.ForCycle(state) // as the filter does
		c.refuse(t, state, pod)
	}
}

// A waiting pod is requeued when a snapshot may let it in.
func TestGate_RequeuesAfterSnapshot(t *testing.T) {
	c := newWaiting(t, "small", "big")
	c.loads.Measure(nil, nil)
	c.askedAtLeast(t, 2) // both, and no node is feasible
	if got := c.activated(); got != nil {
		t.Fatalf("activated by a snapshot that cannot let anybody in: %v", got)
	}
	c.makeRoomFor("small")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/small")
	c.makeRoomFor("big")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/big") // and not small, which does not wait any more
}

// A snapshot that is published between the decision and its PostFilter is not missed.
func TestGate_RequeuesAfterEarlierSnapshot(t *testing.T) {
	c := newWaiting(t, "other")
	c.makeRoomFor("p")
	pod := podNamed("p")
	c.Has(t, pod)
	state, _ := c.begin(pod)
	c.loads.Snapshots.ForCycle(state)
	c.loads.Measure(nil, nil) // between the decision and its PostFilter
	c.askedAtLeast(t, 1)      // of the other, so that the gate has seen the snapshot
	c.refuse(t, state, pod)
	c.wantActivated(t, "ns/p")
}

// A pod is requeued when nothing has been published for a minute. Load may have become too old to rule a node out.
func TestGate_RequeuesWithoutSnapshot(t *testing.T) {
	c := newWaiting(t, "p")
	c.makeRoomFor("p") // the load has become too old to rule a node out
	c.clock.Step(time.Minute)
	c.wantActivated(t, "ns/p")
}

// Pods that no longer wait are forgotten.
func TestGate_ForgetsPods(t *testing.T) {
	c := newWaiting(t, "deleted", "placed", "replaced", "tried", "waiting")
	c.Loses(t, podNamed("deleted"))
	placed := podNamed("placed")
	placed.Spec.NodeName = "a"
	c.Has(t, placed)
	replaced := podNamed("replaced")
	replaced.UID = "another"
	c.Has(t, replaced)
	c.begin(podNamed("tried")) // by an event, and placed as far as the gate knows

	c.makeRoomFor("deleted", "placed", "replaced", "tried", "waiting")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/waiting")
	check.Equal(t, "pods were looked at, want that which waits alone", 1, c.asked)
}

// The requeued pod is its current version, not the one that began to wait.
func TestGate_RequeuesCurrentPod(t *testing.T) {
	c := newWaiting(t, "p")
	now := podNamed("p")
	now.Labels = map[string]string{"changed": "yes"}
	c.Has(t, now)
	c.makeRoomFor("p")
	c.loads.Measure(nil, nil)
	if pods := c.NextActivated(t); pods["ns/p"].Labels["changed"] != "yes" {
		t.Error("the pod is the one that began to wait")
	}
}

// A pod waits for the nodes that the limit keeps it from.
func TestGate_WaitsFor(t *testing.T) {
	never := outranking("p")
	never.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	for _, tc := range []struct {
		name     string
		ruledOut []string
		pod      *corev1.Pod
		want     bool
	}{
		{"a node above the limit", []string{"Limit"}, podNamed("p"), true},
		{"a node above the limit that has another reason behind it", []string{"Limit", "Full"}, podNamed("p"), true},
		{"a node that another limit was asked about first", []string{"Other", "Limit"}, podNamed("p"), true},
		{"a node above the limit that preemption could give it", []string{"Full", "Limit"}, outranking("p"), true},
		{"not a node that has nobody to evict", []string{"Full", "Limit"}, podNamed("p"), false},
		{"not a node that it cannot have, whoever is evicted", []string{"Taint", "Limit"}, outranking("p"), false},
		{"not a node where it may evict nobody", []string{"Full", "Limit"}, never, false},
		{"not a node that was below the limit all along", []string{"Full"}, outranking("p"), false},
		{"not a node that only another limit rules out", []string{"Other"}, podNamed("p"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, map[string][]string{"a": tc.ruledOut, "b": {"Limit"}})
			c.fill(4)
			c.gate(t, "Other", config.WhenNoneFitsRelax)
			c.makeWait(t, podNamed("b")) // it waits for the node b in any case
			c.Has(t, tc.pod)
			state, _ := c.begin(tc.pod)
			c.loads.Snapshots.ForCycle(state) // as the filter does
			statuses := c.filter(state)
			statuses.Set("b", fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithPlugin("NodeAffinity"))
			c.gates["Limit"].PostFilter(t.Context(), state, tc.pod, statuses)
			c.makeRoomFor("p", "b")
			c.loads.Measure(nil, nil)
			want := []string{"ns/b"}
			if tc.want {
				want = append(want, "ns/p")
			}
			c.wantActivated(t, want...)
		})
	}
}

// A pod waits for a relaxed limit that holds for preemption.
func TestGate_WaitsForRelaxedLimit(t *testing.T) {
	c := newCluster(t, map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}})
	c.fill(4)
	pod, g := outranking("p"), c.gate(t, "Limit", config.WhenNoneFitsRelax)
	c.untilTheGateWaits(t)
	c.Has(t, pod)
	state, _ := c.begin(pod)
	c.loads.Snapshots.ForCycle(state)
	c.refuse(t, state, pod)
	if g.Waived(state) {
		t.Fatal("preemption is not held to the limit")
	}
	c.loads.Measure(nil, nil)
	c.askedAtLeast(t, 2) // by PostFilter, and no node is feasible
	if got := c.activated(); got != nil {
		t.Fatalf("activated for a node that was below the limit all along: %v", got)
	}
	c.makeRoomFor("p")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/p")
}
