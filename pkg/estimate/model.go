// Package estimate combines measured load with the pods in the scheduler's cache into the load of nodes right now. It does no I/O
// and starts no goroutine.
package estimate

import (
	"math/bits"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Model combines the published snapshots with the scheduler's own NodeInfos into estimates. It is safe for concurrent use.
type Model struct {
	snapshots *Snapshots
	config    Config
	cache     atomic.Pointer[tableCache]
}

// Config says what a Model reads, and how.
type Config struct {
	// Window is the span that means and deviations are taken over.
	Window time.Duration
	// Fraction selects a quantile over Window, in (0, 1]; 0 selects the mean.
	Fraction float64
	// Trust says how long a measurement is used.
	Trust load.Trust
	// Estimators is comparable: readers with equal Configs share a Model.
	Estimators Estimators
	Clock      clock.PassiveClock
}

// Estimators choose the Estimator of pending usage for each scheduling cycle.
type Estimators interface {
	// ForCycle returns a comparable Estimator. Equal ones give equal estimates.
	ForCycle(state fwk.CycleState) podusage.Estimator
}

// Fixed is one Estimator for all cycles.
type Fixed struct{ podusage.Estimator }

func (f Fixed) ForCycle(fwk.CycleState) podusage.Estimator { return f.Estimator }

// NewModel returns a model of the load in the snapshots. It lives as long as their publisher.
func NewModel(snapshots *Snapshots, config Config) *Model {
	m := &Model{snapshots: snapshots, config: config}
	snapshots.publisher.OnPublish(m.dropUnused)
	return m
}

func (m *Model) Snapshots() *Snapshots { return m.snapshots }

func (m *Model) Config() Config { return m.config }

func (m *Model) View(state fwk.CycleState) *View {
	return m.ViewBy(state, m.config.Estimators.ForCycle(state))
}

// ViewBy is View with the cycle's Estimator, for callers that know it.
func (m *Model) ViewBy(state fwk.CycleState, e podusage.Estimator) *View {
	snapshot := m.snapshots.forCycle(state)
	return &View{
		cache: m.cacheFor(m.tableOf(snapshot.Snapshot), e), rows: snapshot.rows, now: m.config.Clock.Now().UnixNano(),
		ignoreGeneration: minor.IsPodGroupCycle(state),
	}
}

// tableOf returns what the model reads of a snapshot.
func (m *Model) tableOf(s *load.Snapshot) *load.Table {
	return s.Table(load.Quantile{Window: m.config.Window, Fraction: m.config.Fraction})
}

// Measured returns the latest measurement of the node, outside of any scheduling cycle. Pending is 0. All amounts are 0 where
// State is not Fresh.
func (m *Model) Measured(node *corev1.Node) (e Estimate) {
	measured, now := m.tableOf(m.snapshots.publisher.Latest()).Node(node.Name), m.config.Clock.Now()
	capacity, allocatable := podusage.CapacityOf(node).Amounts, podusage.AmountsOf(node.Status.Allocatable)
	for r := range load.ResourceCount {
		if state := measured[r].State(now, m.config.Trust); state != load.Fresh {
			e[r].State = state
			continue
		}
		e[r] = fresh(&measured[r], capacity[r], allocatable[r])
	}
	return e
}

// View is the load as one scheduling cycle sees it. It is safe for concurrent use.
type View struct {
	cache *tableCache
	rows  *rowMemo
	// now is the time of the cycle, in nanoseconds since 1970.
	now int64
	// ignoreGeneration is set in pod-group cycles, which change NodeInfos without a new generation.
	ignoreGeneration bool
	// namespace is that of the pod to place. If it is empty, all pending usage counts.
	namespace string
}

// For returns the load as the pod to place sees it. For counts only a part of the pending usage of pods in other namespaces that
// have neither requests nor limits: see podusage.MaxForeignDefault.
func (v *View) For(pod *corev1.Pod) *View {
	seen := *v
	seen.namespace = pod.Namespace
	return &seen
}

// Stranger returns a pod whose namespace has no other pods. View.For shows the load that a usual pod to place sees.
func Stranger() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace = "/" // a name that no namespace has
	return pod
}

// Namespace is that of the pod that sees the load; empty without one.
func (v *View) Namespace() string { return v.namespace }

// Knows reports whether at least one node has fresh load of the resource.
func (v *View) Knows(r load.Resource) bool { return v.now <= v.cache.freshUntil[r] }

// Estimate returns the load of the node right now. A resource without fresh load is estimated by the non-zero requests of the
// node's pods over the allocatable.
func (v *View) Estimate(node fwk.NodeInfo) (e Estimate) {
	n := v.node(node)
	for r := range load.ResourceCount {
		e[r] = v.resource(n, node, r)
	}
	return e
}

// Resource returns one resource of the node's Estimate, at a lower cost.
func (v *View) Resource(node fwk.NodeInfo, r load.Resource) ResourceEstimate {
	return v.resource(v.node(node), node, r)
}

func (v *View) Estimator() podusage.Estimator { return v.cache.key.estimator }

// node returns the node's estimate, fresh or expired; nil if the node was never measured.
func (v *View) node(node fwk.NodeInfo) *nodeEstimate {
	row, ok := v.rows.row(node)
	if !ok {
		return nil
	}
	return v.cache.node(row, node, v.ignoreGeneration)
}

func (v *View) resource(n *nodeEstimate, node fwk.NodeInfo, r load.Resource) ResourceEstimate {
	if n == nil {
		return byRequests(node, r, load.Absent)
	}
	return *n.at(v, node, r)
}

// stateAt is the state of a measurement that is fresh until freshUntil; 0 is no measurement.
func stateAt(now, freshUntil int64) load.State {
	switch {
	case freshUntil == 0:
		return load.Absent
	case now > freshUntil:
		return load.Expired
	}
	return load.Fresh
}

// freshUntil is the last moment at which the measurement is trusted, in nanoseconds since 1970; 0 if there is none.
func freshUntil(m *load.Measurement, trust load.Trust) int64 {
	if !m.Known {
		return 0
	}
	return m.FreshUntil(trust).UnixNano()
}

// fresh returns the estimate by a fresh measurement, with nothing pending.
func fresh(m *load.Measurement, capacity, allocatable float64) ResourceEstimate {
	return ResourceEstimate{
		Mean: m.Mean * capacity, StdDev: m.StdDev * capacity, Base: capacity, Allocatable: allocatable, State: load.Fresh,
	}
}

// ResourceEstimate is the load of one resource of a node right now. All amounts are in milliCPU or bytes.
type ResourceEstimate struct {
	// Mean is the measured mean, or the sum of the pods' requests where State is not Fresh.
	Mean float64
	// StdDev is the measured standard deviation; 0 where it was not measured, or State is not Fresh.
	StdDev float64
	// Pending is the usage, on top of Mean, that the measurement does not cover yet. It is 0 where State is not Fresh: requests
	// count at once.
	Pending float64
	// Base is the node's capacity, which sources measure against. Where State is not Fresh, it is the node's allocatable.
	Base        float64
	Allocatable float64
	State       load.State
}

// Utilization is the used fraction of Base with a pod of the given usage, in milliCPU or bytes. A node without capacity has no
// room: its utilization is 1.
func (r *ResourceEstimate) Utilization(podUsage float64) float64 {
	if r.Base <= 0 {
		return 1
	}
	return (r.Mean + r.Pending + podUsage) / r.Base
}

// Estimate is the load of a node right now, by load.Resource.
type Estimate [load.ResourceCount]ResourceEstimate

// byRequests estimates a resource by the non-zero requests of the node's pods over the allocatable.
func byRequests(node fwk.NodeInfo, r load.Resource, state load.State) ResourceEstimate {
	allocatable := amountOf(node.GetAllocatable(), r)
	return ResourceEstimate{Mean: amountOf(node.GetNonZeroRequested(), r), Base: allocatable, Allocatable: allocatable, State: state}
}

// Allocatable returns the amounts that the node offers to pods.
func Allocatable(node fwk.NodeInfo) (a podusage.Amounts) {
	for r := range load.ResourceCount {
		a[r] = amountOf(node.GetAllocatable(), r)
	}
	return a
}

// amountOf returns an amount in milliCPU or bytes. The scheduler's sums overflow for absurd quantities: negative ones count zero.
func amountOf(amounts fwk.Resource, r load.Resource) float64 {
	if r == load.CPU {
		return max(float64(amounts.GetMilliCPU()), 0)
	}
	return max(float64(amounts.GetMemory()), 0)
}

// Snapshots gives each scheduling cycle one snapshot of a source: all its plugins decide by the same load. It is safe for
// concurrent use. Use NewSnapshots, once per publisher.
type Snapshots struct {
	publisher *load.Publisher
	pin       Pin[pinnedSnapshot]
	// rows is replaced when the nodes change.
	rows atomic.Pointer[rowMemo]
}

// pinnedSnapshot is a cycle's snapshot with the memo for its index.
type pinnedSnapshot struct {
	*load.Snapshot
	rows *rowMemo
}

// NewSnapshots returns the snapshots that p publishes.
func NewSnapshots(p *load.Publisher) *Snapshots { return &Snapshots{publisher: p} }

func (s *Snapshots) Publisher() *load.Publisher { return s.publisher }

// ForCycle returns the cycle's snapshot: the latest at the first call, and the same at further calls.
func (s *Snapshots) ForCycle(state fwk.CycleState) *load.Snapshot { return s.forCycle(state).Snapshot }

func (s *Snapshots) forCycle(state fwk.CycleState) *pinnedSnapshot {
	if p := s.pin.Get(state); p != nil {
		return p
	}
	p, _ := s.pin.Set(state, s.latest())
	return p
}

func (s *Snapshots) latest() *pinnedSnapshot {
	snapshot := s.publisher.Latest()
	rows := s.rows.Load()
	if rows == nil || rows.index != snapshot.Index() {
		rows = newRowMemo(snapshot.Index())
		s.rows.Store(rows)
	}
	return &pinnedSnapshot{Snapshot: snapshot, rows: rows}
}

// Outdated reports whether a later snapshot than the cycle's was published.
func (s *Snapshots) Outdated(state fwk.CycleState) bool {
	return s.ForCycle(state) != s.publisher.Latest()
}

// rowMemo memoizes NodeInfo generation → row of an Index, so that most lookups need no map access. It is safe for concurrent
// use. A generation belongs to one node only.
type rowMemo struct {
	index *load.Index
	// words are indexed by the low bits of the generation. Each holds generation << rowBits | row; 0 is empty. A later store replaces
	// an earlier one.
	words []atomic.Uint64
}

const rowBits = 24

func newRowMemo(index *load.Index) *rowMemo {
	// A power of two, 4 to 8 times the nodes, so that few nodes share a word.
	words := 1 << bits.Len(uint(4*index.Len()))
	return &rowMemo{index: index, words: make([]atomic.Uint64, words)}
}

func (m *rowMemo) row(node fwk.NodeInfo) (row int, ok bool) {
	generation := uint64(node.GetGeneration())
	word := &m.words[generation&uint64(len(m.words)-1)]
	if w := word.Load(); w != 0 && w>>rowBits == generation {
		return int(w & (1<<rowBits - 1)), true
	}
	if row, ok = m.index.Row(node.Node().Name); ok && row < 1<<rowBits {
		word.Store(generation<<rowBits | uint64(row))
	}
	return row, ok
}

// Pin holds one value for one scheduling cycle, identified by its CycleState. It serves plugins of Score alone:
// many goroutines make their first calls of a cycle at once. It costs no allocation per node.
//
// A Pin is safe for concurrent use. It holds the value of the latest cycle only, because cycles follow one another. It references
// the CycleState, whose address is therefore unique: comparing pointers is sound.
type Pin[T any] struct {
	latest atomic.Pointer[pinned[T]]
}

type pinned[T any] struct {
	state fwk.CycleState
	value *T
}

func (p *Pin[T]) Get(state fwk.CycleState) *T {
	if current := p.latest.Load(); current != nil && current.state == state {
		return current.value
	}
	return nil
}

// Set pins the value for the cycle unless another goroutine was first. It returns what is pinned, and whether that is value.
func (p *Pin[T]) Set(state fwk.CycleState, value *T) (winner *T, first bool) {
	fresh := &pinned[T]{state: state, value: value}
	for {
		current := p.latest.Load()
		if current != nil && current.state == state {
			return current.value, false
		}
		if p.latest.CompareAndSwap(current, fresh) {
			return value, true
		}
	}
}
