package plan

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// LoadedNode is a node's utilization beside its line. Arrays are by load.Resource, and hold fractions of capacity.
type LoadedNode struct {
	Name string
	// Known reports whether the load of all resources with a line is fresh.
	Known bool
	// Measured is the mean of the window, which makes a node a source of moves. Utilization has pending and predicted usage too. It
	// decides for destinations only: otherwise, pods that use nothing would have their neighbors moved.
	Measured, Utilization [load.ResourceCount]float64
	// Line is 0 where none holds.
	Line [load.ResourceCount]float64
	// Base is in milliCPU and bytes.
	Base [load.ResourceCount]float64
	// End is when the oldest measurement of a resource with a line ended, and window the longest window. Only Look sets them.
	End    time.Time
	window time.Duration

	node *corev1.Node
	pool poolKey
}

// Excess returns the resource whose measured load is farthest above its line, and by how much; a negative excess is below. Without
// a line, it returns -1.
func (n *LoadedNode) Excess() (of load.Resource, excess float64) { return n.excess(&n.Measured) }

// crowding returns the excess with pending and predicted usage.
func (n *LoadedNode) crowding() (excess float64) {
	_, excess = n.excess(&n.Utilization)
	return excess
}

func (n *LoadedNode) excess(loads *[load.ResourceCount]float64) (of load.Resource, excess float64) {
	excess = -1
	for r, line := range n.Line {
		if line > 0 && loads[r]-line > excess {
			of, excess = load.Resource(r), loads[r]-line
		}
	}
	return of, excess
}

// Share returns an amount in milliCPU or bytes as a fraction of the node's capacity, or 0 without capacity.
func (n *LoadedNode) Share(r load.Resource, amount float64) float64 {
	if n.Base[r] <= 0 {
		return 0
	}
	return amount / n.Base[r]
}

func (n *LoadedNode) add(usage podusage.Amounts) {
	for r := range n.Utilization {
		n.Utilization[r] += n.Share(load.Resource(r), usage[r])
	}
}

// looker reads how nodes compare with their lines. All reads of one looker see one snapshot of the load.
type looker struct {
	reader explain.LoadReader
	state  fwk.CycleState
	c      *api.Configuration
}

func newLooker(r explain.LoadReader, c *api.Configuration) looker {
	return looker{r, framework.NewCycleState(), c}
}

// node compares one node with its line. A score has none, and may have a target: nodeThresholds, or else LinePercent, are the line.
func (l looker) node(info fwk.NodeInfo) LoadedNode {
	_, filters := l.reader.(minor.FilterPlugin)
	of := l.reader.LoadLine(l.state, info)
	own := config.PoolOf(l.c.NodeThresholds, info.Node().Labels)
	n := LoadedNode{Name: info.Node().Name, Known: true, node: info.Node(), pool: poolKey{own + 1, of.Pool}}
	for r := range of.Percent {
		n.Utilization[r] = of.Node[r].Utilization(0)
		if n.Base[r] = of.Node[r].Base; n.Base[r] > 0 {
			n.Measured[r] = of.Node[r].Mean / n.Base[r]
		}
		if filters {
			n.Utilization[r], n.Line[r] = of.Utilization[r], of.Percent[r]/100
		}
	}
	if own >= 0 {
		pool := &l.c.NodeThresholds[own]
		n.Line[load.CPU] = cmp.Or(n.Line[load.CPU], float64(ptr.Deref(pool.CPU, 0))/100)
		n.Line[load.Memory] = cmp.Or(n.Line[load.Memory], float64(ptr.Deref(pool.Memory, 0))/100)
	}
	n.Line[load.CPU] = cmp.Or(n.Line[load.CPU], l.c.LinePercent/100)
	for r, line := range n.Line {
		n.Known = n.Known && (line == 0 || of.Node[r].State == load.Fresh)
	}
	return n
}

// unmeasured sums up what replacements use beyond their expected usage, and what the node's load does not cover yet. beyond is by
// their UID.
func (l looker) unmeasured(info fwk.NodeInfo, beyond map[types.UID]podusage.Amounts) (sum podusage.Amounts) {
	for _, of := range info.GetPods() {
		for r, usage := range beyond[of.GetPod().UID] {
			if usage > 0 {
				resource := load.Resource(r)
				sum[r] += usage * l.reader.Reader().Model(resource).View(l.state).Uncovered(info, of.GetPod(), resource)
			}
		}
	}
	return sum
}

// Look compares all nodes with their lines, sorted by name.
func Look(ctx context.Context, s *sim.Scheduler, r explain.LoadReader, c *api.Configuration) ([]LoadedNode, error) {
	infos, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	l, nodes := newLooker(r, c), make([]LoadedNode, 0, len(infos))
	for _, info := range infos {
		n := l.node(info)
		for of, f := range r.Reader().Figures(l.state, n.Name) {
			if n.Line[of] == 0 {
				continue
			}
			if n.window = max(n.window, f.Window); n.End.IsZero() || f.End.Before(n.End) {
				n.End = f.End
			}
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b LoadedNode) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

func hasPod(info fwk.NodeInfo, pod types.UID) bool {
	return slices.ContainsFunc(info.GetPods(), func(of fwk.PodInfo) bool { return of.GetPod().UID == pod })
}

// WindowOf returns the longest window of load that the plugin reads.
func WindowOf(r explain.LoadReader) time.Duration {
	longest := time.Duration(0)
	for of := range load.ResourceCount {
		longest = max(longest, r.Reader().Model(of).Config().Window)
	}
	return longest
}
