package engine

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

const (
	randomName      = "Random"
	clairvoyantName = "Clairvoyant"
)

// random scores all nodes alike, so that the scheduler chooses one at random.
type random struct{}

func newRandom(context.Context, runtime.Object, minor.Handle) (minor.Plugin, error) {
	return random{}, nil
}

// Name returns the name of the plugin.
func (random) Name() string { return randomName }

// Score implements minor.ScorePlugin.
func (random) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return minor.MinScore, nil
}

// ScoreExtensions implements minor.ScorePlugin.
func (random) ScoreExtensions() minor.ScoreExtensions { return nil }

// clairvoyant knows what all pods that have been placed will use until they end, and what the pod to place will use, but no pod
// that is still to come. It chooses the node on which the pod adds least to the cost of overload.
type clairvoyant struct{ engine *engine }

func (e *engine) newClairvoyant(context.Context, runtime.Object, minor.Handle) (minor.Plugin, error) {
	e.future = newFuture(e)
	return clairvoyant{e}, nil
}

// Name returns the name of the plugin.
func (clairvoyant) Name() string { return clairvoyantName }

// ScoreExtensions implements minor.ScorePlugin.
func (clairvoyant) ScoreExtensions() minor.ScoreExtensions { return nil }

// PreScore computes the costs of all nodes.
func (pl clairvoyant) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	var index int
	if _, err := fmt.Sscanf(string(pod.UID), "pod-%d", &index); err != nil {
		return fwk.AsStatus(err)
	}
	f := pl.engine.future
	f.forPod(index)
	f.best, f.lowest = -1, math.Inf(1)
	for _, node := range nodes {
		i := pl.engine.nodeOf[node.Node().Name]
		if cost := f.cost(i); cost < f.lowest || cost == f.lowest && i < f.best {
			f.best, f.lowest = i, cost
		}
	}
	return nil
}

// Score implements minor.ScorePlugin.
func (pl clairvoyant) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if pl.engine.nodeOf[node.Node().Name] == pl.engine.future.best {
		return minor.MaxScore, nil
	}
	return minor.MinScore, nil
}

// future is what the placed pods will use.
type future struct {
	engine *engine
	// demand is the CPU usage of each node in milliCPU, by tick.
	demand [][]float32
	// pod is the usage of the pod to place, from the tick start on.
	pod   []float32
	start int
	// best is the node with the lowest cost.
	best   int
	lowest float64
}

func newFuture(e *engine) *future {
	f := &future{engine: e, demand: make([][]float32, len(e.nodes))}
	n := input.Ticks(e.Length)
	for i := range f.demand {
		f.demand[i] = make([]float32, n)
	}
	return f
}

// forPod computes the usage of the pod to place, if it is placed now.
func (f *future) forPod(index int) {
	p := &f.engine.Pods[index]
	d := f.engine.DemandOf(p, f.engine.noise)
	f.start = f.engine.measured.ticks + 1
	end := min(f.start+max(input.Ticks(p.Lifetime), 1), len(f.demand[0]))
	f.pod = f.pod[:0]
	for tick := f.start; tick < end; tick++ {
		f.pod = append(f.pod, d.At(tick))
	}
}

// cost is what the pod adds to the node's overload: by how much demand exceeds softAbove, squared, over the pod's lifetime; and,
// that being equal, the mean of the squared utilization.
func (f *future) cost(node int) float64 {
	const softAbove, balance = 0.6, 1e-3
	capacity := float32(f.engine.nodes[node].capacity[load.CPU])
	cost := 0.0
	for i, usage := range f.pod {
		before := f.demand[node][f.start+i] / capacity
		after := before + usage/capacity
		cost += balance * float64(after*after-before*before)
		if after > softAbove {
			over, was := float64(after-softAbove), float64(max(before-softAbove, 0))
			cost += over*over - was*was
		}
	}
	return cost * float64(capacity)
}

// add adds the usage of the pod that was bound.
func (f *future) add(index int) {
	f.forPod(index)
	node := f.demand[f.engine.pods[index].node]
	for i, usage := range f.pod {
		node[f.start+i] += usage
	}
}
