package estimate

import (
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// PerNode caches one derived value per node, as long as the NodeInfo and the node's load stay the same. It is safe for
// concurrent use. Use NewPerNode.
type PerNode[T any] struct {
	model *Model
	cache atomic.Pointer[perNodeCache[T]]
}

// Facts are the inputs of a derived value.
type Facts struct {
	Node fwk.NodeInfo
	// Pods are the node's pods. The slice is immutable, and the same as long as the pods are.
	Pods []fwk.PodInfo
	// Measured is the node's load; nothing in it is Known on a node that was never measured.
	Measured *load.NodeLoad
	// Fresh is the node's estimate while its load is fresh. It hides no defaults: see View.For.
	Fresh *Estimate
	// SameObject reports that the earlier value has the same Node object. Unchanged also has the same pods.
	SameObject, Unchanged bool
}

// Deriver derives a value from a node and its load. It is called from many goroutines at once.
type Deriver[T any] interface {
	// Derive returns the node's value, or same where the earlier value still holds. earlier is nil if there is none.
	Derive(f Facts, earlier *T) (value T, same bool)
}

// perNodeCache holds the values that belong to one tableCache.
type perNodeCache[T any] struct {
	of   *tableCache
	rows []atomic.Pointer[perNodeValue[T]]
	// unmeasured holds the *perNodeValue of nodes without a row, by name, and unmeasuredCount their number.
	unmeasured      sync.Map
	unmeasuredCount atomic.Int64
}

// maxUnmeasured bounds the cached nodes without a row: while no load is read, an autoscaler may replace any number.
const maxUnmeasured = 10000

// perNodeValue is an immutable value and the latest estimate that it holds for.
type perNodeValue[T any] struct {
	estimate atomic.Pointer[nodeEstimate]
	value    T
}

// NewPerNode returns an empty cache beside that of the model.
func NewPerNode[T any](m *Model) *PerNode[T] {
	p := &PerNode[T]{model: m}
	m.snapshots.publisher.OnPublish(p.dropUnused)
	return p
}

// Of returns the node's estimates by load.Resource, and the value that d derives from them. Neither must be changed. The view is of
// the same model.
func (p *PerNode[T]) Of(v *View, node fwk.NodeInfo, d Deriver[T]) (e [load.ResourceCount]*ResourceEstimate, value *T) {
	n, value := p.of(v, node, d)
	for r := range e {
		e[r] = n.at(v, node, load.Resource(r))
	}
	return e, value
}

func (p *PerNode[T]) of(v *View, node fwk.NodeInfo, d Deriver[T]) (*nodeEstimate, *T) {
	c := p.cacheFor(v.cache)
	row, ok := v.rows.row(node)
	if !ok {
		return c.unmeasuredNode(v, node, d)
	}
	value := c.rows[row].Load()
	if value != nil && !v.ignoreGeneration {
		// The value's estimate spares a lookup of the node's.
		if n := value.estimate.Load(); n.key == v.cache.key && n.generation == node.GetGeneration() {
			return n, &value.value
		}
	}
	n := v.cache.node(row, node, v.ignoreGeneration)
	if value == nil || value.estimate.Load() != n {
		value = derive(d, n, node, v.cache.key.table.Row(row), value)
		if !v.ignoreGeneration {
			c.rows[row].Store(value)
		}
	}
	return n, &value.value
}

// Latest returns the value that was derived last for the node; nil if there is none.
func (p *PerNode[T]) Latest(node string) *T {
	c := p.cache.Load()
	if c == nil {
		return nil
	}
	if row, ok := c.of.key.table.Index().Row(node); ok {
		if value := c.rows[row].Load(); value != nil {
			return &value.value
		}
	}
	return nil
}

// unmeasuredNode is Of for a node without a row.
func (c *perNodeCache[T]) unmeasuredNode(v *View, node fwk.NodeInfo, d Deriver[T]) (*nodeEstimate, *T) {
	name := node.Node().Name
	var earlier *perNodeValue[T]
	var before *nodeEstimate
	if stored, ok := c.unmeasured.Load(name); ok {
		earlier = stored.(*perNodeValue[T])
		before = earlier.estimate.Load()
	}
	if before != nil && before.generation == node.GetGeneration() && !v.ignoreGeneration {
		return before, &earlier.value
	}
	unmeasured := &load.NodeLoad{}
	n := v.cache.compute(unmeasured, node, before)
	value := derive(d, n, node, unmeasured, earlier)
	if !v.ignoreGeneration {
		if earlier == nil && c.unmeasuredCount.Add(1) > maxUnmeasured {
			c.unmeasured.Clear()
			c.unmeasuredCount.Store(1)
		}
		c.unmeasured.Store(name, value)
	}
	return n, &value.value
}

func derive[T any](
	d Deriver[T], n *nodeEstimate, node fwk.NodeInfo, measured *load.NodeLoad, earlier *perNodeValue[T],
) *perNodeValue[T] {
	f := Facts{Node: node, Pods: n.pods, Measured: measured, Fresh: &n.fresh}
	var known *T
	if earlier != nil {
		before := earlier.estimate.Load()
		// In pod-group cycles, pods come and go without a new generation.
		f.SameObject = before.node == n.node
		f.Unchanged = f.SameObject && before.generation == n.generation && SamePods(before.pods, n.pods)
		known = &earlier.value
	}
	value, same := d.Derive(f, known)
	if same {
		earlier.estimate.Store(n)
		return earlier
	}
	derived := &perNodeValue[T]{value: value}
	derived.estimate.Store(n)
	return derived
}

// cacheFor returns the values beside the estimates in of.
func (p *PerNode[T]) cacheFor(of *tableCache) *perNodeCache[T] {
	previous := p.cache.Load()
	if previous != nil && previous.of == of {
		return previous
	}
	c := &perNodeCache[T]{of: of, rows: make([]atomic.Pointer[perNodeValue[T]], len(of.nodes))}
	if previous != nil && previous.of.key.table.Index() == of.key.table.Index() {
		for row := range c.rows {
			// A value keeps its pods alive: unused ones are dropped at the next refresh.
			if value := previous.rows[row].Load(); value != nil && value.estimate.Load().key == previous.of.key {
				c.rows[row].Store(value)
			}
		}
	}
	p.cache.CompareAndSwap(previous, c)
	return c
}

// dropUnused drops all values if no cycle has asked for one since the previous snapshot was published.
func (p *PerNode[T]) dropUnused(previous *load.Snapshot) {
	if c := p.cache.Load(); c != nil && c.of.key.table != p.model.TableOf(previous) {
		p.cache.CompareAndSwap(c, nil)
	}
}
