package plugintest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// World is a cluster of 1 to 400 nodes that changes at random, and the handle of its scheduler.
type World struct {
	*rand.Rand
	*Handle
	minor.NodeInfoLister
	Nodes []fwk.NodeInfo
	// Placement are the nodes that List returns while a pod group is tried on some of the cluster's; nil for all.
	Placement []fwk.NodeInfo
	// Size is the number of nodes after the first change.
	Size int
	// MakeNode and MakePod make objects at random. A pod without node is incoming.
	MakeNode func(name string) *corev1.Node
	MakePod  func(name, node string) *corev1.Pod

	made int
}

// NewWorld returns a cluster without nodes.
func NewWorld(seed uint64) *World {
	sizes := []int{1, 3, 10, 30, 100, 400}
	return &World{Rand: rand.New(rand.NewPCG(seed, 1)), Handle: NewHandle(), Size: sizes[int(seed)%len(sizes)]}
}

// One returns one of n names.
func (w *World) One(prefix string, n int) string { return fmt.Sprint(prefix, w.IntN(n)) }

// Any returns one of the nodes.
func (w *World) Any() *framework.NodeInfo { return w.Nodes[w.IntN(len(w.Nodes))].(*framework.NodeInfo) }

// SnapshotSharedLister implements minor.Handle.
func (w *World) SnapshotSharedLister() minor.SharedLister { return worldLister{World: w} }

type worldLister struct {
	minor.SharedLister
	*World
}

func (l worldLister) NodeInfos() minor.NodeInfoLister { return l.World }

// List implements minor.NodeInfoLister.
func (w *World) List() ([]fwk.NodeInfo, error) {
	if w.Placement != nil {
		return w.Placement, nil
	}
	return w.Nodes, nil
}

// HavePodsWithAffinityList implements minor.NodeInfoLister.
func (w *World) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return w.having(fwk.NodeInfo.GetPodsWithAffinity), nil
}

// HavePodsWithRequiredAntiAffinityList implements minor.NodeInfoLister.
func (w *World) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return w.having(fwk.NodeInfo.GetPodsWithRequiredAntiAffinity), nil
}

func (w *World) having(pods func(fwk.NodeInfo) []fwk.PodInfo) (nodes []fwk.NodeInfo) {
	for _, node := range w.Nodes {
		if len(pods(node)) > 0 {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Change makes several changes of nodes and pods.
func (w *World) Change() {
	for len(w.Nodes) < w.Size {
		w.Add()
	}
	for range 1 + w.IntN(12) {
		w.made++
		switch node := w.Any(); w.IntN(20) {
		case 0:
			w.Nodes = slices.Clone(w.Nodes)
			w.Add()
		case 1:
			if i := w.IntN(len(w.Nodes)); len(w.Nodes) > 1 {
				w.Nodes = slices.Delete(slices.Clone(w.Nodes), i, i+1)
			}
		case 2:
			changed := w.MakeNode(node.Node().Name)
			if w.IntN(2) == 0 { // only taints change
				changed.Labels = node.Node().Labels
			}
			node.SetNode(changed)
		case 3, 4:
			w.remove(node)
		case 5: // as a snapshot that changes on its own
			i := w.IntN(len(w.Nodes))
			w.Nodes = slices.Clone(w.Nodes)
			w.Nodes[i] = w.Nodes[i].Snapshot()
		case 6, 7, 8:
			if pod := w.remove(node); pod != nil {
				changed := pod.DeepCopy()
				changed.Labels = w.MakePod(pod.Name, "").Labels
				node.AddPod(changed)
			}
		default:
			for range 1 + w.IntN(3) {
				w.made++
				node.AddPod(w.MakePod(fmt.Sprint("pod-", w.made), node.Node().Name))
			}
		}
	}
}

// Add adds a node.
func (w *World) Add() {
	w.made++
	node := framework.NewNodeInfo()
	node.SetNode(w.MakeNode(fmt.Sprint("node-", w.made)))
	w.Nodes = append(w.Nodes, node)
}

func (w *World) remove(node *framework.NodeInfo) *corev1.Pod {
	if len(node.Pods) == 0 {
		return nil
	}
	pod := node.Pods[w.IntN(len(node.Pods))].GetPod()
	if err := node.RemovePod(klog.Background(), pod); err != nil {
		panic(err)
	}
	return pod
}

// Changes are what preemption tries: pods of one node go, and some come back; and a nominated pod comes.
func (w *World) Changes() (all []Change) {
	for range 2 {
		c := Change{Node: w.Any()}
		for _, info := range c.Node.GetPods() {
			c.Pods = append(c.Pods, info.GetPod())
		}
		if len(c.Pods) > 0 {
			back := c.Pods[0].DeepCopy()
			back.Spec.NodeName = ""
			c.Pods = append(c.Pods, back)
		}
		nominated := Change{Node: c.Node}
		for range 1 + w.IntN(4) {
			nominated.Pods = append(nominated.Pods, w.MakePod("nominated", ""))
		}
		all = append(all, c, nominated)
	}
	return all
}

// Strangers are a copy of a node with one pod more, and a node that no snapshot has.
func (w *World) Strangers() []fwk.NodeInfo {
	copied, foreign := w.Any().Snapshot().(*framework.NodeInfo), framework.NewNodeInfo()
	copied.AddPod(w.MakePod("stranger-1", copied.Node().Name))
	node := w.MakeNode("foreign")
	metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelTopologyZone, w.One("zone-foreign-", 2))
	foreign.SetNode(node)
	foreign.AddPod(w.MakePod("stranger-2", "foreign"))
	return []fwk.NodeInfo{copied, foreign}[:w.IntN(3)]
}

// CompareAnswers asks a stock plugin and ours about pods of 60 worlds that change at random. With COMPARE_FOR=1h, it takes as many
// as fit in an hour. build returns the world of a seed and its plugins.
func CompareAnswers(t *testing.T, build func(seed uint64) (w *World, stock, ours Spreader)) {
	t.Helper()
	worlds, end := 60, time.Time{}
	if text := os.Getenv("COMPARE_FOR"); text != "" {
		worlds, end = math.MaxInt, time.Now().Add(check.Value(time.ParseDuration(text))(t))
	}
	compared, filtered, scored, refused, seed := 0, 0, 0, 0, 0
	for ; seed < worlds && (end.IsZero() || time.Now().Before(end)); seed++ {
		w, stock, ours := build(uint64(seed))
		for step := range 180 {
			if step%3 == 0 {
				w.Change()
			}
			q := Question{Pod: w.MakePod("incoming", ""), Nodes: w.Nodes, Strangers: w.Strangers(), Changed: w.Changes()}
			want, got := q.Ask(t.Context(), stock, framework.NewCycleState()), q.Ask(t.Context(), ours, framework.NewCycleState())
			if !slices.Equal(want.Said, got.Said) {
				check.Equal(t, fmt.Sprint("seed ", seed, ", step ", step), want.Said, got.Said)
				return
			}
			compared += len(want.Said)
			for n, when := range map[*int]bool{
				&filtered: want.Filtered, &scored: want.Scored, &refused: want.Passed < len(w.Nodes),
			} {
				if when {
					*n++
				}
			}
		}
	}
	t.Logf("%d answers; %d pods filtered, %d scored, %d with refused nodes", compared, filtered, scored, refused)
	if least := 10 * seed; min(filtered, scored, refused) < least {
		t.Errorf("%d pods filtered, %d scored, %d with refused nodes: too few to say that both are alike", filtered, scored, refused)
	}
}
