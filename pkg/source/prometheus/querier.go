package prometheus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// concurrentQueries lets the other queries of a refresh be answered while one hangs, without pressing on the server.
const concurrentQueries = 4

type nodeValue struct {
	value float64
	// rank is the rank among the node labels of the one that names the node.
	rank  int
	known bool
}

// offer replaces the value by one that an earlier label names, or by a greater one of the same label.
func (v *nodeValue) offer(value float64, rank int) {
	better := !v.known || rank < v.rank || rank == v.rank && (value > v.value || math.IsNaN(v.value))
	if better {
		*v = nodeValue{value: value, rank: rank, known: true}
	}
}

// queryResult is the response to one query, by node.
type queryResult struct {
	query *query
	// err is why there is no response; the fields below are then zero.
	err error
	// evaluated is the time at which the server evaluated the query, zero without series; received is the time at which the
	// response was complete.
	evaluated, received time.Time
	// values are by position of the node; nodes is the number of those that are known.
	values []nodeValue
	nodes  int
	// series is the number of series, matched that of those which belong to a Node. matches are examples of these.
	series, matched int
	matches         []Match
	// unmatched are the distinct series that belong to no Node, up to source.MaxUnmatched.
	unmatched map[string]struct{}
	warnings  []string
}

// add stores the value of one series.
func (r *queryResult) add(m *matcher, s *series) {
	r.series++
	if r.evaluated.IsZero() || s.Value.at.Before(r.evaluated) {
		r.evaluated = s.Value.at
	}
	position, rank, ok := m.match(s.Metric)
	if !ok {
		if r.unmatched == nil {
			r.unmatched = map[string]struct{}{}
		}
		if len(r.unmatched) < source.MaxUnmatched {
			r.unmatched[m.describe(s.Metric)] = struct{}{}
		}
		return
	}
	r.matched++
	if len(r.matches) < matchExamples {
		r.matches = append(r.matches, Match{Series: m.describe(s.Metric), Node: m.nodes[position].Name})
	}
	value := s.Value.value
	if r.query.overCapacity {
		capacity := m.capacity(position, r.query.resource)
		if capacity <= 0 {
			return
		}
		value /= capacity
	}
	if !r.values[position].known {
		r.nodes++
	}
	r.values[position].offer(value, rank)
}

// problem is why no node has a value; nil if at least one has.
func (r *queryResult) problem() error {
	switch {
	case r.err != nil:
		return r.err
	case r.nodes > 0:
		return nil
	}
	return fmt.Errorf("%s: %w", r.query, r.emptiness())
}

// emptiness is why a response without an error has a value for no node.
func (r *queryResult) emptiness() error {
	switch {
	case len(r.unmatched) > 0:
		return fmt.Errorf("none of %d series belongs to a Node: %s", r.series, text.FirstN(slices.Sorted(maps.Keys(r.unmatched))))
	case r.series > 0:
		return errors.New("the Nodes that have a series have no capacity")
	}
	return errors.New("no series")
}

type querier struct {
	client  *client
	clock   clock.PassiveClock
	matcher *matcher
	logger  klog.Logger
}

// queryAll sends the queries, a few at a time, and returns the results in the same order.
func (qr *querier) queryAll(ctx context.Context, queries []query) []*queryResult {
	results := make([]*queryResult, len(queries))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(concurrentQueries, len(queries)) {
		workers.Go(func() {
			for i := range next {
				results[i] = qr.query(ctx, &queries[i])
			}
		})
	}
	for i := range queries {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

// query sends one query. It may be called concurrently.
func (qr *querier) query(ctx context.Context, q *query) *queryResult {
	nodes := len(qr.matcher.nodes)
	r := &queryResult{query: q, values: make([]nodeValue, nodes)}
	// Each query has a bound of its own, so that one whose response is too large takes nothing from the others.
	warnings, err := qr.client.query(ctx, q.promql, nodes, func(s *series) { r.add(qr.matcher, s) })
	if err != nil {
		return &queryResult{query: q, err: fmt.Errorf("%s: %w", q, err)}
	}
	r.warnings, r.received = warnings, qr.clock.Now()
	return r
}
