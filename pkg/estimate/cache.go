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
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// tableCache holds the estimates of nodes by one table and one snapshot of statistics. It is safe for concurrent use: goroutines
// that compute the same estimate at once do no harm, for it follows from the table, the statistics and the NodeInfo alone.
type tableCache struct {
	key       *cacheKey
	config    *Config
	estimator podusage.Estimator
	// nodes holds the estimate computed last for each row of the table; nil until one is asked for. At first it holds those
	// of the cache before, where that has the same index.
	nodes []atomic.Pointer[nodeEstimate]
	// unmeasured holds the *nodeEstimate of nodes that have no row, by name. It is used for predictions and derived values alone.
	unmeasured sync.Map
	// unmeasuredCount is the number of nodes that were added to unmeasured since it was last emptied.
	unmeasuredCount atomic.Int64
	// freshUntil is the last moment at which any node's load is fresh, by resource, in nanoseconds since 1970.
	freshUntil [load.ResourceCount]int64
}

// cacheKey is what estimates are computed from, beside the NodeInfo.
type cacheKey struct {
	table *load.Table
	// prediction is nil where the estimator does not predict peaks.
	prediction *learned.Prediction
}

func (k *cacheKey) statistics() *learned.Snapshot {
	if k.prediction == nil {
		return nil
	}
	return k.prediction.Snapshot
}

// nodeEstimate is the estimate of one node at one generation of its NodeInfo. It is immutable.
type nodeEstimate struct {
	generation int64
	key        *cacheKey
	// freshUntil is the last moment at which the load is fresh, in nanoseconds since 1970; 0 if it was never measured.
	freshUntil [load.ResourceCount]int64
	// fresh is the estimate while the load is fresh.
	fresh Estimate

	node *corev1.Node
	// pods are the pods of the node. The slice is the same as long as they do not change.
	pods      []fwk.PodInfo
	uncovered uncoveredPods
	// predicted is nil where the estimator does not predict peaks.
	predicted *nodePrediction
}

// nodePrediction is what the pods of a node are predicted to use.
type nodePrediction struct {
	sums [load.ResourceCount]PodSums
	// stale is the estimate while the load is not fresh.
	stale Estimate
	// from and until bound the moments that sums hold at: no pod's usages lapse in between. In nanoseconds since 1970.
	from, until int64
	// pods are in the order of the node's.
	pods []predictedPod
}

// cacheFor returns the cache for the table, with the statistics where the estimator reads some.
func (m *Model) cacheFor(table *load.Table, statistics *learned.Snapshot) *tableCache {
	previous := m.cache.Load()
	if previous.isFor(table, statistics) {
		return previous
	}
	c := &tableCache{
		key:       &cacheKey{table: table},
		config:    &m.config,
		estimator: m.config.Estimator,
		nodes:     make([]atomic.Pointer[nodeEstimate], table.Index().Len()),
	}
	if m.predictor != nil {
		c.key.prediction = m.predictor.At(statistics)
		c.estimator = c.key.prediction
	}
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
	if other := m.cache.Load(); other.isFor(table, statistics) {
		return other
	}
	return c
}

func (c *tableCache) isFor(table *load.Table, statistics *learned.Snapshot) bool {
	return c != nil && c.key.table == table && c.key.statistics() == statistics
}

// dropUnused drops the cache if no cycle has asked for anything since the previous snapshot was published: estimates keep
// pods alive.
func (m *Model) dropUnused(previous *load.Snapshot) {
	if c := m.cache.Load(); c != nil && c.key.table != m.TableOf(previous) {
		m.cache.CompareAndSwap(c, nil)
	}
}

// node returns the estimate of the node in the given row. With ignoreGeneration it is always computed, and not stored.
func (c *tableCache) node(row int, node fwk.NodeInfo, ignoreGeneration bool) *nodeEstimate {
	previous := c.nodes[row].Load()
	if ignoreGeneration {
		return c.compute(c.key.table.Row(row), node, previous)
	}
	if previous != nil && previous.key == c.key && previous.generation == node.GetGeneration() {
		return previous
	}
	n := c.compute(c.key.table.Row(row), node, previous)
	c.nodes[row].Store(n)
	return n
}

// unmeasuredNode is node for a node without a row: nothing was ever measured of it.
func (c *tableCache) unmeasuredNode(node fwk.NodeInfo, ignoreGeneration bool) *nodeEstimate {
	name := node.Node().Name
	var previous *nodeEstimate
	if stored, ok := c.unmeasured.Load(name); ok {
		previous = stored.(*nodeEstimate)
	}
	if ignoreGeneration {
		return c.compute(&load.NodeLoad{}, node, previous)
	}
	if previous != nil && previous.generation == node.GetGeneration() {
		return previous
	}
	n := c.compute(&load.NodeLoad{}, node, previous)
	if previous == nil && c.unmeasuredCount.Add(1) > maxUnmeasured {
		c.unmeasured.Clear()
		c.unmeasuredCount.Store(1)
	}
	c.unmeasured.Store(name, n)
	return n
}

// compute returns the estimate of a node of which the given load was measured. It reuses what is still valid of an earlier one,
// which may be nil.
func (c *tableCache) compute(measured *load.NodeLoad, node fwk.NodeInfo, previous *nodeEstimate) *nodeEstimate {
	if previous == nil || previous.key.statistics() != c.key.statistics() {
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
	if c.key.prediction != nil {
		n.predicted = c.predict(n, node, predictionMoment(measured, c.key.statistics()), previous)
	}
	charge := func(position int) amounts { return c.charge(n, position) }
	n.uncovered = previous.uncovered.update(previous.pods, n.pods, horizonOf(measured), c.config, charge)
	capacity := podusage.Amounts{load.CPU: previous.fresh[load.CPU].Base, load.Memory: previous.fresh[load.Memory].Base}
	if previous.node != node.Node() {
		capacity = podusage.AmountsOf(node.Node().Status.Capacity)
	}
	for r := range load.ResourceCount {
		n.fresh[r] = fresh(&measured[r], capacity[r], amountOf(node.GetAllocatable(), r))
		n.fresh[r].Pending = n.uncovered.pending(&measured[r], r, n.fresh[r].Allocatable)
	}
	return n
}

// charge returns what the pod at a position of the node is charged as long as the window does not cover it.
func (c *tableCache) charge(n *nodeEstimate, position int) amounts {
	if n.predicted != nil {
		return n.predicted.pods[position].means()
	}
	return amountsOf(c.estimator.Charge(n.pods[position].GetPod()))
}

// predict returns what the pods of the node are predicted to use at the given moment, in nanoseconds since 1970. It returns the
// prediction of an earlier estimate, by the same statistics, if that still holds.
func (c *tableCache) predict(n *nodeEstimate, node fwk.NodeInfo, moment int64, previous *nodeEstimate) *nodePrediction {
	if earlier := previous.predicted; earlier != nil && previous.generation == n.generation && samePods(previous.pods, n.pods) &&
		earlier.from <= moment && moment < earlier.until && everMeasured(previous) == everMeasured(n) {
		return earlier
	}
	p := &nodePrediction{pods: c.predictPods(previous, n.pods)}
	p.from, p.until = lapsesAround(p.pods, moment)
	for r := range load.ResourceCount {
		p.sums[r] = podSums(p.pods, r, amountOf(node.GetAllocatable(), r), moment)
		p.stale[r] = byRequests(node, r, stateAt(math.MaxInt64, n.freshUntil[r]))
	}
	return p
}

// everMeasured reports which resources were ever measured of the node.
func everMeasured(n *nodeEstimate) [load.ResourceCount]bool {
	return [load.ResourceCount]bool{load.CPU: n.freshUntil[load.CPU] != 0, load.Memory: n.freshUntil[load.Memory] != 0}
}

// predictPods returns what each of the pods is predicted to use. Statistics are looked up once for each pod, as in uncoveredPods.
func (c *tableCache) predictPods(previous *nodeEstimate, pods []fwk.PodInfo) []predictedPod {
	var known []predictedPod
	if previous.predicted != nil {
		known = previous.predicted.pods
	}
	if samePods(previous.pods, pods) {
		return known
	}
	predicted, last := make([]predictedPod, len(pods)), len(known)-1
	for i, pod := range pods {
		switch {
		case i < len(known) && previous.pods[i] == pod:
			predicted[i] = known[i]
		case last >= 0 && previous.pods[last] == pod: // the framework moves the last pod to the position of one that it removes
			predicted[i] = known[last]
		default:
			predicted[i] = newPredictedPod(pod, c.config, c.key.prediction)
		}
	}
	return predicted
}
