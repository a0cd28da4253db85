package load

import "time"

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

// Table holds the load of all nodes over one window. It is immutable, and so safe for concurrent use.
type Table struct {
	index map[string]int
	nodes []NodeLoad
}

// NewTable returns a table of the given nodes, by name of the Node object.
func NewTable(nodes map[string]NodeLoad) *Table {
	t := &Table{index: make(map[string]int, len(nodes)), nodes: make([]NodeLoad, 0, len(nodes))}
	for name, n := range nodes {
		t.index[name] = len(t.nodes)
		t.nodes = append(t.nodes, n)
	}
	return t
}

// Len is the number of nodes that have been measured and not been forgotten.
func (t *Table) Len() int { return len(t.nodes) }

// Node returns what is known of the named node; the zero NodeLoad says that nothing is.
func (t *Table) Node(name string) NodeLoad {
	if i, ok := t.index[name]; ok {
		return t.nodes[i]
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

// columns are the values of several metrics with one index, so that the values of a node take one look-up.
type columns struct {
	// rows holds the row of each node that some metric has a value of.
	rows map[string]int
	// byMetric holds the readings of each metric by row; that of a node without one is zero.
	byMetric map[string]*column
}

type column struct {
	readings []MetricReading
	// newest is the latest End of all readings.
	newest time.Time
}

func newColumns(metrics map[string]MetricTable) *columns {
	c := &columns{rows: map[string]int{}, byMetric: make(map[string]*column, len(metrics))}
	for _, table := range metrics {
		for node := range table {
			if _, ok := c.rows[node]; !ok {
				c.rows[node] = len(c.rows)
			}
		}
	}
	for metric, table := range metrics {
		values := &column{readings: make([]MetricReading, len(c.rows))}
		for node, reading := range table {
			values.readings[c.rows[node]] = reading
			if reading.End.After(values.newest) {
				values.newest = reading.End
			}
		}
		c.byMetric[metric] = values
	}
	return c
}

// Snapshot is all that is known of the nodes at one moment: their load over each window that somebody asked for, and the
// metrics that somebody asked for. It is immutable, and so safe for concurrent use.
type Snapshot struct {
	tables  map[time.Duration]*Table
	metrics map[string]MetricTable
	columns *columns
	empty   *Table
}

// NewSnapshot returns a snapshot of one table per window. It keeps the map, which must not change any more.
func NewSnapshot(tables map[time.Duration]*Table) *Snapshot {
	return &Snapshot{tables: tables, columns: newColumns(nil), empty: NewTable(nil)}
}

// WithMetrics returns a snapshot of the same load and of one table per metric, by its PromQL expression. It keeps the map,
// which must not change any more.
func (s *Snapshot) WithMetrics(metrics map[string]MetricTable) *Snapshot {
	with := *s
	with.metrics, with.columns = metrics, newColumns(metrics)
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
