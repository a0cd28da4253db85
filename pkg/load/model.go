package load

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// State says where an estimate comes from.
type State uint8

// The states, the more telling the higher.
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
	// Pending is the expected usage, on top of Mean, of pods on the node that the measurement has not fully seen yet; 0
	// where State is not Fresh, for requests count from the moment a pod is placed.
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
func (r *ResourceEstimate) Utilization(extra float64) float64 {
	if r.Base <= 0 {
		return 1
	}
	return (r.Mean + r.Pending + extra) / r.Base
}

// Estimate is what a node carries right now, pods just placed included.
type Estimate struct {
	CPU    ResourceEstimate
	Memory ResourceEstimate
}

// Usage is what a pod is expected to use, in milliCPU and bytes. It is called for each pod of a node whenever the node
// changed or was measured, from many goroutines at once, and so should not allocate.
type Usage func(pod fwk.PodInfo) (cpuMillis, memoryBytes float64)

// Model turns the published snapshots and the scheduler's own view of a node into estimates. It is safe for concurrent
// use: what it keeps are results that follow from a snapshot and the content of a NodeInfo alone, so that goroutines that
// compute the same one at once do no harm.
type Model struct {
	publisher *Publisher
	settings  Settings
	usage     Usage
	clock     clock.PassiveClock
	results   atomic.Pointer[results]
}

// NewModel returns a model of the load that settings ask for, in which pods are expected to use what usage says, or what they
// request if that is nil. It lives as long as the publisher.
func NewModel(publisher *Publisher, settings Settings, usage Usage, c clock.PassiveClock) *Model {
	if usage == nil {
		usage = Requests
	}
	m := &Model{publisher: publisher, settings: settings, usage: usage, clock: c}
	publisher.join(m)
	return m
}

// results is what follows from one table.
type results struct {
	table *Table
	// nodes runs parallel to the table's. At first it holds what followed from the table before.
	nodes []atomic.Pointer[result]
	// found holds a part of nodes by the generation of their NodeInfo, for which no name has to be looked up.
	found []atomic.Pointer[result]
	// cpuUntil and memoryUntil are the last moments at which any node's load is fresh, in nanoseconds since 1970.
	cpuUntil, memoryUntil int64
}

// result is what follows from one node's load and one generation of its NodeInfo, while the load is fresh. What is read for
// each node comes first.
type result struct {
	generation int64
	// cpuUntil and memoryUntil are the last moments at which the load is fresh, in nanoseconds since 1970; 0 if there is none.
	cpuUntil, memoryUntil int64
	fresh                 Estimate
	table                 *Table
	node                  *corev1.Node
	pending               pendingLoad
}

// View returns the load as the decision sees it: all models of one publisher see the same snapshot during one decision.
func (m *Model) View(state fwk.CycleState) View {
	return View{
		model:   m,
		results: m.resultsFor(m.publisher.Pinned(state).Over(m.settings.Window)),
		now:     m.clock.Now().UnixNano(),
		anew:    state.IsPodGroupSchedulingCycle(),
	}
}

// Updates tells of new snapshots.
func (m *Model) Updates() *Publisher { return m.publisher }

// Measured returns what was measured of the node as it is known now, outside of any decision: without what the measurement
// has not seen, and with no amounts where State is not Fresh.
func (m *Model) Measured(node *corev1.Node) Estimate {
	known, now := m.publisher.Latest().Over(m.settings.Window).Node(node.Name), m.clock.Now().UnixNano()
	resource := func(r *Reading, capacity, allocatable float64) ResourceEstimate {
		if state := stateAt(now, r.until(m.settings)); state != Fresh {
			return ResourceEstimate{State: state}
		}
		return measured(r, capacity, allocatable)
	}
	capacity, allocatable := node.Status.Capacity, node.Status.Allocatable
	return Estimate{
		CPU:    resource(&known.CPU, float64(capacity.Cpu().MilliValue()), float64(allocatable.Cpu().MilliValue())),
		Memory: resource(&known.Memory, float64(capacity.Memory().Value()), float64(allocatable.Memory().Value())),
	}
}

func (m *Model) resultsFor(table *Table) *results {
	held := m.results.Load()
	if held != nil && held.table == table {
		return held
	}
	r := &results{
		table: table,
		nodes: make([]atomic.Pointer[result], len(table.nodes)),
		found: make([]atomic.Pointer[result], slots(len(table.nodes))),
	}
	carried := held != nil && held.table.index == table.index
	for i := range table.nodes {
		r.cpuUntil = max(r.cpuUntil, table.nodes[i].CPU.until(m.settings))
		r.memoryUntil = max(r.memoryUntil, table.nodes[i].Memory.until(m.settings))
		if carried {
			// Only what was asked for lately: a result keeps its pods alive.
			if before := held.nodes[i].Load(); before != nil && before.table == held.table {
				r.nodes[i].Store(before)
			}
		}
	}
	if m.results.CompareAndSwap(held, r) {
		return r
	}
	if won := m.results.Load(); won != nil && won.table == table {
		return won
	}
	return r
}

// forget drops what no decision has asked for since the load of the given snapshot was published: results keep pods alive.
func (m *Model) forget(since *Snapshot) {
	if held := m.results.Load(); held != nil && held.table != since.Over(m.settings.Window) {
		m.results.CompareAndSwap(held, nil)
	}
}

// until is the last moment at which the reading is fresh, in nanoseconds since 1970; 0 if it was never made.
func (r *Reading) until(s Settings) int64 {
	if !r.Known {
		return 0
	}
	return r.FreshUntil(s).UnixNano()
}

// View is the load as one decision sees it. It is safe for concurrent use.
type View struct {
	model   *Model
	results *results
	// now is the time of the decision, in nanoseconds since 1970.
	now int64
	// anew is whether generations tell nothing: while the scheduler places the pods of a group it assumes one after the other
	// in its snapshot, where nodes keep their generation.
	anew bool
}

// KnowsCPU tells whether the CPU load of at least one node is known.
func (v View) KnowsCPU() bool { return v.now <= v.results.cpuUntil }

// KnowsMemory tells whether the memory load of at least one node is known.
func (v View) KnowsMemory() bool { return v.now <= v.results.memoryUntil }

// Estimate returns what the node carries right now. A resource whose load is not known is judged by the requests of the
// node's pods, the scheduler's usual non-zero minimum applied, against the allocatable.
func (v View) Estimate(node fwk.NodeInfo) Estimate {
	r := v.result(node)
	if r == nil {
		return Estimate{CPU: cpuByRequests(node, Absent), Memory: memoryByRequests(node, Absent)}
	}
	e := r.fresh
	if state := stateAt(v.now, r.cpuUntil); state != Fresh {
		e.CPU = cpuByRequests(node, state)
	}
	if state := stateAt(v.now, r.memoryUntil); state != Fresh {
		e.Memory = memoryByRequests(node, state)
	}
	return e
}

// stateAt is the state at now of a reading that is fresh until the given moment; a reading that was never made has none.
func stateAt(now, until int64) State {
	switch {
	case until == 0:
		return Absent
	case now > until:
		return Expired
	}
	return Fresh
}

// result returns what follows from the node's load, or nil if it was never measured.
func (v View) result(node fwk.NodeInfo) *result {
	held := v.results
	found := &held.found[slot(node.GetGeneration(), len(held.found))]
	if r := found.Load(); r != nil && r.generation == node.GetGeneration() && !v.anew {
		return r
	}
	row, measured := held.table.index.rows[node.Node().Name]
	if !measured {
		return nil
	}
	r := held.nodes[row].Load()
	switch {
	case v.anew:
		return v.model.result(held.table, row, node, r)
	case r == nil || r.table != held.table || r.generation != node.GetGeneration():
		r = v.model.result(held.table, row, node, r)
		held.nodes[row].Store(r)
	}
	found.Store(r)
	return r
}

// result computes what the node carries if its load is fresh. Before is an earlier result for the node, or nil.
func (m *Model) result(table *Table, row int, node fwk.NodeInfo, before *result) *result {
	if before == nil {
		before = &result{}
	}
	known, cpu, memory, allocatable := &table.nodes[row], before.fresh.CPU.Base, before.fresh.Memory.Base, node.GetAllocatable()
	if before.node != node.Node() {
		capacity := node.Node().Status.Capacity
		cpu, memory = float64(capacity.Cpu().MilliValue()), float64(capacity.Memory().Value())
	}
	r := &result{
		generation:  node.GetGeneration(),
		cpuUntil:    known.CPU.until(m.settings),
		memoryUntil: known.Memory.until(m.settings),
		fresh: Estimate{
			CPU:    measured(&known.CPU, cpu, float64(allocatable.GetMilliCPU())),
			Memory: measured(&known.Memory, memory, float64(allocatable.GetMemory())),
		},
		table:   table,
		node:    node.Node(),
		pending: before.pending.next(node.GetPods(), known.horizon(), m.usage),
	}
	r.pending.on(&r.fresh, known)
	return r
}

func measured(r *Reading, capacity, allocatable float64) ResourceEstimate {
	return ResourceEstimate{Mean: r.Mean * capacity, StdDev: r.StdDev * capacity, Base: capacity, Allocatable: allocatable, State: Fresh}
}

func cpuByRequests(node fwk.NodeInfo, state State) ResourceEstimate {
	allocatable := float64(node.GetAllocatable().GetMilliCPU())
	return ResourceEstimate{Mean: float64(node.GetNonZeroRequested().GetMilliCPU()), Base: allocatable, Allocatable: allocatable, State: state}
}

func memoryByRequests(node fwk.NodeInfo, state State) ResourceEstimate {
	allocatable := float64(node.GetAllocatable().GetMemory())
	return ResourceEstimate{Mean: float64(node.GetNonZeroRequested().GetMemory()), Base: allocatable, Allocatable: allocatable, State: state}
}
