package prometheus

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// detect returns the probe of the first dialect with a value for a node, or nil. It also returns the dialects tried before.
// A dialect whose query the server refuses, for example for its cost, is passed over.
// An error means that the server failed, which allows no conclusion.
//
// The longest window goes first: it needs the fewest scrapes a minute. Where it has no value, the shortest may have one.
func detect(ctx context.Context, qr *response.Querier, p *promql.Planner, windows []time.Duration,
) (taken *response.Result, tried []diagnosis.Tried, err error) {
	shortest, longest := windows[0], windows[len(windows)-1]
	for _, window := range slices.Compact([]time.Duration{longest, shortest}) {
		tried = nil
		for _, dialect := range promql.Dialects() {
			q := p.Probe(dialect, window)
			result := qr.Ask(ctx, &q)
			reason := result.Err
			if refused, ok := errors.AsType[*response.RefusedError](result.Err); ok {
				reason = refused
			} else if result.Err != nil {
				return nil, nil, result.Err
			}
			switch {
			case reason == nil && result.Nodes > 0:
				return result, tried, nil
			case reason == nil:
				reason = result.EmptyReason()
			}
			tried = append(tried, diagnosis.Tried{Dialect: dialect, Err: reason})
		}
	}
	return nil, tried, nil
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
