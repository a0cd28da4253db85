package whatif

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Pool is the nodes with one value of a label.
type Pool struct {
	// Name is the value of the label; empty for nodes without it.
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// Placed and Evicted are numbers of pods.
	Placed  int `json:"placed"`
	Evicted int `json:"evicted"`
	// NodesAboveBefore and NodesAboveAfter count the nodes above their load line.
	NodesAboveBefore int `json:"nodesAboveBefore"`
	NodesAboveAfter  int `json:"nodesAboveAfter"`
	// CPU and Memory are the effective utilization of the pool's capacity.
	CPU    PoolLoad `json:"cpu"`
	Memory PoolLoad `json:"memory"`
}

// PoolLoad is the effective utilization of one resource, in percent of the capacity. It is absent if no plugin reads load.
type PoolLoad struct {
	BeforePercent *float64 `json:"beforePercent,omitempty"`
	AfterPercent  *float64 `json:"afterPercent,omitempty"`

	// usageBefore and usageAfter are in the unit of the capacity: cores or bytes.
	usageBefore, usageAfter, capacityBefore, capacityAfter float64
}

func (l *PoolLoad) setPercents() {
	if l.capacityBefore > 0 {
		l.BeforePercent = new(100 * l.usageBefore / l.capacityBefore)
	}
	if l.capacityAfter > 0 {
		l.AfterPercent = new(100 * l.usageAfter / l.capacityAfter)
	}
}

// setPools sums up the nodes of each pool.
func (o *Outcome) setPools(nodes []fwk.NodeInfo, label string) {
	pools := map[string]*Pool{}
	changed := make(map[string]*ChangedNode, len(o.Nodes))
	for i := range o.Nodes {
		changed[o.Nodes[i].Name] = &o.Nodes[i]
	}
	for _, info := range nodes {
		name := cluster.PoolOf(info.Node().Labels, label)
		if pools[name] == nil {
			pools[name] = &Pool{Name: name}
		}
		pools[name].add(o, info.Node(), changed[info.Node().Name])
	}
	if len(pools) == 0 || len(pools) == 1 && pools[""] != nil {
		return
	}
	for _, pool := range pools {
		pool.CPU.setPercents()
		pool.Memory.setPercents()
		o.Pools = append(o.Pools, pool)
	}
	slices.SortFunc(o.Pools, func(a, b *Pool) int { return strings.Compare(a.Name, b.Name) })
}

// add adds a node. changed is nil if it does not change.
func (p *Pool) add(o *Outcome, node *corev1.Node, changed *ChangedNode) {
	p.Nodes++
	if changed != nil {
		p.Placed, p.Evicted = p.Placed+changed.Placed, p.Evicted+changed.Evicted
	}
	after, ok := o.after[node.Name]
	if !ok {
		return
	}
	before, existed := o.before[node.Name]
	if anyAbove(before) {
		p.NodesAboveBefore++
	}
	if anyAbove(after) {
		p.NodesAboveAfter++
	}
	for r, l := range [...]*PoolLoad{load.CPU: &p.CPU, load.Memory: &p.Memory} {
		quantity := node.Status.Capacity[corev1.ResourceName(load.Resource(r).String())]
		capacity := quantity.AsApproximateFloat64()
		l.usageAfter, l.capacityAfter = l.usageAfter+after.Utilization[r]*capacity, l.capacityAfter+capacity
		if existed {
			l.usageBefore, l.capacityBefore = l.usageBefore+before.Utilization[r]*capacity, l.capacityBefore+capacity
		}
	}
}
