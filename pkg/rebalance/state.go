package rebalance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of a State, so that it fits into a ConfigMap: some 600 KiB in all.
const (
	maxRecords   = 200
	maxWorkloads = 2000
	maxNodes     = 2000
	maxMoves     = 10_000 // rebalancer.Configuration allows no more in an hour
	maxOr        = 10
)

// State survives restarts. Looks above the line are counted anew.
type State struct {
	// Moves are the times of the last hour's moves, in seconds since 1970.
	Moves     []int64                      `json:"moves,omitempty"`
	Nodes     map[string]time.Time         `json:"nodes,omitempty"`
	Workloads map[types.UID]*WorkloadState `json:"workloads,omitempty"`
	UnderWay  []*Moving                    `json:"underWay,omitempty"`
	Records   []Record                     `json:"records,omitempty"`
	Breaker   breaker                      `json:"breaker"`
	Cordons   []*Cordon                    `json:"cordons,omitempty"`
	// Freed is when a node was emptied or uncordoned last.
	Freed time.Time `json:"freed"`
}

// WorkloadState has a workload's last move, and the end of its bar.
type WorkloadState struct {
	Moved       time.Time `json:"moved"`
	BarredUntil time.Time `json:"barredUntil"`
	Failures    int       `json:"failures,omitempty"`
}

// DecodeState decodes a saved state. Without content it is empty.
func DecodeState(content []byte) (*State, error) {
	s := &State{}
	if len(content) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, fmt.Errorf("state of the rebalancer: %w", err)
	}
	return s, nil
}

// state returns the State to save. It drops entries beyond the bounds, the oldest first.
func (h *History) state() *State {
	s := &State{Nodes: map[string]time.Time{}, Workloads: map[types.UID]*WorkloadState{}, Breaker: h.breaker}
	for _, at := range h.moves[max(0, len(h.moves)-maxMoves):] {
		s.Moves = append(s.Moves, at.Unix())
	}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(h.nodes)), func(name string) bool { return h.nodes[name].moved.IsZero() })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(h.nodes[b].moved.Compare(h.nodes[a].moved), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), maxNodes)] {
		s.Nodes[name] = h.nodes[name].moved
	}
	owners := slices.SortedFunc(maps.Keys(h.workloads), func(a, b types.UID) int {
		x, y := h.workloads[a], h.workloads[b]
		return cmp.Or(y.barredUntil.Compare(x.barredUntil), y.moved.Compare(x.moved), cmp.Compare(a, b))
	})
	for _, owner := range owners[:min(len(owners), maxWorkloads)] {
		w := h.workloads[owner]
		s.Workloads[owner] = &WorkloadState{w.moved, w.barredUntil, w.failures}
	}
	s.UnderWay = h.moving()
	s.Records, s.Cordons, s.Freed = h.records, h.cordons, h.freed
	return s
}

// moving returns the moves under way, oldest first.
func (h *History) moving() []*Moving {
	return slices.SortedFunc(maps.Values(h.underWay), func(a, b *Moving) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.UID, b.UID))
	})
}

// restore replaces everything except looks at nodes and refusals.
func (h *History) restore(s *State) {
	h.moves, h.workloads, h.underWay = nil, map[types.UID]*workloadHistory{}, map[types.UID]*Moving{}
	for _, at := range s.Moves {
		h.moves = append(h.moves, time.Unix(at, 0))
	}
	for name, at := range s.Nodes {
		h.nodeOf(name).moved = at
	}
	for owner, w := range s.Workloads {
		h.workloads[owner] = &workloadHistory{w.Moved, w.BarredUntil, w.Failures}
	}
	for _, m := range s.UnderWay {
		h.underWay[m.UID] = m
	}
	h.records, h.breaker, h.cordons, h.freed = s.Records, s.Breaker, s.Cordons, s.Freed
}
