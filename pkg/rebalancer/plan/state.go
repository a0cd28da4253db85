package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// Bounds of a State, so that it fits into a ConfigMap: some 600 KiB in all.
const (
	maxRecords   = 200
	maxWorkloads = 2000
	maxNodes     = 2000
	maxMoves     = 10_000 // api.Configuration allows no more in an hour
	maxOr        = 10
	maxUnderWay  = 100
	maxKnown     = 50
	maxResting   = 500
	// maxState is the size in bytes that all of it takes at most. A ConfigMap takes 1 MiB.
	maxState = 900 << 10
)

// State survives restarts. Looks above the line are counted anew.
type State struct {
	// MovesOf are the times of the last hour's moves by namespace, in seconds since 1970.
	MovesOf   map[string][]int64   `json:"movesOf,omitempty"`
	Nodes     map[string]time.Time `json:"nodes,omitempty"`
	Workloads map[string]*Workload `json:"workloads,omitempty"`
	UnderWay  []*Moving            `json:"underWay,omitempty"`
	Records   []Record             `json:"records,omitempty"`
	Breaker   breaker              `json:"breaker"`
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

// encode returns the content to save. Long names leave room for fewer entries.
func (h *History) encode() (content []byte, err error) {
	for part := 1; part <= maxRecords; part *= 2 {
		if content, err = json.Marshal(h.state(part)); err != nil || len(content) <= maxState {
			break
		}
	}
	return content, err
}

// state returns the State to save. It drops entries beyond a part of the bounds, the oldest first.
func (h *History) state(part int) *State {
	s := &State{MovesOf: map[string][]int64{}, Nodes: map[string]time.Time{}, Workloads: map[string]*Workload{}}
	s.Breaker.OpenUntil = h.breaker.OpenUntil
	for _, made := range h.moves[max(0, len(h.moves)-maxMoves):] {
		of := made.namespace
		if _, ok := s.MovesOf[of]; !ok && len(s.MovesOf) >= maxResting {
			of = "" // counts for the limit of all
		}
		s.MovesOf[of] = append(s.MovesOf[of], made.at.Unix())
	}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(h.nodes)), func(name string) bool { return h.nodes[name].moved.IsZero() })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(h.nodes[b].moved.Compare(h.nodes[a].moved), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), maxNodes/part)] {
		s.Nodes[name] = h.nodes[name].moved
	}
	owners := slices.SortedFunc(maps.Keys(h.workloads), func(a, b string) int {
		x, y := h.workloads[a], h.workloads[b]
		return cmp.Or(y.BarredUntil.Compare(x.BarredUntil), y.Moved.Compare(x.Moved), cmp.Compare(a, b))
	})
	for _, owner := range owners[:min(len(owners), maxWorkloads/part)] {
		s.Workloads[owner] = h.workloads[owner]
	}
	resting := slices.SortedFunc(maps.Keys(h.breaker.Namespaces), func(a, b string) int {
		return cmp.Or(h.breaker.Namespaces[b].Compare(h.breaker.Namespaces[a]), cmp.Compare(a, b))
	})
	for _, namespace := range resting[:min(len(resting), maxResting)] {
		noteUntil(&s.Breaker.Namespaces, namespace, h.breaker.Namespaces[namespace])
	}
	s.UnderWay = h.moving()
	s.Records = h.records[max(0, len(h.records)-maxRecords/part):]
	return s
}

// moving returns the moves under way, oldest first.
func (h *History) moving() []*Moving {
	return slices.SortedFunc(maps.Values(h.underWay), func(a, b *Moving) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.UID, b.UID))
	})
}

// restore replaces everything except looks at nodes and refusals. Another process may have had a wrong clock: no time is farther
// ahead than this process would set it.
func (h *History) restore(s *State, now time.Time, c *api.Configuration) {
	until := func(at time.Time, longest time.Duration) time.Time {
		if latest := now.Add(longest); at.After(latest) {
			return latest
		}
		return at
	}
	h.moves, h.workloads, h.underWay = nil, map[string]*Workload{}, map[types.UID]*Moving{}
	for namespace, times := range s.MovesOf {
		for _, at := range times {
			h.moves = append(h.moves, madeMove{until(time.Unix(at, 0), 0), namespace})
		}
	}
	for name, at := range s.Nodes {
		h.nodeOf(name).moved = until(at, 0)
	}
	for name, w := range s.Workloads {
		if w != nil {
			h.workloads[name] = &Workload{until(w.Moved, 0), until(w.BarredUntil, longestBar), max(w.Failures, 0)}
		}
	}
	for _, m := range s.UnderWay {
		if m != nil {
			m.Began, m.NodeMoved, m.WorkloadMoved = until(m.Began, 0), until(m.NodeMoved, 0), until(m.WorkloadMoved, 0)
			m.Ending = min(max(m.Ending, 0), longestEnding)
			h.underWay[m.UID] = m
		}
	}
	isForeign := func(r Record) bool { return !slices.Contains(Outcomes(), r.Outcome) } // of another version
	s.Records = slices.DeleteFunc(s.Records, isForeign)
	for i := range s.Records {
		s.Records[i].Ended = until(s.Records[i].Ended, 0)
	}
	h.records, h.breaker = s.Records, s.Breaker
	h.breaker.OpenUntil = until(h.breaker.OpenUntil, c.BreakerDuration.Duration)
	for namespace, at := range h.breaker.Namespaces {
		h.breaker.Namespaces[namespace] = until(at, c.BreakerDuration.Duration)
	}
}
