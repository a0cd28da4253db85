package response

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// concurrentQueries lets other queries of a refresh finish while one hangs, without overloading Prometheus.
const concurrentQueries = 4

// Errors of a response without a value for any Node. Others are *UnmatchedError and *RejectedError.
var (
	ErrNoSeries   = errors.New("no series")
	ErrNoCapacity = errors.New("the Nodes with series report no status.capacity for this resource")
)

// UnmatchedError says that no series of a response matches a Node.
type UnmatchedError struct {
	Series   int
	Examples []string
}

func (e *UnmatchedError) Error() string {
	return fmt.Sprintf("none of %d series matches a Node by its nodeLabels; for example %s", e.Series, text.FirstN(e.Examples))
}

// RejectedError says that no number of a response is possible.
type RejectedError struct{ Rejected source.Rejected }

func (e *RejectedError) Error() string {
	return "no value can have been measured: " + e.Rejected.String()
}

// Value is what a query returned for one Node.
type Value struct {
	Value float64
	Known bool
	// Set is the target set of the series.
	Set *TargetSet
	// rank is the position in nodeLabels of the series label that matched the node. 0 is preferred.
	rank int
	tier tier
}

// offer keeps the value of the target with the better tier. For the same tier it keeps the value whose label is earlier in
// nodeLabels. For the same label it keeps the greater value.
func (v *Value) offer(of claim) {
	better := cmp.Or(cmp.Compare(of.tier, v.tier), cmp.Compare(of.rank, v.rank))
	if better < 0 || better == 0 && of.value > v.Value {
		v.Value, v.rank, v.tier = of.value, of.rank, of.tier
	}
}

// Coverage counts nodes with a value.
type Coverage struct {
	Nodes int
	// Proven are the nodes with a value of a target that is shown to be on the node. OnHost are those of them whose target is in the
	// node's network, at no node port. Untargeted are the nodes with a value of a series without a target.
	Proven, OnHost, Untargeted int
}

// Add adds the nodes of another coverage.
func (c *Coverage) Add(of Coverage) {
	c.Nodes, c.Proven, c.OnHost, c.Untargeted = c.Nodes+of.Nodes, c.Proven+of.Proven, c.OnHost+of.OnHost, c.Untargeted+of.Untargeted
}

// Coverage is that of the value's node.
func (v *Value) Coverage() Coverage {
	switch {
	case !v.Known:
		return Coverage{}
	case v.Set.Evidence == Proven && v.tier < elsewhere:
		return Coverage{Nodes: 1, Proven: 1, OnHost: 1}
	case v.Set.Evidence == Proven:
		return Coverage{Nodes: 1, Proven: 1}
	case v.Set.Evidence == Untargeted:
		return Coverage{Nodes: 1, Untargeted: 1}
	}
	return Coverage{Nodes: 1}
}

// Result is the response to one query, by node.
type Result struct {
	Query *promql.Query
	// Err is why there is no response. Only Query is set then.
	Err error
	// Evaluated is the earliest timestamp of the series, zero without any. Received is when the response was complete.
	Evaluated, Received time.Time
	// Values has one element per Matcher.Nodes, in the same order.
	Values []Value
	Coverage
	// Used is the target set with the most values, nil without any. Contested is the number of nodes that several sets name.
	// Conflict has two of these sets, nil without any.
	Used      *TargetSet
	Contested int
	Conflict  *Conflict
	// sets are the target sets with a value, the one to believe first.
	sets []TargetSet
	// Series is the number of series.
	Series int
	// Unmatched are the different nodeLabels of series without a Node, up to source.MaxUnmatched.
	Unmatched map[string]struct{}
	Warnings  []string
	// Rejected counts the numbers that were not used.
	Rejected source.Rejected
}

// add collects the value of a series. settle decides between the values of a node.
func (r *Result) add(m *Matcher, c *claims, s *Series[map[string]string]) {
	r.Series++
	if r.Evaluated.IsZero() || s.Value.At.Before(r.Evaluated) {
		r.Evaluated = s.Value.At
	}
	position, rank, ok := m.Match(s.Metric)
	if !ok {
		if len(r.Unmatched) < source.MaxUnmatched {
			r.addUnmatched(m.describe(s.Metric))
		}
		return
	}
	value := s.Value.Value
	if r.Query.OverCapacity {
		capacity := m.capacity(position, r.Query.Resource)
		if capacity <= 0 {
			return
		}
		if value /= capacity; math.IsInf(value, 0) {
			r.Rejected.Add(source.Rejected{load.RejectedNotANumber: 1})
			return
		}
	}
	set, at := m.targetSetOf(s.Metric, position)
	c.add(set, claim{position: position, value: value, rank: rank, tier: at, gone: set.Evidence == Unproven && m.gone(s.Metric)})
}

func (r *Result) addUnmatched(series string) {
	if r.Unmatched == nil {
		r.Unmatched = map[string]struct{}{}
	}
	if len(r.Unmatched) < source.MaxUnmatched {
		r.Unmatched[series] = struct{}{}
	}
}

// Problem returns why no node has a value; nil if at least one has.
func (r *Result) Problem() error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Nodes > 0:
		return nil
	}
	return fmt.Errorf("%s: %w", r.Query, r.EmptyReason())
}

// EmptyReason returns why a query that succeeded has no value for any node.
func (r *Result) EmptyReason() error {
	switch {
	case len(r.Unmatched) > 0:
		return &UnmatchedError{Series: r.Series, Examples: slices.Sorted(maps.Keys(r.Unmatched))}
	case r.Series > 0:
		return ErrNoCapacity
	case len(r.Rejected) > 0:
		return &RejectedError{r.Rejected}
	}
	return ErrNoSeries
}

// SampleTime returns the node's value as a time. r is the result of a query for times of samples, or nil.
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

// Querier sends queries to Prometheus and matches the returned series to all nodes.
type Querier struct {
	Client  *Client
	Clock   clock.PassiveClock
	Matcher *Matcher
	// InUse are the target sets of the last refresh.
	InUse InUse
	// At is when queries are evaluated; zero for the server's present time.
	At time.Time
}

// RunAll sends the queries, a few at a time, and returns the results in the same order.
func (qr *Querier) RunAll(ctx context.Context, queries []promql.Query) []*Result {
	results := make([]*Result, len(queries))
	next := make(chan int, len(queries))
	for i := range queries {
		next <- i
	}
	close(next)
	var workers source.Group
	for range min(concurrentQueries, len(queries)) {
		workers.Go(func() {
			for i := range next {
				results[i] = qr.Run(ctx, &queries[i])
			}
		})
	}
	workers.Wait()
	return results
}

// Run sends one query. It may be called concurrently. Each response has its own size limit.
func (qr *Querier) Run(ctx context.Context, q *promql.Query) *Result {
	r, c, err := qr.read(ctx, q)
	if err != nil {
		return &Result{Query: q, Err: err}
	}
	qr.settle(r, c)
	return r
}

// RunSets is Run for queries of one target set each, where a response with all sets is too large. The nodes count as contested.
// It fails only if each query does: one of the sets may be too large by itself.
func (qr *Querier) RunSets(ctx context.Context, queries []*promql.Query) (all *Result) {
	var of *claims
	var failed error
	for _, q := range queries {
		r, c, err := qr.read(ctx, q)
		switch {
		case err != nil:
			failed = cmp.Or(failed, err)
		case all == nil:
			all, of = r, c
		default:
			all.merge(r)
			of.merge(c)
		}
	}
	if all == nil {
		return &Result{Query: queries[0], Err: failed}
	}
	qr.settle(all, of)
	if all.Used != nil {
		all.Contested, all.Conflict = all.Nodes, &Conflict{Used: *all.Used, Ignored: TargetSet{Evidence: Crowded}, Nodes: all.Nodes}
		all.Conflict.clean(qr.Matcher.excerpt)
	}
	return all
}

// read sends a query and collects the claims of its series.
func (qr *Querier) read(ctx context.Context, q *promql.Query) (*Result, *claims, error) {
	nodes := len(qr.Matcher.Nodes)
	r, c := &Result{Query: q, Values: make([]Value, nodes), Rejected: source.Rejected{}}, &claims{}
	bounds := NodeBounds(nodes)
	bounds.Signed = q.Kind == promql.NodeMetric
	answer, err := qr.Client.Query(ctx, q.PromQL, qr.At, bounds, func(s *Series[map[string]string]) { r.add(qr.Matcher, c, s) })
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	r.Warnings, r.Received = answer.Warnings, qr.Clock.Now()
	r.Rejected.Add(answer.Rejected)
	return r, c, nil
}

func (qr *Querier) settle(r *Result, c *claims) {
	r.settle(c, qr.InUse)
	if r.Conflict != nil {
		r.Conflict.clean(qr.Matcher.excerpt)
	}
}

// merge adds the series of another response to the query.
func (r *Result) merge(o *Result) {
	if r.Evaluated.IsZero() || !o.Evaluated.IsZero() && o.Evaluated.Before(r.Evaluated) {
		r.Evaluated = o.Evaluated
	}
	r.Series, r.Received, r.Warnings = r.Series+o.Series, o.Received, append(r.Warnings, o.Warnings...)
	for unmatched := range o.Unmatched {
		r.addUnmatched(unmatched)
	}
}
