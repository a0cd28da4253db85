package estimate

import (
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// tableCache holds the estimates of nodes by one table and one Estimator. It is safe for concurrent use. Goroutines may compute
// the same estimate at once: it depends on the key and the NodeInfo only.
type tableCache struct {
	key    *cacheKey
	config *Config
	// nodes holds the latest estimate of each row of the table. It starts with those of a previous cache with the same index.
	nodes []atomic.Pointer[nodeEstimate]
	// freshUntil is the last moment at which any node's load is fresh, by resource, in nanoseconds since 1970.
	freshUntil [load.ResourceCount]int64
}

// cacheKey holds the inputs of estimates, beside the NodeInfo.
type cacheKey struct {
	table     *load.Table
	estimator podusage.Estimator
}

// nodeEstimate is the estimate of one node at one generation of its NodeInfo. It is immutable.
type nodeEstimate struct {
	freshEstimate
	// stale is the estimate by requests, made when it is first needed.
	stale atomic.Pointer[Estimate]
	node  *corev1.Node
	// pods are the pods of the node. The slice is the same as long as they do not change.
	pods      []fwk.PodInfo
	uncovered uncoveredPods
}

// freshEstimate is what decisions read of a node while its load is fresh.
type freshEstimate struct {
	generation int64
	key        *cacheKey
	// freshUntil is the last moment of fresh load, in nanoseconds since 1970, or 0 if never measured.
	freshUntil [load.ResourceCount]int64
	// viewed is fresh as pods of each namespace see it.
	viewed *Viewed[Estimate]
	fresh  Estimate
}

// holdsFor reports whether the estimate is of the cache's load, and of the node's present generation.
func (f *freshEstimate) holdsFor(c *tableCache, node fwk.NodeInfo) bool {
	return f.key == c.key && f.generation == node.GetGeneration()
}

// cacheFor returns the cache for the table and the estimator.
func (m *Model) cacheFor(table *load.Table, e podusage.Estimator) *tableCache {
	key, previous := cacheKey{table, e}, m.cache.Load()
	if previous.isFor(key) {
		return previous
	}
	c := &tableCache{key: &key, config: &m.config, nodes: make([]atomic.Pointer[nodeEstimate], table.Index().Len())}
	sameNodes := previous != nil && previous.key.table.Index() == table.Index()
	for row := range c.nodes {
		for r := range load.ResourceCount {
			c.freshUntil[r] = max(c.freshUntil[r], freshUntil(&table.Row(row)[r], m.config.Trust))
		}
		if !sameNodes {
			continue
		}
		// An estimate keeps its pods alive: one that was not asked for since the last refresh is dropped.
		if n := previous.nodes[row].Load(); n != nil && n.key == previous.key {
			c.nodes[row].Store(n)
		}
	}
	if m.cache.CompareAndSwap(previous, c) {
		return c
	}
	if other := m.cache.Load(); other.isFor(key) {
		return other
	}
	return c
}

func (c *tableCache) isFor(key cacheKey) bool { return c != nil && *c.key == key }

// dropUnused drops the cache if no cycle has used it since the previous snapshot: estimates keep pods alive.
func (m *Model) dropUnused(previous *load.Snapshot) {
	if c := m.cache.Load(); c != nil && c.key.table != m.tableOf(previous) {
		m.cache.CompareAndSwap(c, nil)
	}
}

// node returns the estimate of the node in the given row. With ignoreGeneration it is always computed, and not stored.
func (c *tableCache) node(row int, node fwk.NodeInfo, ignoreGeneration bool) *nodeEstimate {
	previous := c.nodes[row].Load()
	if ignoreGeneration {
		return c.compute(c.key.table.Row(row), node, previous)
	}
	if previous != nil && previous.holdsFor(c, node) {
		return previous
	}
	n := c.compute(c.key.table.Row(row), node, previous)
	c.nodes[row].Store(n)
	return n
}

// at returns the estimate of one resource as the view's pod sees it, which must not be changed.
func (n *nodeEstimate) at(v *View, node fwk.NodeInfo, r load.Resource) *ResourceEstimate {
	if e := n.freshAt(v, r); e != nil {
		return e
	}
	return &n.byRequests(node)[r]
}

// freshAt is at while the load is fresh, and nil from then on.
func (f *freshEstimate) freshAt(v *View, r load.Resource) *ResourceEstimate {
	if v.now <= f.freshUntil[r] {
		return &f.viewed.For(v.namespace, &f.fresh)[r]
	}
	return nil
}

func (n *nodeEstimate) byRequests(node fwk.NodeInfo) *Estimate {
	if e := n.stale.Load(); e != nil {
		return e
	}
	e := &Estimate{}
	for r := range load.ResourceCount {
		e[r] = byRequests(node, r, stateAt(math.MaxInt64, n.freshUntil[r]))
	}
	n.stale.Store(e)
	return e
}

// compute returns the estimate of a node of which the given load was measured. It reuses what is still valid of an earlier one,
// which may be nil.
func (c *tableCache) compute(measured *load.NodeLoad, node fwk.NodeInfo, previous *nodeEstimate) *nodeEstimate {
	if previous == nil || previous.key.estimator != c.key.estimator {
		previous = &nodeEstimate{}
	}
	n := &nodeEstimate{}
	n.generation, n.key, n.node, n.pods = node.GetGeneration(), c.key, node.Node(), previous.pods
	if !slices.Equal(n.pods, node.GetPods()) {
		n.pods = slices.Clone(node.GetPods()) // a NodeInfo may change its own in place
	}
	for r := range load.ResourceCount {
		n.freshUntil[r] = freshUntil(&measured[r], c.config.Trust)
	}
	n.uncovered = previous.uncovered.update(previous.pods, n.pods, horizonOf(measured), c)
	capacity := podusage.Amounts{load.CPU: previous.fresh[load.CPU].Base, load.Memory: previous.fresh[load.Memory].Base}
	if previous.node != node.Node() {
		capacity = podusage.CapacityOf(node.Node()).Amounts
	}
	for r := range load.ResourceCount {
		n.fresh[r] = fresh(&measured[r], capacity[r], amountOf(node.GetAllocatable(), r))
		n.fresh[r].Pending = n.uncovered.pending(&measured[r], r, n.fresh[r].Allocatable)
	}
	defaults := n.uncovered.defaults(measured, n.pods, &n.fresh)
	n.viewed = NewViewed(defaults, func(namespace string) Estimate {
		e := n.fresh
		for r := range e {
			e[r].Pending -= defaults.Hidden(namespace, load.Resource(r))
		}
		return e
	})
	return n
}

// Defaults sums the default usage by namespace: that of starting pods on a node without requests and limits. Amounts are in
// milliCPU or bytes.
type Defaults []namespaceDefault

type namespaceDefault struct {
	namespace string
	amounts   podusage.Amounts
}

// Add adds amounts of a pod.
func (d *Defaults) Add(namespace string, amounts podusage.Amounts) {
	i := slices.IndexFunc(*d, func(of namespaceDefault) bool { return of.namespace == namespace })
	if i < 0 {
		*d = append(*d, namespaceDefault{namespace, amounts})
		return
	}
	for r := range amounts {
		(*d)[i].amounts[r] += amounts[r]
	}
}

// Hidden is the part of the defaults that pods of the given namespace do not see. See podusage.MaxForeignDefault.
func (d Defaults) Hidden(namespace string, r load.Resource) float64 {
	hidden := 0.0
	for i := range d {
		if d[i].namespace != namespace {
			hidden += max(d[i].amounts[r]-podusage.MaxForeignDefault(r), 0)
		}
	}
	return hidden
}

// Viewed holds a value of one node as pods of each namespace see it. A nil Viewed means that all see the same value.
type Viewed[T any] struct {
	foreign T
	own     []namespaceView[T]
}

type namespaceView[T any] struct {
	namespace string
	value     T
}

// NewViewed calls view for each namespace with defaults, and for "", which stands for all others. Without defaults it returns nil.
func NewViewed[T any](d Defaults, view func(namespace string) T) *Viewed[T] {
	if len(d) == 0 {
		return nil
	}
	v := &Viewed[T]{foreign: view(""), own: make([]namespaceView[T], len(d))}
	for i := range d {
		v.own[i] = namespaceView[T]{d[i].namespace, view(d[i].namespace)}
	}
	return v
}

// For returns the value for a pod of the namespace. It returns all if v is nil, or if the pod has no namespace.
func (v *Viewed[T]) For(namespace string, all *T) *T {
	if v == nil || namespace == "" {
		return all
	}
	for i := range v.own {
		if v.own[i].namespace == namespace {
			return &v.own[i].value
		}
	}
	return &v.foreign
}
