package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

type placement struct {
	profile string
	// pods is the number of pods that a node got, by the node's name.
	pods map[string]int
	// measured is the CPU utilization of a node with these pods, by the node's name.
	measured map[string]float64
}

func pool(profile string) map[string]string { return map[string]string{"pool": profile} }

func inPoolOf(profile, node string) string { return profile + "-" + node }

// inPool returns the placement of a profile on the named nodes of its own pool. It names them without the pool, as nodes does.
func inPool(profile string, nodes []string, pods map[string]int, measured map[string]float64) placement {
	pl := placement{profile: profile, pods: map[string]int{}, measured: map[string]float64{}}
	for _, node := range nodes {
		pl.pods[node] = pods[inPoolOf(profile, node)]
		if utilization, ok := measured[inPoolOf(profile, node)]; ok {
			pl.measured[node] = utilization
		}
	}
	return pl
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

// hottestNode describes the node with the highest utilization.
func (pl placement) hottestNode() string {
	return fmt.Sprintf("%s at %.1f %%", pl.hottest(), 100*pl.measured[pl.hottest()])
}

func (pl placement) total() (n int) {
	for _, pods := range pl.pods {
		n += pods
	}
	return n
}

// nodes returns the sorted names of measured nodes that hold.
func (pl placement) nodes(hold func(node string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(pl.measured)), func(node string) bool { return !hold(node) })
}

func (pl placement) above(utilization float64) []string {
	return pl.nodes(func(node string) bool { return pl.measured[node] > utilization })
}

// withRoom returns the nodes that would stay at or below the line with one more pod. podShare is the pod's share of a node.
func (pl placement) withRoom(podShare, line float64) []string {
	return pl.nodes(func(node string) bool { return pl.measured[node]+podShare <= line })
}

type fact struct {
	name  string
	value func(placement) string
}

// sideBySide writes the named nodes under two placements with a line in the bars, and facts about both.
func (p page) sideBySide(nodes []string, line float64, left, right placement, facts ...fact) {
	const (
		row     = "%-9s %s %5.1f %% %3s   %s %5.1f %% %3s"
		heading = "%-9s %-*s   %-*s"
		side    = barCells + 12
	)
	p.line(heading, "", side, left.profile, side, right.profile)
	for _, n := range nodes {
		a, b := left.measured[n], right.measured[n]
		p.line(row, n, p.paint.bar(a, line), 100*a, plus(left.pods[n]), p.paint.bar(b, line), 100*b, plus(right.pods[n]))
	}
	for _, f := range facts {
		p.line(heading, f.name, side, f.value(left), side, f.value(right))
	}
}

// plus returns the number of pods that a node got, such as +4; blanks for none.
func plus(pods int) string {
	if pods == 0 {
		return strings.Repeat(" ", 3)
	}
	return fmt.Sprintf("+%d", pods)
}

// percent returns a fraction in percent, such as "1.25 %", without trailing zeros.
func percent(fraction float64) string {
	return strconv.FormatFloat(math.Round(10000*fraction)/100, 'f', -1, 64) + " %"
}
