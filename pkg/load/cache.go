package load

import (
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// cache keeps, for all models of one publisher with the same settings, what follows from a snapshot and the content of a
// NodeInfo alone. It is one for all of them because a node's results are mostly not in the processor's cache when a decision
// comes to it: the first plugin that asks for a node fetches them for the next. It is safe for concurrent use: goroutines that
// compute the same result at once do no harm.
type cache struct {
	settings Settings
	latest   atomic.Pointer[results]
	// usages are what the models expect of pods. The slice is not changed, but replaced.
	usages atomic.Pointer[[]Usage]
}

func newCache(settings Settings) *cache {
	c := &cache{settings: settings}
	c.usages.Store(&[]Usage{})
	return c
}

// serves tells whether models with the settings may share the cache.
func (c *cache) serves(s Settings) bool {
	return c.settings.Window == s.Window && c.settings.RefreshInterval == s.RefreshInterval &&
		c.settings.MaxAge == s.MaxAge && c.settings.DriftTolerance == s.DriftTolerance
}

// add returns the place of the usage among all. It is called by one goroutine at a time.
func (c *cache) add(usage Usage) int {
	usages := *c.usages.Load()
	if i := slices.Index(usages, usage); i >= 0 {
		return i
	}
	more := append(slices.Clone(usages), usage)
	c.usages.Store(&more)
	return len(usages)
}

// results is what follows from one table.
type results struct {
	settings Settings
	usages   []Usage
	table    *Table
	// nodes runs parallel to the table's. At first it holds nothing, then of each node the result that was asked for last: also
	// one of a copy of its NodeInfo, such as the framework makes to try nominated pods and preemption.
	nodes []atomic.Pointer[result]
	// before holds what followed from the table before, where that is of the same nodes, and nothing took its place yet.
	before []atomic.Pointer[result]
	// cpuUntil and memoryUntil are the last moments at which any node's load is fresh, in nanoseconds since 1970.
	cpuUntil, memoryUntil int64
}

// over returns the results of the snapshot's load over the cache's window.
func (c *cache) over(snapshot *Snapshot) *results {
	table, usages, held := snapshot.Over(c.settings.Window), *c.usages.Load(), c.latest.Load()
	if held != nil && held.table == table && len(held.usages) == len(usages) {
		return held
	}
	r := &results{
		settings: c.settings,
		usages:   usages,
		table:    table,
		nodes:    make([]atomic.Pointer[result], len(table.nodes)),
	}
	for i := range table.nodes {
		r.cpuUntil = max(r.cpuUntil, table.nodes[i].CPU.until(c.settings))
		r.memoryUntil = max(r.memoryUntil, table.nodes[i].Memory.until(c.settings))
	}
	if held != nil && held.table.index == table.index && len(held.usages) == len(usages) {
		// Only what was asked for lately: a result keeps its pods alive.
		r.before = make([]atomic.Pointer[result], len(table.nodes))
		for i := range held.nodes {
			r.before[i].Store(held.nodes[i].Load())
		}
	}
	if c.latest.CompareAndSwap(held, r) {
		return r
	}
	if won := c.latest.Load(); won != nil && won.table == table && len(won.usages) == len(usages) {
		return won
	}
	return r
}

// forget drops what no decision has asked for since the given snapshot was published: results keep pods alive.
func (c *cache) forget(since *Snapshot) {
	if held := c.latest.Load(); held != nil && held.table != since.Over(c.settings.Window) {
		c.latest.CompareAndSwap(held, nil)
	}
}

// until is the last moment at which the reading is fresh, in nanoseconds since 1970; 0 if it was never made.
func (r *Reading) until(s Settings) int64 {
	if !r.Known {
		return 0
	}
	return r.FreshUntil(s).UnixNano()
}

// result is what follows from one node's load and one generation of its NodeInfo, while the load is fresh. It is as long as
// two lines of the processor's cache, and begins with what is read of it where CPU alone counts, by the first usage.
type result struct {
	generation int64
	// cpuUntil and memoryUntil are the last moments at which the load is fresh, in nanoseconds since 1970; 0 if there is none.
	cpuUntil int64
	cpu      measured
	// pending is by the first usages; those of further ones are kept.
	pending     [2]amounts
	memoryUntil int64
	memory      measured
	kept        *kept
}

// kept is the part of a result that decisions do not read while neither the node nor its load changes.
type kept struct {
	node *corev1.Node
	pods recentPods
	// pending is by the usages that a result has no place for.
	pending []amounts
}

// measured is what was measured of one resource, in milliCPU or bytes.
type measured struct{ mean, stdDev, base, allocatable float64 }

func measuredOf(r *Reading, capacity, allocatable float64) measured {
	return measured{mean: r.Mean * capacity, stdDev: r.StdDev * capacity, base: capacity, allocatable: allocatable}
}

// with makes e the estimate with so much pending.
func (m *measured) with(pending float64, e *ResourceEstimate) {
	e.Mean, e.StdDev, e.Pending, e.Base, e.Allocatable, e.State = m.mean, m.stdDev, pending, m.base, m.allocatable, Fresh
}

// amounts are of both resources.
type amounts struct{ cpuMillis, memoryBytes float64 }

// pendingBy is what is pending by the usage with that place.
func (r *result) pendingBy(usage int) amounts {
	if usage < len(r.pending) {
		return r.pending[usage]
	}
	return r.kept.pending[usage-len(r.pending)]
}

// of returns what follows from the node's load, or nil if it was never measured. Anew is whether the generation of the
// NodeInfo does not tell its content.
func (held *results) of(node fwk.NodeInfo, anew bool) *result {
	row, ok := held.table.index.row(node)
	if !ok {
		return nil
	}
	r := held.nodes[row].Load()
	if r != nil && r.generation == node.GetGeneration() && !anew {
		return r
	}
	if r == nil && held.before != nil {
		r = held.before[row].Load()
	}
	r = held.compute(row, node, r)
	if !anew {
		held.nodes[row].Store(r)
		if held.before != nil {
			held.before[row].Store(nil)
		}
	}
	return r
}

// compute returns what the node carries if its load is fresh. Before is an earlier result for the node, or nil.
func (held *results) compute(row int, node fwk.NodeInfo, before *result) *result {
	if before == nil {
		before = &result{kept: &kept{}}
	}
	known, cpu, memory, allocatable := &held.table.nodes[row], before.cpu.base, before.memory.base, node.GetAllocatable()
	if before.kept.node != node.Node() {
		capacity := node.Node().Status.Capacity
		cpu, memory = float64(capacity.Cpu().MilliValue()), float64(capacity.Memory().Value())
	}
	r := &result{
		generation:  node.GetGeneration(),
		cpuUntil:    known.CPU.until(held.settings),
		cpu:         measuredOf(&known.CPU, cpu, float64(allocatable.GetMilliCPU())),
		memoryUntil: known.Memory.until(held.settings),
		memory:      measuredOf(&known.Memory, memory, float64(allocatable.GetMemory())),
		kept: &kept{
			node: node.Node(),
			pods: before.kept.pods.next(node.GetPods(), known.horizon(), held.usages),
		},
	}
	if further := len(held.usages) - len(r.pending); further > 0 {
		r.kept.pending = make([]amounts, further)
	}
	for usage := range held.usages {
		pending := r.kept.pods.pending(known, usage, len(held.usages))
		if usage < len(r.pending) {
			r.pending[usage] = pending
		} else {
			r.kept.pending[usage-len(r.pending)] = pending
		}
	}
	return r
}
