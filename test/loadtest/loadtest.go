// Package loadtest makes snapshots for tests.
package loadtest

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Snapshot returns a snapshot of the given load, by window and node, and of node metrics, by expression.
func Snapshot(loads map[time.Duration]map[string]load.NodeLoad, metrics map[string]load.MetricTable) *load.Snapshot {
	nodes := map[string]struct{}{}
	for _, nodeLoads := range loads {
		for node := range nodeLoads {
			nodes[node] = struct{}{}
		}
	}
	for _, table := range metrics {
		for node := range table {
			nodes[node] = struct{}{}
		}
	}
	index := load.NewIndex(slices.Sorted(maps.Keys(nodes)))
	tables := map[time.Duration]*load.Table{}
	for window, nodeLoads := range loads {
		tables[window] = load.NewTable(index, func(node string) load.NodeLoad { return nodeLoads[node] })
	}
	return load.NewSnapshot(index, tables, metrics)
}

// Table returns a table of the given nodes.
func Table(nodes map[string]load.NodeLoad) *load.Table {
	return load.NewTable(load.NewIndex(slices.Sorted(maps.Keys(nodes))), func(node string) load.NodeLoad { return nodes[node] })
}
