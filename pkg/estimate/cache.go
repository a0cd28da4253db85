package estimate

import (
	"math"
	"slices"
	"sync"
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
