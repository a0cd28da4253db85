package load

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Measurement is the latest accepted statistic of one resource of one node.
type Measurement struct {
	Stat
	// Window is the measured time; 0 for a momentary measurement.
	Window time.Duration
	// End is the end of the window, never later than the time it was read.
	End time.Time
	// Lag is the time from End until the measurement was last read: up to a scrape interval of the source.
	Lag time.Duration
	// Drift is how fast the mean changes, in fractions of capacity per minute.
	Drift float64
}

// FreshUntil is the time until which the measurement is trusted.
func (m *Measurement) FreshUntil(t Trust) time.Time { return m.End.Add(t.Expiry(m.Drift, m.Lag)) }

// State is the measurement's state at a time.
func (m *Measurement) State(now time.Time, t Trust) State {
	switch {
	case !m.Known:
		return Absent
	case now.After(m.FreshUntil(t)):
		return Expired
	}
	return Fresh
}

// NodeLoad has the measurements of one node over one window, by Resource. Their ages may differ, because a source may answer for
// one resource only.
type NodeLoad [ResourceCount]Measurement

// NewestEnd is the end of the newest measurement, in nanoseconds since 1970; math.MinInt64 if there is none.
func (n *NodeLoad) NewestEnd() int64 {
	end := int64(math.MinInt64)
	for r := range n {
		if m := &n[r]; m.Known {
			end = max(end, m.End.UnixNano())
		}
	}
	return end
}

// Index assigns each of a set of nodes a row. It is immutable.
type Index struct {
	names []string
	rows  map[string]int
}

// NewIndex returns an index of the nodes, by name of the Node object. It keeps the slice, which must not be changed afterwards.
func NewIndex(names []string) *Index {
	x := &Index{names: names, rows: make(map[string]int, len(names))}
	for row, name := range names {
		x.rows[name] = row
	}
	return x
}

// Names are the names of the nodes by row. They must not be changed.
func (x *Index) Names() []string { return x.names }

// Len is the number of nodes.
func (x *Index) Len() int { return len(x.names) }

// Row returns the row of the named node, in [0, Len), and whether it has one.
func (x *Index) Row(node string) (row int, ok bool) {
	row, ok = x.rows[node]
	return row, ok
}

// Table holds the load of all nodes of an Index over one window. It is immutable.
type Table struct {
	index *Index
	nodes []NodeLoad
}

// NewTable returns a table with the load of each node of the index. The zero NodeLoad is unmeasured.
func NewTable(index *Index, loadOf func(node string) NodeLoad) *Table {
	t := &Table{index: index, nodes: make([]NodeLoad, index.Len())}
	for row, name := range index.names {
		t.nodes[row] = loadOf(name)
	}
	return t
}

// Index has the rows of the table's nodes.
func (t *Table) Index() *Index { return t.index }

// Row returns the load in a row of the table's Index: the table's entry, not a copy. It must not be changed.
func (t *Table) Row(row int) *NodeLoad { return &t.nodes[row] }

// Node returns the load of the named node; the zero NodeLoad if it is unknown.
func (t *Table) Node(name string) NodeLoad {
	if row, ok := t.index.Row(name); ok {
		return t.nodes[row]
	}
	return NodeLoad{}
}

// Snapshot holds the nodes' load after a refresh, by window and by quantile, and their node metrics. It is immutable.
type Snapshot struct {
	index *Index
	// tables are by quantile. A Fraction of 0 stands for the mean.
	tables     map[Quantile]*Table
	columns    map[string]*MetricColumn
	unmeasured *Table
}

// NewSnapshot returns a snapshot of tables by window, and of node metrics by PromQL expression. All tables have the nodes of index.
// Values of other nodes are left out.
//
// Use the same index for snapshots of the same nodes, because readers keep data by row.
func NewSnapshot(index *Index, means map[time.Duration]*Table, metrics map[string]MetricTable) *Snapshot {
	s := &Snapshot{
		index: index, tables: make(map[Quantile]*Table, len(means)), columns: newColumns(index, metrics),
		unmeasured: NewTable(index, func(string) NodeLoad { return NodeLoad{} }),
	}
	for window, table := range means {
		s.tables[Quantile{Window: window}] = table
	}
	return s
}

// With returns a snapshot with added nodes, and with change applied to the load of each node in each table. For an added node,
// change receives the zero NodeLoad. Node metrics do not change.
func (s *Snapshot) With(added []string, change func(of Quantile, node string, measured NodeLoad) NodeLoad) *Snapshot {
	index := s.index
	if len(added) > 0 {
		index = NewIndex(slices.Concat(index.names, added)) // keeps the rows of s, by which columns are read
	}
	with := NewSnapshot(index, nil, nil)
	for of, table := range s.tables {
		with.tables[of] = NewTable(index, func(node string) NodeLoad { return change(of, node, table.Node(node)) })
	}
	with.columns = s.columns
	return with
}

// Index has the rows of the nodes in all tables and columns of the snapshot.
func (s *Snapshot) Index() *Index { return s.index }

// Over returns the load over the window. A window that is not read has a table without measurements.
func (s *Snapshot) Over(window time.Duration) *Table { return s.Table(Quantile{Window: window}) }

// WithQuantiles returns the snapshot with a table for each quantile, whose Stat.Mean holds the quantile. All tables have the nodes
// of Index.
func (s *Snapshot) WithQuantiles(tables map[Quantile]*Table) *Snapshot {
	with := *s
	with.tables = maps.Clone(s.tables)
	maps.Copy(with.tables, tables)
	return &with
}

// Table returns the table of a quantile, or of the mean if Fraction is 0. In the table of a quantile, Stat.Mean holds the quantile.
// A quantile that is not read has a table without measurements.
func (s *Snapshot) Table(of Quantile) *Table {
	if t, ok := s.tables[of]; ok {
		return t
	}
	return s.unmeasured
}

// Statistics are what the snapshot has tables of: quantiles, and means with a Fraction of 0.
func (s *Snapshot) Statistics() []Quantile {
	return slices.SortedFunc(maps.Keys(s.tables), compareQuantiles)
}

// Metrics are the expressions of the node metrics that the snapshot has columns of.
func (s *Snapshot) Metrics() []string { return slices.Sorted(maps.Keys(s.columns)) }

// Metric returns the values of the node metric with the given PromQL expression. An expression that is not read has a column
// without values.
func (s *Snapshot) Metric(expression string) *MetricColumn {
	if c, ok := s.columns[expression]; ok {
		return c
	}
	return &MetricColumn{}
}

// Publisher passes the latest Snapshot from a refresh to all decisions. It is safe for concurrent use; Latest never waits.
// Use NewPublisher.
type Publisher struct {
	latest atomic.Pointer[Snapshot]

	mu        sync.Mutex
	published chan struct{}
	hooks     []func(previous *Snapshot)
}

// NewPublisher returns a publisher whose snapshot is empty.
func NewPublisher() *Publisher {
	p := &Publisher{published: make(chan struct{})}
	p.latest.Store(NewSnapshot(NewIndex(nil), nil, nil))
	return p
}

// Publish makes s the snapshot of all decisions that begin from now on.
func (p *Publisher) Publish(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	previous := p.latest.Load()
	p.latest.Store(s)
	for _, hook := range p.hooks {
		hook(previous)
	}
	close(p.published)
	p.published = make(chan struct{})
}

// OnPublish calls hook after each Publish with the previous snapshot, in the goroutine that publishes. The hook must not wait, and
// must not call the publisher, except for Latest.
func (p *Publisher) OnPublish(hook func(previous *Snapshot)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append(p.hooks, hook)
}

// Published returns a channel that is closed when the next snapshot is published. Take the channel before calling Latest;
// otherwise an update in between is missed.
func (p *Publisher) Published() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published
}

// Latest returns the last published snapshot.
func (p *Publisher) Latest() *Snapshot { return p.latest.Load() }
