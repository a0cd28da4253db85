package prometheus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	coverages := make([]response.Coverage, len(probes))
	for i, r := range probes {
		coverages[i] = r.Coverage
	}
	if i := firstOf(coverages); i >= 0 {
		return probes[i]
	}
	return nil
}

// firstOf returns the index of the first coverage with at least half as many nodes as the largest. It is -1 if none has a node.
func firstOf(coverages []response.Coverage) int {
	first := func(nodesOf func(response.Coverage) int) (most, taken int) {
		for _, c := range coverages {
			most = max(most, nodesOf(c))
		}
		taken = slices.IndexFunc(coverages, func(c response.Coverage) bool { return most > 0 && 2*nodesOf(c) >= most })
		return most, taken
	}
	most, taken := first(func(c response.Coverage) int { return c.OnHost })
	if shown, byShown := first(func(c response.Coverage) int { return c.Shown }); 2*most < shown {
		most, taken = shown, byShown
	}
	if likely, byLikely := first(func(c response.Coverage) int { return c.Shown + c.Untargeted }); 2*most < likely {
		taken = byLikely
	}
	if taken < 0 {
		_, taken = first(func(c response.Coverage) int { return c.Nodes })
	}
	return taken
}

// holds reports whether a coverage has at least half of the nodes of another.
func holds(now, other response.Coverage) bool { return firstOf([]response.Coverage{now, other}) == 0 }

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

// coverageOf returns the mean of the probed resource with values for the most nodes. It returns nil if one failed.
func coverageOf(p *promql.Planner, results []*response.Result) (most *response.Result) {
	for _, r := range results {
		if q := r.Query; q.Dialect == "" || q.Kind != promql.Mean || q.Resource != p.Probed() {
			continue
		}
		if r.Err != nil {
			return nil
		}
		if most == nil || r.Nodes > most.Nodes {
			most = r
		}
	}
	return most
}

// dialectHold is how long a dialect that measures far fewer nodes than before is not taken. It is the default of maxAge:
// nodes have load of the dialect before until then. A few stray series may be there before those of all nodes return.
const dialectHold = 5 * time.Minute

// covered are the nodes that Auto's dialects measured.
type covered struct {
	// nodes has the coverage of each node by name.
	nodes map[string]response.Coverage
	// held is when the dialect last measured half of them.
	held time.Time
}

// of returns the coverage of the nodes that still exist.
func (c *covered) of(nodes []*corev1.Node) (all response.Coverage) {
	for _, node := range nodes {
		all.Add(c.nodes[node.Name])
	}
	return all
}

// update adds the nodes of a result, unless it has less than half of those before.
func (c *covered) update(r *response.Result, nodes []*corev1.Node, at time.Time) {
	if !holds(r.Coverage, c.of(nodes)) {
		return
	}
	all := make(map[string]response.Coverage, len(nodes))
	for i, node := range nodes {
		if all[node.Name] = r.Values[i].Coverage(); !r.Values[i].Known {
			all[node.Name] = c.nodes[node.Name]
		}
	}
	c.nodes, c.held = all, at
}

// fallsShort reports whether a dialect measures less than half of the nodes, or of the nodes measured before.
func (s *Source) fallsShort(now response.Coverage, nodes []*corev1.Node) bool {
	return 2*now.Nodes < len(nodes) || !holds(now, s.covered.of(nodes))
}

// detectDialect takes the dialect that detect finds, or none. The dialect in use stays in these cases:
//   - The server fails.
//   - It measures half as many nodes as the one found; now is what it measures.
//   - The one found measures less than half of the nodes measured before, within dialectHold.
func (s *Source) detectDialect(ctx context.Context, qr *response.Querier, windows []time.Duration, now response.Coverage) error {
	taken, tried, err := detect(ctx, qr, &s.planner, windows)
	switch {
	case err != nil:
		return err
	case now.Nodes > 0 && (taken == nil || holds(now, taken.Coverage)):
		return nil
	case taken != nil && !holds(taken.Coverage, s.covered.of(qr.Matcher.Nodes)) && s.clock.Since(s.covered.held) < dialectHold:
		tried = append(tried, diagnosis.Tried{Dialect: taken.Query.Dialect, Err: passedOver(taken)})
		taken = nil
		if s.dialect != "" {
			s.tried = tried
			return nil
		}
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
