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
	// SameEstimator reports that the earlier value was derived with the same podusage.Estimator, and SameObject with the same Node
	// object. Unchanged also has the same pods.
	SameEstimator, SameObject, Unchanged bool
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

// perNodeValue is an immutable value, and the estimate that it holds for. What each decision reads is together in memory: with
// thousands of nodes, little of it is in the processor's cache.
type perNodeValue[T any] struct {
	freshEstimate // of the estimate
	value         T
	estimate      *nodeEstimate
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
	n := p.of(v, node, d)
	for r := range e {
		if e[r] = n.freshAt(v, load.Resource(r)); e[r] == nil {
			e[r] = n.estimate.at(v, node, load.Resource(r))
		}
	}
	return e, &n.value
}

func (p *PerNode[T]) of(v *View, node fwk.NodeInfo, d Deriver[T]) *perNodeValue[T] {
	c := p.cacheFor(v.cache)
	row, ok := v.rows.row(node)
	if !ok {
		return c.unmeasuredNode(v, node, d)
	}
	value := c.rows[row].Load()
	if value != nil && !v.ignoreGeneration && value.holdsFor(v.cache, node) {
		return value
	}
	n := v.cache.node(row, node, v.ignoreGeneration)
	if value == nil || value.estimate != n {
		value = derive(d, n, node, v.cache.key.table.Row(row), value)
		if !v.ignoreGeneration {
			c.rows[row].Store(value)
		}
	}
	return value
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
func (c *perNodeCache[T]) unmeasuredNode(v *View, node fwk.NodeInfo, d Deriver[T]) *perNodeValue[T] {
	name := node.Node().Name
	var earlier *perNodeValue[T]
	var before *nodeEstimate
	if stored, ok := c.unmeasured.Load(name); ok {
		earlier = stored.(*perNodeValue[T])
		before = earlier.estimate
	}
	if before != nil && before.generation == node.GetGeneration() && !v.ignoreGeneration {
		return earlier
	}
	unmeasured := &load.NodeLoad{}
	value := derive(d, v.cache.compute(unmeasured, node, before), node, unmeasured, earlier)
	if !v.ignoreGeneration {
		if earlier == nil && c.unmeasuredCount.Add(1) > maxUnmeasured {
			c.unmeasured.Clear()
			c.unmeasuredCount.Store(1)
		}
		c.unmeasured.Store(name, value)
	}
	return value
}

func derive[T any](
	d Deriver[T], n *nodeEstimate, node fwk.NodeInfo, measured *load.NodeLoad, earlier *perNodeValue[T],
) *perNodeValue[T] {
	f := Facts{Node: node, Pods: n.pods, Measured: measured, Fresh: &n.fresh}
	var known *T
	if earlier != nil {
		before := earlier.estimate
		// In pod-group cycles, pods come and go without a new generation.
		f.SameEstimator, f.SameObject = before.key.estimator == n.key.estimator, before.node == n.node
		f.Unchanged = f.SameObject && before.generation == n.generation && SamePods(before.pods, n.pods)
		known = &earlier.value
	}
	value, same := d.Derive(f, known)
	if same {
		value = *known
	}
	return &perNodeValue[T]{freshEstimate: n.freshEstimate, value: value, estimate: n}
}

func (p *PerNode[T]) cacheFor(of *tableCache) *perNodeCache[T] {
	previous := p.cache.Load()
	if previous != nil && previous.of == of {
		return previous
	}
	c := &perNodeCache[T]{of: of, rows: make([]atomic.Pointer[perNodeValue[T]], len(of.nodes))}
	if previous != nil && previous.of.key.table.Index() == of.key.table.Index() {
		for row := range c.rows {
			// A value keeps its pods alive: unused ones are dropped at the next refresh.
			if value := previous.rows[row].Load(); value != nil && value.key == previous.of.key {
				c.rows[row].Store(value)
			}
		}
	}
	p.cache.CompareAndSwap(previous, c)
	return c
}

// dropUnused drops all values if no cycle has asked for one since the previous snapshot was published.
func (p *PerNode[T]) dropUnused(previous *load.Snapshot) {
	if c := p.cache.Load(); c != nil && c.of.key.table != p.model.tableOf(previous) {
		p.cache.CompareAndSwap(c, nil)
	}
}
