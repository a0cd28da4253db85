package server

import (
	"net/netip"
	"slices"
	"sync"
)

// fairSet is a set of at most limit items, each of a client address. It is safe for concurrent use.
// In a full set, a new item replaces the oldest of the address with most items. So no address keeps others out.
type fairSet[T comparable] struct {
	limit int

	mu    sync.Mutex
	count int
	// items are by address, the oldest first.
	items map[netip.Addr][]T
}

func newFairSet[T comparable](limit int) *fairSet[T] {
	return &fairSet[T]{limit: limit, items: map[netip.Addr][]T{}}
}

// add adds the item, in a full set in place of replaced. A full set takes an item that yields only if its address then has fewer
// items than the other.
func (s *fairSet[T]) add(address netip.Addr, item T, yields bool) (replaced T, full, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full = s.count == s.limit; full {
		largest := s.largest()
		if yields && len(s.items[address])+1 >= len(s.items[largest]) {
			return replaced, full, false
		}
		replaced = s.items[largest][0]
		s.removeLocked(largest, replaced)
	}
	s.items[address] = append(s.items[address], item)
	s.count++
	return replaced, full, true
}

func (s *fairSet[T]) remove(address netip.Addr, item T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(address, item)
}

func (s *fairSet[T]) halfFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count >= s.limit/2
}

func (s *fairSet[T]) largest() netip.Addr {
	var largest netip.Addr
	for address, items := range s.items {
		if len(items) > len(s.items[largest]) {
			largest = address
		}
	}
	return largest
}

func (s *fairSet[T]) removeLocked(address netip.Addr, item T) {
	items := s.items[address]
	i := slices.Index(items, item)
	if i < 0 {
		return
	}
	if items = slices.Delete(items, i, i+1); len(items) > 0 {
		s.items[address] = items
	} else {
		delete(s.items, address)
	}
	s.count--
}
