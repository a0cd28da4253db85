package estimate

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// tableCache holds the estimates of nodes by one table. It is safe for concurrent use: goroutines that compute the same
// estimate at once do no harm, for it follows from the table and the NodeInfo alone.
type tableCache struct {
	table  *load.Table
	config *Config
	// nodes holds the estimate computed last for each row of the table; nil until one is asked for. At first it holds those
	// of the table before, where that has the same index.
	nodes []atomic.Pointer[nodeEstimate]
	// freshUntil is the last moment at which any node's load is fresh, by resource, in nanoseconds since 1970.
	freshUntil [load.ResourceCount]int64
}

// nodeEstimate is the estimate of one node at one generation of its NodeInfo. It is immutable.
type nodeEstimate struct {
	generation int64
	table      *load.Table
	// freshUntil is the last moment at which the load is fresh, in nanoseconds since 1970; 0 if it was never measured.
	freshUntil [load.ResourceCount]int64
	// fresh is the estimate while the load is fresh.
	fresh Estimate

	node      *corev1.Node
	uncovered uncoveredPods
}

func (m *Model) cacheFor(table *load.Table) *tableCache {
	previous := m.cache.Load()
	if previous != nil && previous.table == table {
		return previous
	}
	c := &tableCache{table: table, config: &m.config, nodes: make([]atomic.Pointer[nodeEstimate], table.Index().Len())}
	sameNodes := previous != nil && previous.table.Index() == table.Index()
	for row := range c.nodes {
		for r := range load.ResourceCount {
			c.freshUntil[r] = max(c.freshUntil[r], freshUntil(&table.Row(row)[r], m.config.Trust))
		}
		if !sameNodes {
			continue
		}
		// An estimate keeps its pods alive: one that was not asked for since the last refresh is dropped.
		if n := previous.nodes[row].Load(); n != nil && n.table == previous.table {
			c.nodes[row].Store(n)
		}
	}
	if m.cache.CompareAndSwap(previous, c) {
		return c
	}
	if other := m.cache.Load(); other != nil && other.table == table {
		return other
	}
	return c
}

// dropUnused drops the cache if no cycle has asked for anything since the previous snapshot was published: estimates keep
// pods alive.
func (m *Model) dropUnused(previous *load.Snapshot) {
	if c := m.cache.Load(); c != nil && c.table != previous.Over(m.config.Window) {
		m.cache.CompareAndSwap(c, nil)
	}
}

// node returns the estimate of the node in the given row. With ignoreGeneration it is always computed, and not stored.
func (c *tableCache) node(row int, node fwk.NodeInfo, ignoreGeneration bool) *nodeEstimate {
	previous := c.nodes[row].Load()
	if ignoreGeneration {
		return c.compute(row, node, previous)
	}
	if previous != nil && previous.table == c.table && previous.generation == node.GetGeneration() {
		return previous
	}
	n := c.compute(row, node, previous)
	c.nodes[row].Store(n)
	return n
}

// compute returns the estimate of the node in the given row. It reuses what is still valid of an earlier one, which may be
// nil.
func (c *tableCache) compute(row int, node fwk.NodeInfo, previous *nodeEstimate) *nodeEstimate {
	if previous == nil {
		previous = &nodeEstimate{}
	}
	measured := c.table.Row(row)
	n := &nodeEstimate{
		generation: node.GetGeneration(),
		table:      c.table,
		node:       node.Node(),
		uncovered:  previous.uncovered.update(node.GetPods(), horizonOf(measured), c.config),
	}
	capacity := podusage.Amounts{load.CPU: previous.fresh[load.CPU].Base, load.Memory: previous.fresh[load.Memory].Base}
	if previous.node != node.Node() {
		capacity = podusage.AmountsOf(node.Node().Status.Capacity)
	}
	for r := range load.ResourceCount {
		n.freshUntil[r] = freshUntil(&measured[r], c.config.Trust)
		n.fresh[r] = fresh(&measured[r], capacity[r], amountOf(node.GetAllocatable(), r))
		n.fresh[r].Pending = n.uncovered.pending(&measured[r], r, n.fresh[r].Allocatable)
	}
	return n
}
