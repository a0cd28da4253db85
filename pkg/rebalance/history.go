package rebalance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
)

// Bars of a workload whose move failed. The first lasts firstBar; each further failure doubles it.
const (
	firstBar   = 15 * time.Minute
	longestBar = 6 * time.Hour
	// remembered is how long a workload's last move counts as disruption.
	remembered = time.Hour
)

// History is what earlier looks and moves left. The zero History is ready, and must be used by one goroutine at a time.
type History struct {
	nodes     map[string]*nodeHistory
	workloads map[types.UID]*workloadHistory
	// moves are the times of the moves of the last hour.
	moves []time.Time
	// underWay are moves without a ready replacement, by the evicted pod's UID.
	underWay map[types.UID]Move
}

type nodeHistory struct {
	// above counts the consecutive looks above the line.
	above int
	hot   bool
	moved time.Time
}

type workloadHistory struct {
	moved, barredUntil time.Time
	failures           int
}

// Observe counts the nodes' looks above their lines. Call it once per refresh.
func (h *History) Observe(nodes []Node, c *rebalancer.Configuration) {
	if h.nodes == nil {
		h.nodes = map[string]*nodeHistory{}
	}
	present := make(map[string]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		present[n.Name] = true
		of := h.nodes[n.Name]
		if of == nil {
			of = &nodeHistory{}
			h.nodes[n.Name] = of
		}
		_, excess := n.Excess()
		switch {
		case !n.Known || excess < -c.CooledPercent/100:
			of.above, of.hot = 0, false
		case excess > 0:
			of.above++
			of.hot = of.hot || of.above >= c.Refreshes
		default: // above what cools a node, but not above the line
			of.above = 0
		}
	}
	for name := range h.nodes {
		if !present[name] {
			delete(h.nodes, name)
		}
	}
}

// Begin notes a move, before it is made.
func (h *History) Begin(m *Move, now time.Time) {
	if h.underWay == nil {
		h.underWay, h.workloads = map[types.UID]Move{}, map[types.UID]*workloadHistory{}
	}
	h.underWay[m.UID] = *m
	h.moves = append(h.moves, now)
	h.nodeOf(m.From).moved = now
	h.workloadOf(m.OwnerUID).moved = now
}

// End notes where the replacement became ready, or that it did not: node is empty then. Either a missing replacement or one back on
// its source bars the workload.
func (h *History) End(pod types.UID, node string, now time.Time) {
	m, ok := h.underWay[pod]
	if !ok {
		return
	}
	delete(h.underWay, pod)
	w := h.workloadOf(m.OwnerUID)
	if node != "" && node != m.From {
		w.failures = 0
		return
	}
	w.barredUntil = now.Add(min(firstBar<<min(w.failures, 10), longestBar))
	w.failures++
}

func (h *History) nodeOf(name string) *nodeHistory {
	if h.nodes == nil {
		h.nodes = map[string]*nodeHistory{}
	}
	if h.nodes[name] == nil {
		h.nodes[name] = &nodeHistory{}
	}
	return h.nodes[name]
}

func (h *History) workloadOf(owner types.UID) *workloadHistory {
	if h.workloads[owner] == nil {
		h.workloads[owner] = &workloadHistory{}
	}
	return h.workloads[owner]
}

// forget drops what no longer counts.
func (h *History) forget(now time.Time) {
	h.moves = slices.DeleteFunc(h.moves, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	for owner, w := range h.workloads {
		if now.Sub(w.moved) >= max(remembered, 2*longestBar) {
			delete(h.workloads, owner)
		}
	}
}
