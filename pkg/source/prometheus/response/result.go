package response

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// concurrentQueries lets other queries of a refresh finish while one hangs, without loading the server.
const concurrentQueries = 4

// Errors of a response without a value for any Node. A third is *UnmatchedError.
var (
	ErrNoSeries   = errors.New("no series")
	ErrNoCapacity = errors.New("the Nodes with series have no capacity")
)

// UnmatchedError is a response whose series belong to no Node.
type UnmatchedError struct {
	Series   int
	Examples []string
}

func (e *UnmatchedError) Error() string {
	return fmt.Sprintf("none of %d series belongs to a Node: %s", e.Series, text.FirstN(e.Examples))
}

// Value is the value of a Node.
type Value struct {
	Value float64
	Known bool
	// rank is the rank among the node labels of the one that names the node.
	rank int
}

// offer replaces the value by one that an earlier label names, or by a greater one of the same label.
func (v *Value) offer(value float64, rank int) {
	better := !v.Known || rank < v.rank || rank == v.rank && (value > v.Value || math.IsNaN(v.Value))
	if better {
		*v = Value{Value: value, Known: true, rank: rank}
	}
}

// Result is the response to one query, by node.
type Result struct {
	Query *promql.Query
	// Err is why there is no response; all other fields are then zero.
	Err error
	// Evaluated is when the server evaluated the query, zero without series. Received is when the response was complete.
	Evaluated, Received time.Time
	// Values are by position of the node; Nodes is the number of known ones.
	Values []Value
	Nodes  int
	// Series is the number of series.
	Series int
	// Unmatched are the distinct series without a Node, up to source.MaxUnmatched.
	Unmatched map[string]struct{}
	Warnings  []string
}

func (r *Result) add(m *Matcher, s *Series[map[string]string]) {
	r.Series++
	if r.Evaluated.IsZero() || s.Value.At.Before(r.Evaluated) {
		r.Evaluated = s.Value.At
	}
	position, rank, ok := m.Match(s.Metric)
	if !ok {
		if r.Unmatched == nil {
			r.Unmatched = map[string]struct{}{}
		}
		if len(r.Unmatched) < source.MaxUnmatched {
			r.Unmatched[m.describe(s.Metric)] = struct{}{}
		}
		return
	}
	value := s.Value.Value
	if r.Query.OverCapacity {
		capacity := m.capacity(position, r.Query.Resource)
		if capacity <= 0 {
			return
		}
		value /= capacity
	}
	if !r.Values[position].Known {
		r.Nodes++
	}
	r.Values[position].offer(value, rank)
}

// Problem returns why no node has a value; nil if at least one has.
func (r *Result) Problem() error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Nodes > 0:
		return nil
	}
	return fmt.Errorf("%s: %w", r.Query, r.Emptiness())
}

// Emptiness returns why a response without an error has no value for any node.
func (r *Result) Emptiness() error {
	switch {
	case len(r.Unmatched) > 0:
		return &UnmatchedError{Series: r.Series, Examples: slices.Sorted(maps.Keys(r.Unmatched))}
	case r.Series > 0:
		return ErrNoCapacity
	}
	return ErrNoSeries
}

// SampleTime returns the value of a query for times of samples, for the node at a position. r may be nil.
func (r *Result) SampleTime(position int) (at time.Time, ok bool) {
	if r == nil || r.Nodes == 0 || !r.Values[position].Known {
		return time.Time{}, false
	}
	return promql.Time(r.Values[position].Value)
}

// Find returns the first Result of a kind, or nil.
func Find(results []*Result, k promql.Kind) *Result {
	for _, r := range results {
		if r.Query.Kind == k {
			return r
		}
	}
	return nil
}

// Querier asks about all nodes.
type Querier struct {
	Client  *Client
	Clock   clock.PassiveClock
	Matcher *Matcher
}

// AskAll sends the queries, a few at a time, and returns the results in the same order.
func (qr *Querier) AskAll(ctx context.Context, queries []promql.Query) []*Result {
	results := make([]*Result, len(queries))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(concurrentQueries, len(queries)) {
		workers.Go(func() {
			for i := range next {
				results[i] = qr.Ask(ctx, &queries[i])
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

// Ask sends one query. It may be called concurrently. Each response has its own bound: one too large takes nothing from others.
func (qr *Querier) Ask(ctx context.Context, q *promql.Query) *Result {
	nodes := len(qr.Matcher.Nodes)
	r := &Result{Query: q, Values: make([]Value, nodes)}
	warnings, err := qr.Client.Query(ctx, q.PromQL, nodes, func(s *Series[map[string]string]) { r.add(qr.Matcher, s) })
	if err != nil {
		return &Result{Query: q, Err: fmt.Errorf("%s: %w", q, err)}
	}
	r.Warnings, r.Received = warnings, qr.Clock.Now()
	return r
}
