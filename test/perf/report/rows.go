package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is one target.
type row struct {
	what, target string
	// measure returns the result, empty if it was not measured, and whether it reaches the target.
	measure func(results) (measured string, reached bool)
	// optional rows are left out if they were not measured.
	optional bool
	// untargeted rows are shown for comparison.
	untargeted bool
}

// The numbers of nodes that are measured.
const smallest, usual, largest = 500, 5000, 15000

const anyNumber = -1

func rows() []row {
	const (
		idle    = "0_recent_pods_per_node"
		busy    = "20_recent_pods_per_node"
		changed = "20_recent_pods_per_node,_node_just_changed"
	)
	all := []row{
		call("Score, one node, TargetLoadPacking, nothing recently placed", 60, 0, "Score", "TargetLoadPacking", idle),
		call("the same with 20 recently placed pods on every node", 60, 0, "Score", "TargetLoadPacking", busy),
		call("the same, and the node just changed", 1500, anyNumber, "Score", "TargetLoadPacking", changed),
		call("Score, one node, LoadVariationRiskBalancing", 100, 0, "Score", "LoadVariationRiskBalancing", busy),
		call("Score, one node, LowRiskOverCommitment, with 30 recently placed pods on every node", 200, 0, "Score",
			"LowRiskOverCommitment", "30_recent_pods_per_node"),
		call("Score, one node, PredictedPeak, with 30 recently placed pods on every node", 80, 0, "Score", "PredictedPeak",
			"30_recent_pods_per_node"),
		call("Filter, one node, LoadThreshold", 100, 0, "Filter", "LoadThreshold"),
		call("Filter, one node, NodeMetrics", 100, 0, "Filter", "NodeMetrics"),
		scoring("PreScore and Score, one node's share, NodeMetrics with three metrics", 100, "NodeMetrics"),
	}
	const one, every = "profile=TargetLoadPacking", "profile=all"
	return append(
		all,
		refresh("one Prometheus refresh, TargetLoadPacking: queries (means, deviations, when each node was scraped last)", "≤ 5",
			figure{"%.0f", "queries/op", 5, 1}, one),
		refresh("the same: our CPU per node", "≤ 10 µs", figure{"%.1f µs", "cpu-ns/node", 10, 1e3}, one),
		untargeted(refresh("the same, all plugins with three metrics, which are three more queries", "–",
			figure{"%.1f µs", "cpu-ns/node", 0, 1e3}, every)),
		refresh("live heap of the whole load cache per node, TargetLoadPacking", "≤ 2 KiB",
			figure{"%.2f KiB", "heap-B/node", 2, 1024}, one),
		refresh("the same, all plugins with three metrics", "≤ 2 KiB", figure{"%.2f KiB", "heap-B/node", 2, 1024}, every),
		beside(workloads("statistics of 20,000 workloads, one refresh of 150,000 pods: our CPU", "≤ 1 s", "%.2f s", "cpu-s/op", 1, 1)),
		beside(workloads("the same: all that is allocated meanwhile", "≤ 64 MiB", "%.0f MiB", "B/op", 64, 1<<20)),
		beside(coldExplain("explain a pod, 5,000 nodes and 50,000 pods, once they are listed: our CPU", 3)),
		beside(whatIf("what-if there, with PodTopologySpread's default: pods a second of CPU", 300, "spreading=default")),
		cost("cost of a refresh per node, 15,000 nodes over 500", "linear", "cpu-ns/node", "Refresh", one),
		cost("cost of Score per node, 15,000 nodes over 500", "flat", "ns/op", "Score", "TargetLoadPacking", busy),
	)
}

// call is the cost of one call for one node of the usual number, in nanoseconds and allocations.
func call(what string, nanoseconds, allocations float64, name ...string) row {
	target := fmt.Sprintf("≤ %.0f ns", nanoseconds)
	if allocations != anyNumber {
		target += fmt.Sprintf(" · %.0f allocs", allocations)
	}
	return row{what: what, target: target, measure: func(r results) (string, bool) {
		name := atNodes(name, usual)
		ns, ok := median(r.values("ns/op", name...))
		bytes, _ := median(r.values("B/op", name...))
		allocs, _ := median(r.values("allocs/op", name...))
		if !ok {
			return "", false
		}
		return fmt.Sprintf("%.1f ns · %.0f B · %.0f allocs", ns, bytes, allocs),
			ns <= nanoseconds && (allocations == anyNumber || allocs <= allocations)
	}}
}

// scoring is one node's share of a decision's scoring, from PreScore to NormalizeScore, at the usual number of nodes.
func scoring(what string, nanoseconds float64, plugin string) row {
	return row{what: what, target: fmt.Sprintf("≤ %.0f ns", nanoseconds), measure: func(r results) (string, bool) {
		name := atNodes([]string{"ScoreAndNormalize", plugin}, usual)
		ns, ok := median(r.values("ns/node", name...))
		allocs, _ := median(r.values("allocs/op", name...))
		if !ok {
			return "", false
		}
		return fmt.Sprintf("%.1f ns · %.0f allocs a decision", ns, allocs), ns <= nanoseconds
	}}
}

// beside makes the row optional: a file of results may lack it.
func beside(r row) row {
	r.optional = true
	return r
}

func untargeted(r row) row {
	r.target, r.untargeted = "–", true
	return r
}

// figure is a benchmark's unit, its value over the scale, and the most that is allowed of that.
type figure struct {
	format, unit string
	most, scale  float64
}

// refresh is a figure of one refresh, at the usual and the largest number of nodes.
func refresh(what, target string, f figure, profile string) row {
	return row{what: what, target: target, measure: func(r results) (string, bool) {
		var cells []string
		reached := true
		for _, nodes := range []int{usual, largest} {
			v, ok := median(r.values(f.unit, atNodes([]string{"Refresh", profile}, nodes)...))
			if !ok {
				return "", false
			}
			cells = append(cells, fmt.Sprintf(f.format+" at %d", v/f.scale, nodes))
			reached = reached && v/f.scale <= f.most
		}
		return strings.Join(cells, " · "), reached
	}}
}

func workloads(what, target, format, unit string, most, scale float64) row {
	return row{what: what, target: target, measure: func(r results) (string, bool) {
		v, ok := median(r.values(unit, "Workloads", "first=false", "pods=150000"))
		if !ok {
			return "", false
		}
		return fmt.Sprintf(format, v/scale), v/scale <= most
	}}
}

// coldExplain is the processor time, in seconds, of explaining one pod in a newly filled scheduler.
func coldExplain(what string, most float64) row {
	return row{what: what, target: fmt.Sprintf("≤ %.0f s", most), measure: func(r results) (string, bool) {
		v, ok := median(r.values("cpu-s/op", "ColdExplain"))
		if !ok {
			return "", false
		}
		return fmt.Sprintf("%.1f s", v), v <= most
	}}
}

// whatIf is the number of pods that what-if places in a second of processor time.
func whatIf(what string, least float64, variant string) row {
	return row{what: what, target: fmt.Sprintf("≥ %.0f", least), measure: func(r results) (string, bool) {
		v, ok := median(r.values("pods/cpu-s", "WhatIf", variant))
		if !ok {
			return "", false
		}
		return fmt.Sprintf("%.0f", v), v >= least
	}}
}

// cost is the ratio of the cost per node at the largest and at the smallest number of nodes. It would be 30 if the cost per node
// grew with the number of nodes. Processor caches and the depth of maps account for the difference to 1.
func cost(what, target, unit string, name ...string) row {
	const most = 1.5
	return row{what: what, target: fmt.Sprintf("%s: × ≤ %.1f", target, most), measure: func(r results) (string, bool) {
		few, ok := median(r.values(unit, atNodes(name, smallest)...))
		many, ok2 := median(r.values(unit, atNodes(name, largest)...))
		if !ok || !ok2 {
			return "", false
		}
		return fmt.Sprintf("× %.2f", many/few), many/few <= most
	}}
}

func atNodes(name []string, nodes int) []string {
	return append(slices.Clone(name), fmt.Sprint("nodes=", nodes))
}
