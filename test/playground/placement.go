package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// placement is where one profile has put the pods, and what has come of it.
type placement struct {
	profile string
	// pods is how many of them a node has got, measured its CPU utilization with them, both by name.
	pods     map[string]int
	measured map[string]float64
}

// hottest returns the node with the highest utilization.
func (pl placement) hottest() string {
	hottest := ""
	for _, node := range slices.Sorted(maps.Keys(pl.measured)) {
		if hottest == "" || pl.measured[node] > pl.measured[hottest] {
			hottest = node
		}
	}
	return hottest
}

// hottestNode says which node is the hottest.
func (pl placement) hottestNode() string {
	return fmt.Sprintf("%s at %.1f %%", pl.hottest(), 100*pl.measured[pl.hottest()])
}

// above returns the nodes above a utilization.
func (pl placement) above(utilization float64) []string {
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(pl.measured)) {
		if pl.measured[node] > utilization {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// roomy returns the nodes that could take one more pod, which uses so much of a node, and be no higher than the line.
func (pl placement) roomy(pod, line float64) []string {
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(pl.measured)) {
		if pl.measured[node]+pod <= line {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// fact is a line below the nodes of two placements.
type fact struct {
	name string
	of   func(placement) string
}

// sideBySide writes the named nodes under two placements, and facts about each.
func (p page) sideBySide(nodes []string, left, right placement, facts ...fact) {
	const (
		row     = "%-9s %s %5.1f %% %3s   %s %5.1f %% %3s"
		heading = "%-9s %-*s   %-*s"
		side    = barCells + 12
	)
	p.line(heading, "", side, left.profile, side, right.profile)
	for _, n := range nodes {
		a, b := left.measured[n], right.measured[n]
		p.line(row, n,
			p.paint.bar(a, target), 100*a, plus(left.pods[n]),
			p.paint.bar(b, target), 100*b, plus(right.pods[n]))
	}
	for _, f := range facts {
		p.line(heading, f.name, side, f.of(left), side, f.of(right))
	}
}

func plus(pods int) string {
	if pods == 0 {
		return strings.Repeat(" ", 3)
	}
	return fmt.Sprintf("+%d", pods)
}
