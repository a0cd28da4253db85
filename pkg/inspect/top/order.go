package top

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// The orders of nodes. All but ByName begin with the highest figure.
const (
	// ByLine begins with the node that is furthest above its load line, in percentage points of either resource. Nodes without a line
	// are last, by UtilizationPercent.
	ByLine = "line"
	ByName = "name"
	// ByCPU and ByMemory are by UtilizationPercent.
	ByCPU    = "cpu"
	ByMemory = "memory"
)

// keys are what nodes are sorted by, from the highest to the lowest.
var keys = map[string]func(*Row) float64{
	ByLine: room, ByName: func(*Row) float64 { return 0 },
	ByCPU:    func(n *Row) float64 { return n.CPU.UtilizationPercent },
	ByMemory: func(n *Row) float64 { return n.Memory.UtilizationPercent },
}

func orders() string { return strings.Join(slices.Sorted(maps.Keys(keys)), ", ") }

// Sort sorts the nodes. Nodes of equal figures are sorted by name.
func Sort(nodes []*Row, by string) {
	key := keys[by]
	slices.SortFunc(nodes, func(a, b *Row) int { return cmp.Or(cmp.Compare(key(b), key(a)), byName(a, b)) })
}

func byName(a, b *Row) int { return strings.Compare(a.Name, b.Name) }

// room is by how many percentage points the node is above its line.
func room(n *Row) float64 {
	const noLine = 1e6 // further below than any line
	above := math.Inf(-1)
	for _, r := range n.Resources() {
		above = max(above, r.UtilizationPercent-ptr.Deref(r.LinePercent, noLine))
	}
	return above
}
