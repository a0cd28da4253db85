package estimate

import (
	"math/bits"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Snapshots gives each scheduling cycle one snapshot of a source: all its plugins decide by the same load. It is safe for
// concurrent use. Use NewSnapshots, once per publisher.
type Snapshots struct {
	publisher *load.Publisher
	pin       Pin[pinnedSnapshot]
	// rows is replaced when the nodes change.
	rows atomic.Pointer[rowMemo]
}

// pinnedSnapshot is a cycle's snapshot with the memo for its index.
type pinnedSnapshot struct {
	*load.Snapshot
	rows *rowMemo
}

// NewSnapshots returns the snapshots that p publishes.
func NewSnapshots(p *load.Publisher) *Snapshots { return &Snapshots{publisher: p} }

// Publisher returns the publisher of the snapshots.
func (s *Snapshots) Publisher() *load.Publisher { return s.publisher }

// ForCycle returns the cycle's snapshot: the latest at the first call, and the same at further calls.
func (s *Snapshots) ForCycle(state fwk.CycleState) *load.Snapshot { return s.forCycle(state).Snapshot }

func (s *Snapshots) forCycle(state fwk.CycleState) *pinnedSnapshot {
	if p := s.pin.Get(state); p != nil {
		return p
	}
	p, _ := s.pin.Set(state, s.latest())
	return p
}

func (s *Snapshots) latest() *pinnedSnapshot {
	snapshot := s.publisher.Latest()
	rows := s.rows.Load()
	if rows == nil || rows.index != snapshot.Index() {
		rows = newRowMemo(snapshot.Index())
		s.rows.Store(rows)
	}
	return &pinnedSnapshot{Snapshot: snapshot, rows: rows}
}

// Outdated reports whether a later snapshot than the cycle's was published.
func (s *Snapshots) Outdated(state fwk.CycleState) bool {
	return s.ForCycle(state) != s.publisher.Latest()
}

// rowMemo memoizes NodeInfo generation → row of an Index, so that most lookups need no map access. It is safe for concurrent
// use. A generation belongs to one node only.
type rowMemo struct {
	index *load.Index
	// words are indexed by the low bits of the generation. Each holds generation << rowBits | row; 0 is empty. A later store replaces
	// an earlier one.
	words []atomic.Uint64
}

const rowBits = 24

func newRowMemo(index *load.Index) *rowMemo {
	// A power of two, 4 to 8 times the nodes, so that few nodes share a word.
	words := 1 << bits.Len(uint(4*index.Len()))
	return &rowMemo{index: index, words: make([]atomic.Uint64, words)}
}

func (m *rowMemo) row(node fwk.NodeInfo) (row int, ok bool) {
	generation := uint64(node.GetGeneration())
	word := &m.words[generation&uint64(len(m.words)-1)]
	if w := word.Load(); w != 0 && w>>rowBits == generation {
		return int(w & (1<<rowBits - 1)), true
	}
	if row, ok = m.index.Row(node.Node().Name); ok && row < 1<<rowBits {
		word.Store(generation<<rowBits | uint64(row))
	}
	return row, ok
}

// Pin holds one value for one scheduling cycle, identified by its CycleState. It serves plugins of Score alone:
// many goroutines make their first calls of a cycle at once. It costs no allocation per node.
//
// A Pin is safe for concurrent use. It holds the value of the latest cycle only, because cycles follow one another. It references
// the CycleState, whose address is therefore unique: comparing pointers is sound.
type Pin[T any] struct {
	latest atomic.Pointer[pinned[T]]
}

type pinned[T any] struct {
	state fwk.CycleState
	value *T
}

// Get returns the value pinned for the cycle, or nil.
func (p *Pin[T]) Get(state fwk.CycleState) *T {
	if current := p.latest.Load(); current != nil && current.state == state {
		return current.value
	}
	return nil
}

// Set pins the value for the cycle unless another goroutine was first. It returns what is pinned, and whether that is value.
func (p *Pin[T]) Set(state fwk.CycleState, value *T) (winner *T, first bool) {
	fresh := &pinned[T]{state: state, value: value}
	for {
		current := p.latest.Load()
		if current != nil && current.state == state {
			return current.value, false
		}
		if p.latest.CompareAndSwap(current, fresh) {
			return value, true
		}
	}
}
