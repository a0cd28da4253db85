package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// detect returns the probe of the dialect to take, or nil, and the dialects that it passed over.
// A dialect whose query the server refuses, for example for its cost, is passed over. So is one with too many series.
// An error means that the server failed, which allows no conclusion.
//
// The first dialect counts with values for at least half as many nodes as the best has. So a few series do not decide for all
// nodes: anyone may let Prometheus scrape some. These count, each only if the next names no more than twice as many nodes:
//   - those of targets in the network of their nodes, which tenants' pods are not;
//   - those of all targets that are shown to be on their nodes;
//   - series without a target too;
//   - all series, if there are none of these.
//
// The longest window goes first: it needs the fewest scrapes a minute. Where it has no value, the shortest may have one.
func detect(ctx context.Context, qr *response.Querier, p *promql.Planner, windows []time.Duration,
) (taken *response.Result, tried []diagnosis.Tried, err error) {
	shortest, longest := windows[0], windows[len(windows)-1]
	for _, window := range slices.Compact([]time.Duration{longest, shortest}) {
		probes, err := probe(ctx, qr, p, window)
		if err != nil {
			return nil, nil, err
		}
		tried = nil
		taken := best(probes)
		for _, r := range probes {
			if r == taken {
				return taken, tried, nil
			}
			tried = append(tried, diagnosis.Tried{Dialect: r.Query.Dialect, Err: passedOver(r)})
		}
	}
	return nil, tried, nil
}

// probe probes the dialects up to the first with values for half of the nodes in their network. No other can have twice as many.
func probe(ctx context.Context, qr *response.Querier, p *promql.Planner, window time.Duration,
) (probes []*response.Result, err error) {
	for _, dialect := range promql.Dialects() {
		q := p.Probe(dialect, window)
		r := qr.Ask(ctx, &q)
		if _, refused := errors.AsType[*response.RefusedError](r.Err); r.Err != nil && !refused && !source.IsTooLarge(r.Err) {
			return nil, r.Err
		}
		if probes = append(probes, r); r.OnHost > 0 && 2*r.OnHost >= len(qr.Matcher.Nodes) {
			break
		}
	}
	return probes, nil
}

// best returns the first probe with at least half as many nodes as the largest. It returns nil if none has a node.
func best(probes []*response.Result) *response.Result {
	first := func(nodesOf func(*response.Result) int) (most int, taken *response.Result) {
		for _, r := range probes {
			most = max(most, nodesOf(r))
		}
		i := slices.IndexFunc(probes, func(r *response.Result) bool { return most > 0 && 2*nodesOf(r) >= most })
		if i < 0 {
			return 0, nil
		}
		return most, probes[i]
	}
	most, taken := first(func(r *response.Result) int { return r.OnHost })
	if shown, byShown := first(func(r *response.Result) int { return r.Shown }); 2*most < shown {
		most, taken = shown, byShown
	}
	if likely, byLikely := first(func(r *response.Result) int { return r.Shown + r.Untargeted }); 2*most < likely {
		taken = byLikely
	}
	_, byAny := first(func(r *response.Result) int { return r.Nodes })
	return cmp.Or(taken, byAny)
}

// passedOver returns why the dialect of a probe was not taken.
func passedOver(r *response.Result) error {
	if refused, ok := errors.AsType[*response.RefusedError](r.Err); ok {
		return refused
	}
	if source.IsTooLarge(r.Err) {
		return errors.New("the response is too large: set metricProvider.selector")
	}
	if r.Nodes > 0 {
		return fmt.Errorf("values for %d nodes: %d from targets on the node, of which %d are in the node's network",
			r.Nodes, r.Shown, r.OnHost)
	}
	return r.EmptyReason()
}

// dialectEmpty reports whether no mean of the dialect's probed resource has a value, and none failed.
func dialectEmpty(p *promql.Planner, results []*response.Result) bool {
	for _, r := range results {
		q := r.Query
		if q.Dialect != "" && q.Kind == promql.Mean && q.Resource == p.Probed() && (r.Err != nil || r.Nodes > 0) {
			return false
		}
	}
	return p.NeedsDialect()
}

// detectDialect takes the dialect that detect finds, or none. If the server fails, the dialect stays.
func (s *Source) detectDialect(ctx context.Context, qr *response.Querier, windows []time.Duration) error {
	taken, tried, err := detect(ctx, qr, &s.planner, windows)
	if err != nil {
		return err
	}
	s.tried = tried
	if taken == nil {
		s.dialect = ""
		return &diagnosis.UndetectedError{Endpoint: s.client.Endpoint(), Tried: tried}
	}
	if dialect := taken.Query.Dialect; dialect != s.dialect {
		if logger, ok := s.dialectLog.Allow(klog.FromContext(ctx), s.clock.Now()); ok {
			logger.Info("Reading the load of nodes from Prometheus", "address", s.client.Endpoint(), "dialect", dialect,
				"nodesMeasured", taken.Nodes, "nodeCount", len(qr.Matcher.Nodes))
		}
		s.dialect = dialect
	}
	return nil
}
