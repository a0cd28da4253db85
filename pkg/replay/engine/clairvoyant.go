package engine

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

const clairvoyantName = "Clairvoyant"

// clairvoyant knows the future usage of the placed pods and of the incoming pod, but not of later pods. It chooses the node where
// the pod adds least to the cost of overload.
type clairvoyant struct{ engine *engine }

func (e *engine) newClairvoyant(context.Context, runtime.Object, minor.Handle) (minor.Plugin, error) {
	e.future = newFuture(e)
	return clairvoyant{e}, nil
}

func (clairvoyant) Name() string { return clairvoyantName }

func (clairvoyant) ScoreExtensions() minor.ScoreExtensions { return nil }

// PreScore finds the node of the lowest cost.
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

func (pl clairvoyant) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if pl.engine.nodeOf[node.Node().Name] == pl.engine.future.best {
		return config.MaxNodeScore, nil
	}
	return config.MinNodeScore, nil
}

// future is the usage of the placed pods until their ends.
type future struct {
	engine *engine
	// demand is in milliCPU, by node and tick.
	demand [][]float32
	// pod is the usage of the incoming pod, from the tick start on.
	pod    []float32
	start  int
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

// forPod computes the usage of a pod that is placed now.
func (f *future) forPod(index int) {
	f.start = max(f.engine.measured.ticks+1, f.engine.pods[index].ready)
	d := f.engine.demandOf(index, f.start)
	end := min(f.start+f.engine.left(index), len(f.demand[0]))
	f.pod = f.pod[:0]
	for tick := f.start; tick < end; tick++ {
		f.pod = append(f.pod, d.At(tick))
	}
}

// cost is the pod's share of the squared demand above softAbove, over its lifetime. The squared utilization breaks ties.
func (f *future) cost(node int) float64 {
	const softAbove, balance = 0.6, 1e-3
	capacity := float32(f.engine.nodes[node].capacity.CPUMillis)
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

func (f *future) add(index int) {
	f.forPod(index)
	node := f.demand[f.engine.pods[index].node]
	for i, usage := range f.pod {
		node[f.start+i] += usage
	}
}

// remove removes the rest of the usage of an evicted pod.
func (f *future) remove(index, from int) {
	p := &f.engine.pods[index]
	node := f.demand[p.node]
	for tick := from; tick < min(p.end, len(node)); tick++ {
		node[tick] -= p.demand.At(tick)
	}
}
