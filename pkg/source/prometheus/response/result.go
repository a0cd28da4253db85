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
	Value   float64
	Known   bool
	Dialect promql.Dialect
}

// Result is the response to one query, by node.
type Result struct {
	Query *promql.Query
	Err   error // if set, only Query is
	// Evaluated is the earliest timestamp of the series, zero without any. Received is when the response was complete.
	Evaluated, Received time.Time
	Values              []Value // by Matcher.Nodes
	// Nodes is the number of nodes with a value. Own is the number of nodes, contested ones included, with a series whose instance is
	// the name or an address of the node.
	Nodes, Own int
	Contested  []Contested
	Series     int
	// Unmatched are the different nodeLabels of series without a Node, up to source.MaxUnmatched.
	Unmatched map[string]struct{}
	Warnings  []string
	Partial   error
	Rejected  source.Rejected
}

type claims struct {
	all  []claim
	sets map[TargetSet]*TargetSet
}

func (c *claims) add(r *Result, m *Matcher, s *Series[map[string]string]) {
	r.Series++
	if r.Evaluated.IsZero() || s.Value.At.Before(r.Evaluated) {
		r.Evaluated = s.Value.At
	}
	position, rank, ok := m.Match(s.Metric)
	if !ok {
		if len(r.Unmatched) < source.MaxUnmatched {
			r.Unmatched[m.write("", s.Metric, m.labels)] = struct{}{}
		}
		return
	}
	reading, order := r.Query.ReadingOf(promql.Dialect(s.Metric[promql.DialectLabel]))
	if m.only != nil && m.only[position] != "" && reading.Dialect != "" && m.only[position] != reading.Dialect {
		return
	}
	value, ok := m.share(position, r.Query, reading, s.Value.Value)
	if !ok {
		return
	}
	if math.IsInf(value, 0) {
		r.Rejected.Add(source.Rejected{load.RejectedNotANumber: 1})
		return
	}
	set := LabelsOf(s.Metric)
	if c.sets[set] == nil {
		c.sets[set] = &set
	}
	at, found := m.Index.Match(s.Metric["instance"])
	c.all = append(c.all, claim{
		position: position, order: order, dialect: reading.Dialect, value: value, own: found && at == position, set: c.sets[set],
		rank: rank,
	})
}

// Named is the number of nodes with a value, or contested.
func (r *Result) Named() int { return r.Nodes + len(r.Contested) }

// IsContested reports whether target sets differ about the node at a position.
func (r *Result) IsContested(position int) bool {
	return slices.ContainsFunc(r.Contested, func(c Contested) bool { return c.Position == position })
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
	case len(r.Contested) > 0:
		return errors.New("target sets differ about each node: set metricProvider.selector")
	case len(r.Unmatched) > 0:
		return &UnmatchedError{Series: r.Series, Examples: slices.Sorted(maps.Keys(r.Unmatched))}
	case r.Series > 0:
		return errors.New("the Nodes with series report no status.capacity for this resource")
	case len(r.Rejected) > 0:
		return &RejectedError{r.Rejected}
	}
	return errors.New("no series")
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
	probes  map[string]*Result
}

// With returns a Querier that takes a Node's values of one dialect alone, by position. An empty dialect stands for any.
func (qr *Querier) With(only []promql.Dialect) *Querier {
	m := *qr.Matcher
	m.only = only
	return &Querier{Client: qr.Client, Clock: qr.Clock, Matcher: &m}
}

// Probe is Run, but sends a query once, and is not safe for concurrent use.
func (qr *Querier) Probe(ctx context.Context, q *promql.Query) *Result {
	if qr.probes == nil {
		qr.probes = map[string]*Result{}
	}
	if qr.probes[q.PromQL] == nil {
		qr.probes[q.PromQL] = qr.Run(ctx, q)
	}
	return qr.probes[q.PromQL]
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
	nodes := len(qr.Matcher.Nodes)
	r, c := &Result{Query: q, Values: make([]Value, nodes), Rejected: source.Rejected{}}, &claims{sets: map[TargetSet]*TargetSet{}}
	r.Unmatched = map[string]struct{}{}
	bounds := NodeBounds(nodes * (1 + len(q.Others)))
	bounds.Signed = q.Kind == promql.NodeMetric
	visit := func(s *Series[map[string]string]) { c.add(r, qr.Matcher, s) }
	if q.Kind == promql.ServerTime {
		visit = func(s *Series[map[string]string]) { r.Evaluated, _ = promql.Time(s.Value.Value) }
	}
	answer, err := qr.Client.Query(ctx, q.PromQL, bounds, visit)
	if err != nil {
		return &Result{Query: q, Err: fmt.Errorf("%s: %w", q, err)}
	}
	r.Warnings, r.Received, r.Partial = answer.Warnings, qr.Clock.Now(), answer.Partial()
	r.Rejected.Add(answer.Rejected)
	r.settle(c.all, qr.Matcher.excerpt)
	return r
}

// Select the series that give a node's load:
//   - With metricProvider.selector, only series that match it are read.
//   - Series whose instance is an address or the name of the node come before all others.
//   - If two target sets of the series that count differ by more than tolerance, the node is contested and has no load. Otherwise
//     the highest value counts.

// tolerance is the difference of two target sets above which a node is contested, as a fraction of capacity.
const tolerance = 0.05

// TargetLabels appends the missing labels of a target to labels. A query that aggregates by them keeps the target visible.
func TargetLabels(labels []string) []string {
	all := slices.Clone(labels)
	for _, label := range []string{"instance", "job", "namespace", "service", promql.PodLabel} {
		if !slices.Contains(all, label) {
			all = append(all, label)
		}
	}
	return all
}

// TargetSet is a set of targets of the same job, namespace and service.
type TargetSet struct{ Job, Namespace, Service string }

// LabelsOf returns the target set of a series.
func LabelsOf(series map[string]string) TargetSet {
	return TargetSet{Job: series["job"], Namespace: series["namespace"], Service: series["service"]}
}

// String returns the set's labels as a PromQL selector, for metricProvider.selector.
func (s TargetSet) String() string {
	return fmt.Sprintf("{job=%q, namespace=%q, service=%q}", s.Job, s.Namespace, s.Service)
}

func (s TargetSet) compare(o TargetSet) int {
	return cmp.Or(cmp.Compare(s.Namespace, o.Namespace), cmp.Compare(s.Job, o.Job), cmp.Compare(s.Service, o.Service))
}

func (s TargetSet) clean(excerpt func(string) string) TargetSet {
	return TargetSet{Job: excerpt(s.Job), Namespace: excerpt(s.Namespace), Service: excerpt(s.Service)}
}

type claim struct {
	position int
	order    int
	dialect  promql.Dialect
	value    float64
	own      bool
	set      *TargetSet
	// rank is the position in nodeLabels of the series label that matched the node. 0 is preferred.
	rank int
}

// Contested is a node that two target sets measure differently.
type Contested struct {
	Position  int
	High, Low TargetSet
}

// settle gives each node a value of the first dialect that has one, or finds it contested. Of the series of one target set, that
// with the earliest of nodeLabels counts, then the greatest: a replaced pod's series may still be there.
func (r *Result) settle(claims []claim, excerpt func(string) string) {
	slices.SortFunc(claims, func(a, b claim) int {
		own := 0
		if a.own != b.own {
			if own = 1; a.own {
				own = -1
			}
		}
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.order, b.order), own, a.set.compare(*b.set),
			cmp.Compare(a.rank, b.rank), cmp.Compare(b.value, a.value))
	})
	for i := 0; i < len(claims); {
		first, low, high := claims[i], claims[i], claims[i]
		for last := first.set; i < len(claims) && claims[i].position == first.position; i++ {
			if c := claims[i]; c.order == first.order && c.own == first.own && c.set != last {
				last = c.set
				if c.value > high.value {
					high = c
				}
				if c.value < low.value {
					low = c
				}
			}
		}
		if first.own {
			r.Own++
		}
		if r.Query.Kind <= promql.StdDev && high.value-low.value > tolerance {
			r.Contested = append(r.Contested, Contested{first.position, high.set.clean(excerpt), low.set.clean(excerpt)})
			continue
		}
		r.Values[first.position] = Value{Value: high.value, Known: true, Dialect: first.dialect}
		r.Nodes++
	}
}
