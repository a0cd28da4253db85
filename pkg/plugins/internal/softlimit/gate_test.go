package softlimit_test

import (
	"context"
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

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/softlimit"
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
				status = g.Refuse("ruled out")
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
	if err := leak.Find(leaked); err != nil {
		t.Error(err)
	}
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
func TestGate_Refuse(t *testing.T) {
	c := newCluster(t, nil)
	for whenNoneFits, want := range map[config.WhenNoneFits]fwk.Code{
		config.WhenNoneFitsRelax: fwk.Unschedulable,
		// Preemption tries only nodes whose status is Unschedulable.
		config.WhenNoneFitsReject: fwk.UnschedulableAndUnresolvable,
	} {
		if got := c.gate(t, "Limit", whenNoneFits).Refuse("above the limit").Code(); got != want {
			t.Errorf("%s: %v, want %v", whenNoneFits, got, want)
		}
	}
}
