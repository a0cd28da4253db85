package load

import "time"

// Reading is the latest believed statistic of one resource of one node.
type Reading struct {
	Stat
	// Window is the span that was measured; 0 is a reading of the moment.
	Window time.Duration
	// End is the moment the window ends at, never later than the moment it was read.
	End time.Time
}

// NodeLoad is what is known of one node's load over one window. Each resource has an age of its own, for a source may
// answer for one of them alone.
type NodeLoad struct {
	CPU    Reading
	Memory Reading
}

// Table holds the load of all nodes over one window. It is immutable, and so safe for concurrent use.
type Table struct {
	nodes        map[string]NodeLoad
	newestCPU    time.Time
	newestMemory time.Time
}

// NewTable returns a table of the given nodes, by name of the Node object. It keeps the map, which must not change any more.
func NewTable(nodes map[string]NodeLoad) *Table {
	t := &Table{nodes: nodes}
	for _, n := range nodes {
		t.newestCPU = later(t.newestCPU, n.CPU)
		t.newestMemory = later(t.newestMemory, n.Memory)
	}
	return t
}

func later(t time.Time, r Reading) time.Time {
	if r.Known && r.End.After(t) {
		return r.End
	}
	return t
}

// Len is the number of nodes that have ever been measured and not been forgotten.
func (t *Table) Len() int { return len(t.nodes) }

// Node returns what is known of the named node; the zero NodeLoad says that nothing is.
func (t *Table) Node(name string) NodeLoad { return t.nodes[name] }

// Snapshot is all that is known of the nodes' load at one moment, over each window that somebody asked for. It is
// immutable, and so safe for concurrent use.
type Snapshot struct {
	tables map[time.Duration]*Table
}

// NewSnapshot returns a snapshot of one table per window. It keeps the map, which must not change any more.
func NewSnapshot(tables map[time.Duration]*Table) *Snapshot { return &Snapshot{tables: tables} }

// Over returns the load over the given window; a window that nobody asked for has an empty table.
func (s *Snapshot) Over(window time.Duration) *Table {
	if t, ok := s.tables[window]; ok {
		return t
	}
	return NewTable(nil)
}
