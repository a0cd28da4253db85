package load

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
)

// Reading is the latest believed statistic of one resource of one node.
type Reading struct {
	Stat
	// Window is the span that was measured; 0 is a reading of the moment.
	Window time.Duration
	// End is the moment the window ends at, never later than the moment it was read.
	End time.Time
	// Drift is how fast the mean moves, in fractions of capacity per minute.
	Drift float64
}

// FreshUntil is the last moment at which the reading is trusted.
func (r *Reading) FreshUntil(s Settings) time.Time { return r.End.Add(Expiry(r.Drift, s)) }

// NodeLoad is what is known of one node's load over one window. Each resource has an age of its own, for a source may
// answer for one of them alone.
type NodeLoad struct {
	CPU    Reading
	Memory Reading
}

// Index gives each of a set of nodes a row, always the same. It is safe for concurrent use: it changes in what it has found
// alone.
type Index struct {
	names []string
	rows  map[string]int
	// found holds most of the rows once more, for which no name has to be looked up: the generation of the node's NodeInfo above
	// rowBits bits with the row. Those of a generation are in one of the two words that its last bits tell.
	found []atomic.Uint64
}

const rowBits = 24

// NewIndex returns an index of the nodes, by name of the Node object. It keeps the slice, which must not change any more.
func NewIndex(names []string) *Index {
	// A power of two, and so many that seldom more than two nodes have their words in common.
	words := 1 << bits.Len(uint(4*len(names)+1))
	x := &Index{names: names, rows: make(map[string]int, len(names)), found: make([]atomic.Uint64, words)}
	for row, name := range names {
		x.rows[name] = row
	}
	return x
}

// holds tells whether the index has all nodes that some metric has a value of.
func (x *Index) holds(metrics map[string]MetricTable) bool {
	for _, table := range metrics {
		for node := range table {
			if _, ok := x.rows[node]; !ok {
				return false
			}
		}
	}
	return true
}

// row returns the row of the node, and whether it has one. A generation is that of one node alone.
func (x *Index) row(node fwk.NodeInfo) (row int, ok bool) {
	generation := uint64(node.GetGeneration())
	latest := int(generation) & (len(x.found) - 1) &^ 1
	for _, word := range [...]uint64{x.found[latest].Load(), x.found[latest+1].Load()} {
		if word != 0 && word>>rowBits == generation {
			return int(word & (1<<rowBits - 1)), true
		}
	}
	if row, ok = x.rows[node.Node().Name]; ok && row < 1<<rowBits {
		x.found[latest+1].Store(x.found[latest].Load())
		x.found[latest].Store(generation<<rowBits | uint64(row))
	}
	return row, ok
}

// Table holds the load of all nodes over one window. It does not change, and is safe for concurrent use as its Index is.
type Table struct {
	index *Index
	nodes []NodeLoad
}

// NewTable returns a table of what of says of each node of the index; the zero NodeLoad says that nothing is known. Tables
// of the same nodes are best made of the same index, also when they follow one another.
func NewTable(index *Index, of func(node string) NodeLoad) *Table {
	t := &Table{index: index, nodes: make([]NodeLoad, len(index.names))}
	for row, name := range index.names {
		t.nodes[row] = of(name)
	}
	return t
}

// TableOf returns a table of the given nodes, by name of the Node object.
func TableOf(nodes map[string]NodeLoad) *Table {
	return NewTable(NewIndex(slices.Collect(maps.Keys(nodes))), func(node string) NodeLoad { return nodes[node] })
}

// Len is the number of nodes that have been measured, over any window, and not been forgotten.
func (t *Table) Len() int { return len(t.nodes) }

// Node returns what is known of the named node; the zero NodeLoad says that nothing is.
func (t *Table) Node(name string) NodeLoad {
	if row, ok := t.index.rows[name]; ok {
		return t.nodes[row]
	}
	return NodeLoad{}
}

// MetricReading is the latest value of a metric of one node.
type MetricReading struct {
	Value float64
	// End is the moment the value is of, never later than the moment it was read.
	End time.Time
}

// MetricTable holds the values of one metric, by name of the Node object. It must not be changed.
type MetricTable map[string]MetricReading

// columns are the values of several metrics with one index, so that the values of a node take one look-up. They stand beside
// each other by node, for they are read together.
type columns struct {
	// index is of all nodes that some metric has a value of, and may be of more.
	index *Index
	// cells holds one row after the other, with a cell for each metric.
	cells    []cell
	byMetric map[string]*column
}

// cell is a MetricReading, with its End in nanoseconds since 1970; without one it is zero.
type cell struct {
	value float64
	end   int64
}

type column struct {
	// cells are those of all metrics from the column's first on; width is by how many one row is behind the other.
	cells []cell
	width int
	// newest is the latest End of all readings, in nanoseconds since 1970.
	newest int64
	// least and most are the smallest and the largest value.
	least, most float64
}

// newColumns returns the metrics by the index, or by one of their own if it lacks any of their nodes.
func newColumns(index *Index, metrics map[string]MetricTable) *columns {
	if !index.holds(metrics) {
		known := map[string]struct{}{}
		for _, table := range metrics {
			for node := range table {
				known[node] = struct{}{}
			}
		}
		index = NewIndex(slices.Collect(maps.Keys(known)))
	}
	c := &columns{
		index:    index,
		cells:    make([]cell, len(index.names)*len(metrics)),
		byMetric: make(map[string]*column, len(metrics)),
	}
	for metric, table := range metrics {
		values := &column{width: len(metrics), least: math.Inf(1), most: math.Inf(-1)}
		if len(c.cells) > 0 {
			values.cells = c.cells[len(c.byMetric):]
		}
		for node, reading := range table {
			end := reading.End.UnixNano()
			values.cells[c.index.rows[node]*values.width] = cell{value: reading.Value, end: end}
			values.least, values.most = min(values.least, reading.Value), max(values.most, reading.Value)
			values.newest = max(values.newest, end)
		}
		c.byMetric[metric] = values
	}
	return c
}

// Snapshot is all that is known of the nodes at one moment: their load over each window that somebody asked for, and the
// metrics that somebody asked for. It does not change, and is safe for concurrent use as the Index of its tables is.
type Snapshot struct {
	tables  map[time.Duration]*Table
	metrics map[string]MetricTable
	columns *columns
	empty   *Table
}

// NewSnapshot returns a snapshot of one table per window. It keeps the map, which must not change any more.
func NewSnapshot(tables map[time.Duration]*Table) *Snapshot {
	empty := TableOf(nil)
	return &Snapshot{tables: tables, columns: newColumns(empty.index, nil), empty: empty}
}

// WithMetrics returns a snapshot of the same load and of one table per metric, by its PromQL expression. It keeps the map,
// which must not change any more.
func (s *Snapshot) WithMetrics(metrics map[string]MetricTable) *Snapshot {
	with := *s
	index := s.empty.index
	for _, table := range s.tables {
		index = table.index // which mostly has the same nodes, and is kept as long as they are
	}
	with.metrics, with.columns = metrics, newColumns(index, metrics)
	return &with
}

// Metric returns the values of the metric with the given PromQL expression.
func (s *Snapshot) Metric(expression string) MetricTable { return s.metrics[expression] }

// Over returns the load over the given window; a window that nobody asked for has an empty table.
func (s *Snapshot) Over(window time.Duration) *Table {
	if t, ok := s.tables[window]; ok {
		return t
	}
	return s.empty
}
