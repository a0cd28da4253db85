package engine

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// lostWindow is the window of Storm.LostUtilization.
const lostWindow = 5 * time.Minute

// storms is the state of an Input's storms.
type storms struct {
	// next is the index of the next storm.
	next int
	// until is the first tick after the last storm's StormLength.
	until int
	// lost are the nodes that have failed.
	lost []lostNode
}

// lostNode is a node that is back at a tick.
type lostNode struct{ node, back int }

// storm begins the storms that are due: nodes fail, and others are back.
func (e *engine) storm(tick int) error {
	s := &e.storms
	for len(s.lost) > 0 && s.lost[0].back <= tick {
		if err := e.scheduler.Add(nodeObject(&e.Nodes[s.lost[0].node])); err != nil {
			return err
		}
		s.lost = s.lost[1:]
	}
	for ; s.next < len(e.Storms) && input.Ticks(e.Storms[s.next].At) <= tick; s.next++ {
		s.until = tick + input.Ticks(input.StormLength)
		if utilization := e.Storms[s.next].LostUtilization; utilization > 0 {
			if err := e.lose(e.closestTo(utilization), tick); err != nil {
				return err
			}
		}
	}
	return nil
}

// closestTo returns the node whose CPU utilization is closest to the given one.
func (e *engine) closestTo(utilization float64) int {
	closest, distance := -1, math.Inf(1)
	for i := range e.nodes {
		lost := slices.ContainsFunc(e.storms.lost, func(l lostNode) bool { return l.node == i })
		if d := math.Abs(e.measured.over(i, load.CPU, lostWindow).Mean - utilization); !lost && d < distance {
			closest, distance = i, d
		}
	}
	return closest
}

// lose makes a node fail. Its pods are created again at once, with the rest of their lifetimes.
func (e *engine) lose(node, tick int) error {
	if node < 0 {
		return nil // there is none left
	}
	n := &e.nodes[node]
	pods := slices.Clone(n.running)
	for _, i := range e.starting {
		if e.pods[i].node == node {
			pods = append(pods, i)
		}
	}
	e.starting = slices.DeleteFunc(e.starting, func(i int) bool { return e.pods[i].node == node })
	n.running, n.placed = nil, 0
	for _, i := range pods {
		p := &e.pods[i]
		e.flush(i)
		e.ends[p.end] = slices.DeleteFunc(e.ends[p.end], func(other int) bool { return other == i })
		if e.future != nil {
			p.demand = e.demandOf(i, p.start)
			e.future.remove(i, max(tick, p.start))
		}
		if err := e.scheduler.Remove(p.object); err != nil {
			return err
		}
		e.replace(i, tick, tick+1)
		e.waiting = append(e.waiting, i)
	}
	e.storms.lost = append(e.storms.lost, lostNode{node, tick + input.Ticks(input.StormLength)})
	return e.scheduler.Remove(nodeObject(&e.Nodes[node]))
}
