package load

import (
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

// Usage says what a pod is expected to use. Its values are comparable: models whose usages are equal look at a pod once for
// all of them.
type Usage interface {
	// Of returns what the pod is expected to use, in milliCPU and bytes. It is called for each pod of a node whenever the node
	// changed or was measured, from many goroutines at once, and so should not allocate.
	Of(pod fwk.PodInfo) (cpuMillis, memoryBytes float64)
}

// Model turns the published snapshots and the scheduler's own view of a node into estimates. It is safe for concurrent
// use.
type Model struct {
	publisher *Publisher
	settings  Settings
	clock     clock.PassiveClock
	// cache is shared by all models of the publisher with the same settings, and usage is the model's place in it.
	cache *cache
	usage int
}

// NewModel returns a model of the load that settings ask for, in which pods are expected to use what usage says, or what they
// request if that is nil. What it keeps lives as long as the publisher.
func NewModel(publisher *Publisher, settings Settings, usage Usage, c clock.PassiveClock) *Model {
	if usage == nil {
		usage = Requests{}
	}
	m := &Model{publisher: publisher, settings: settings, clock: c}
	m.cache, m.usage = publisher.join(settings, usage)
	return m
}

// View returns the load as the decision sees it: all models of one publisher see the same snapshot during one decision.
func (m *Model) View(state fwk.CycleState) *View {
	return &View{
		usage:   m.usage,
		results: m.cache.over(m.publisher.Pinned(state)),
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
		var e ResourceEstimate
		load := measuredOf(r, capacity, allocatable)
		load.with(0, &e)
		return e
	}
	capacity, allocatable := node.Status.Capacity, node.Status.Allocatable
	return Estimate{
		CPU:    resource(&known.CPU, float64(capacity.Cpu().MilliValue()), float64(allocatable.Cpu().MilliValue())),
		Memory: resource(&known.Memory, float64(capacity.Memory().Value()), float64(allocatable.Memory().Value())),
	}
}

// View is the load as one decision sees it. It is safe for concurrent use.
type View struct {
	results *results
	usage   int
	// now is the time of the decision, in nanoseconds since 1970.
	now int64
	// anew is whether generations tell nothing: while the scheduler places the pods of a group it assumes one after the other
	// in its snapshot, where nodes keep their generation.
	anew bool
}

// KnowsCPU tells whether the CPU load of at least one node is known.
func (v *View) KnowsCPU() bool { return v.now <= v.results.cpuUntil }

// KnowsMemory tells whether the memory load of at least one node is known.
func (v *View) KnowsMemory() bool { return v.now <= v.results.memoryUntil }

// Estimate returns what the node carries right now. A resource whose load is not known is judged by the requests of the
// node's pods, the scheduler's usual non-zero minimum applied, against the allocatable.
func (v *View) Estimate(node fwk.NodeInfo) (e Estimate) {
	r := v.results.of(node, v.anew)
	v.cpu(&e.CPU, node, r)
	v.memory(&e.Memory, node, r)
	return e
}

// CPU returns the CPU of the node's Estimate, for less.
func (v *View) CPU(node fwk.NodeInfo) (e ResourceEstimate) {
	v.cpu(&e, node, v.results.of(node, v.anew))
	return e
}

// cpu puts the estimate into e, which costs less than a result that is copied. So does memory.
func (v *View) cpu(e *ResourceEstimate, node fwk.NodeInfo, r *result) {
	state := Absent
	if r != nil {
		if state = stateAt(v.now, r.cpuUntil); state == Fresh {
			r.cpu.with(r.pendingBy(v.usage).cpuMillis, e)
			return
		}
	}
	*e = byRequests(node.GetNonZeroRequested().GetMilliCPU(), node.GetAllocatable().GetMilliCPU(), state)
}

func (v *View) memory(e *ResourceEstimate, node fwk.NodeInfo, r *result) {
	state := Absent
	if r != nil {
		if state = stateAt(v.now, r.memoryUntil); state == Fresh {
			r.memory.with(r.pendingBy(v.usage).memoryBytes, e)
			return
		}
	}
	*e = byRequests(node.GetNonZeroRequested().GetMemory(), node.GetAllocatable().GetMemory(), state)
}

func byRequests(requested, allocatable int64, state State) ResourceEstimate {
	return ResourceEstimate{Mean: float64(requested), Base: float64(allocatable), Allocatable: float64(allocatable), State: state}
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
