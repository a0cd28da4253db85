package prometheus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// TriedDialect is a dialect that Auto tried and did not take.
type TriedDialect struct {
	Dialect Dialect
	// Err is why it was not taken.
	Err error
}

// detect returns the probe of the first dialect that has a value for at least one node, or nil, and the dialects tried before. A
// dialect is passed over if the server refuses its query, for its cost for example. An error means that the server could not be
// asked: nothing can be concluded from it.
//
// The longest window is asked first: it needs the fewest scrapes a minute. Where it has no value, because Prometheus has not run
// for long enough for example, the shortest may have one.
func detect(ctx context.Context, qr *querier, p *planner, windows []time.Duration) (taken *queryResult, tried []TriedDialect, err error) {
	shortest, longest := windows[0], windows[len(windows)-1]
	for _, window := range slices.Compact([]time.Duration{longest, shortest}) {
		tried = nil
		for _, dialect := range autoOrder() {
			q := p.probe(dialect, window)
			result := qr.query(ctx, &q)
			reason := result.err
			if refused, ok := errors.AsType[*queryError](result.err); ok {
				reason = refused
			} else if result.err != nil {
				return nil, nil, result.err
			}
			switch {
			case reason == nil && result.nodes > 0:
				return result, tried, nil
			case reason == nil:
				reason = result.emptiness()
			}
			tried = append(tried, TriedDialect{Dialect: dialect, Err: reason})
		}
	}
	return nil, tried, nil
}

// dialectEmpty reports whether the dialect's means of the probed resource have values for no node, and none of them failed.
func (p *planner) dialectEmpty(results []*queryResult) bool {
	for _, r := range results {
		q := r.query
		if q.dialect != "" && q.kind == mean && q.resource == p.probed() && (r.err != nil || r.nodes > 0) {
			return false
		}
	}
	return p.needsDialect()
}

// detectDialect takes the dialect that detect finds, or none if it finds none. If the server cannot be asked, the dialect in use
// stays.
func (s *Source) detectDialect(ctx context.Context, qr *querier, windows []time.Duration) error {
	taken, tried, err := detect(ctx, qr, &s.planner, windows)
	if err != nil {
		return err
	}
	s.tried = tried
	if taken == nil {
		s.dialect = ""
		reasons := make([]string, len(tried))
		for i, t := range tried {
			reasons[i] = fmt.Sprintf("%s: %s", t.Dialect, text.Excerpt(t.Err.Error()))
		}
		return fmt.Errorf("no series hold the load of nodes at %s: check that it scrapes the nodes, or set dialect, queries or nodeLabels: tried %s",
			s.client.endpoint, strings.Join(reasons, "; "))
	}
	if dialect := taken.query.dialect; dialect != s.dialect {
		if logger, ok := s.dialectLog.Allow(qr.logger, s.clock.Now()); ok {
			logger.Info("Reading the load of nodes from Prometheus", "address", s.client.endpoint, "dialect", dialect,
				"nodesMeasured", taken.nodes, "nodeCount", len(qr.matcher.nodes))
		}
		s.dialect = dialect
	}
	return nil
}
