package load

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// State says where an estimate comes from.
type State uint8

const (
	// Absent means that the resource of this node was never measured: it is judged by requests.
	Absent State = iota
	// Expired means that the measurement is too old to be trusted: the resource is judged by requests.
	Expired
	// Fresh means that the estimate is measured load.
	Fresh
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"Absent", "Expired", "Fresh"}[s]
}

// ResourceEstimate is what one resource of a node carries right now. All amounts are in milliCPU or bytes.
type ResourceEstimate struct {
	// Mean is the measured mean, or the sum of the pods' requests where State is not Fresh.
	Mean float64
	// StdDev is the measured standard deviation; 0 where State is not Fresh.
	StdDev float64
	// Pending is the expected usage of pods that the measurement has not seen yet.
	Pending float64
	// Base is what a utilization is a fraction of: the node's capacity, which sources measure against, or its allocatable
	// where State is not Fresh, which requests are made against.
	Base float64
	// Allocatable is what the node offers to pods.
	Allocatable float64
	State       State
}

// Utilization is the fraction of Base in use once a pod that uses extra more (in milliCPU or bytes) has come. A node
// without capacity has no room: it is full.
func (r ResourceEstimate) Utilization(extra float64) float64 {
	if r.Base <= 0 {
		return 1
	}
	return (r.Mean + r.Pending + extra) / r.Base
}

// Estimate is what a node carries right now.
type Estimate struct {
	CPU    ResourceEstimate
	Memory ResourceEstimate
}

// Model turns the published snapshots and the scheduler's own view of a node into estimates. It is immutable, and so safe
// for concurrent use.
type Model struct {
	publisher *Publisher
	window    time.Duration
	maxAge    time.Duration
	clock     clock.PassiveClock
}

// NewModel returns a model of the load over window, trusted up to the age of maxAge.
func NewModel(publisher *Publisher, window, maxAge time.Duration, c clock.PassiveClock) *Model {
	return &Model{publisher: publisher, window: window, maxAge: maxAge, clock: c}
}

// View returns the load as the decision sees it: all models of one publisher see the same snapshot during one decision.
func (m *Model) View(state fwk.CycleState) View {
	return View{table: m.publisher.Pinned(state).Over(m.window), oldest: m.clock.Now().Add(-m.maxAge)}
}

// View is the load as one decision sees it. It is immutable, and so safe for concurrent use.
type View struct {
	table *Table
	// oldest is the earliest end of a window that is still trusted.
	oldest time.Time
}

// KnowsCPU tells whether the CPU load of at least one node is known.
func (v View) KnowsCPU() bool { return v.fresh(v.table.newestCPU) }

// KnowsMemory tells whether the memory load of at least one node is known.
func (v View) KnowsMemory() bool { return v.fresh(v.table.newestMemory) }

func (v View) fresh(end time.Time) bool { return !end.Before(v.oldest) }

// Estimate returns what the node carries right now. A resource whose load is not known is judged by the requests of the
// node's pods, the scheduler's usual non-zero minimum applied, against the allocatable.
func (v View) Estimate(node fwk.NodeInfo) Estimate {
	object := node.Node()
	known := v.table.Node(object.Name)
	requested, allocatable := node.GetNonZeroRequested(), node.GetAllocatable()
	cpu, memory := object.Status.Capacity[corev1.ResourceCPU], object.Status.Capacity[corev1.ResourceMemory]
	return Estimate{
		CPU:    v.resource(known.CPU, float64(cpu.MilliValue()), float64(allocatable.GetMilliCPU()), float64(requested.GetMilliCPU())),
		Memory: v.resource(known.Memory, float64(memory.Value()), float64(allocatable.GetMemory()), float64(requested.GetMemory())),
	}
}

func (v View) resource(r Reading, capacity, allocatable, requested float64) ResourceEstimate {
	e := ResourceEstimate{Mean: requested, Base: allocatable, Allocatable: allocatable}
	switch {
	case !r.Known:
		e.State = Absent
	case !v.fresh(r.End):
		e.State = Expired
	default:
		e.State, e.Base = Fresh, capacity
		e.Mean, e.StdDev = r.Mean*capacity, r.StdDev*capacity
	}
	return e
}
