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

// detect probes the dialects in order. It returns the probe of the dialect to use, or nil, and the dialects that it passed over.
// It passes over a dialect whose query the server refuses. An error means that the server failed, which allows no conclusion.
//
// It takes the first dialect that measures at least half as many nodes as the best. Otherwise a few series could decide for all
// nodes, and anyone can make Prometheus scrape some. It counts nodes by the first of these tiers, unless the next has over twice as
// many.
//   - targets in the network of their nodes, where tenants' pods are not;
//   - all targets that are shown to be on their nodes;
//   - these, and series without a target;
//   - all series, if the other tiers are empty.
//
// It tries the longest window first, which needs the fewest scrapes a minute, and then the shortest. It returns only the reasons
// for the shortest.
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

// probe probes the dialects. It stops at the first that measures half of all nodes by targets in their network. No later dialect
// can measure more than twice as many.
func probe(ctx context.Context, qr *response.Querier, p *promql.Planner, window time.Duration,
) (probes []*response.Result, err error) {
	for _, dialect := range promql.Dialects() {
		q := p.Probe(dialect, window)
		r := qr.Run(ctx, &q)
		if _, refused := errors.AsType[*response.RefusedError](r.Err); r.Err != nil && !refused && !source.IsTooLarge(r.Err) {
			return nil, r.Err
		}
		if probes = append(probes, r); r.OnHost > 0 && 2*r.OnHost >= len(qr.Matcher.Nodes) {
			break
		}
	}
	return probes, nil
}

// best returns the probe that firstOf chooses, or nil if no probe has a node.
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
// Nodes are counted by the tiers of detect.
func firstOf(coverages []response.Coverage) int {
	pick := func(nodesOf func(response.Coverage) int) (largest, index int) {
		for _, c := range coverages {
			largest = max(largest, nodesOf(c))
		}
		index = slices.IndexFunc(coverages, func(c response.Coverage) bool { return largest > 0 && 2*nodesOf(c) >= largest })
		return largest, index
	}
	nodes, index := pick(func(c response.Coverage) int { return c.OnHost })
	for _, tier := range []func(response.Coverage) int{
		func(c response.Coverage) int { return c.Proven },
		func(c response.Coverage) int { return c.Proven + c.Untargeted },
	} {
		if more, at := pick(tier); 2*nodes < more {
			nodes, index = more, at
		}
	}
	if index < 0 {
		_, index = pick(func(c response.Coverage) int { return c.Nodes })
	}
	return index
}

// suffices reports whether firstOf prefers a coverage to another.
func suffices(c, other response.Coverage) bool { return firstOf([]response.Coverage{c, other}) == 0 }

// passedOver returns why detect passed over the dialect of a probe.
func passedOver(r *response.Result) error {
	if refused, ok := errors.AsType[*response.RefusedError](r.Err); ok {
		return refused
	}
	if source.IsTooLarge(r.Err) {
		return errors.New("the response is too large: set metricProvider.selector")
	}
	if r.Nodes > 0 {
		return fmt.Errorf("another dialect is better: this one measures %d nodes, %d by targets on the node, %d in its network",
			r.Nodes, r.Proven, r.OnHost)
	}
	return r.EmptyReason()
}

// coverageOf returns the result with most nodes, among the means of the probed resource. It returns nil if one of them failed.
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

// dialectHold delays the switch to another dialect that measures far fewer nodes than before. After an outage, a few stray series
// may return before the series of all nodes. It is the default of maxAge, for which nodes keep their load.
const dialectHold = 5 * time.Minute

// covered is the coverage that Auto's dialects had.
type covered struct {
	// nodes has each node's coverage, by name.
	nodes map[string]response.Coverage
	// dialect last measured half of nodes, at confirmed.
	dialect   promql.Dialect
	confirmed time.Time
}

// total returns the coverage of the nodes that still exist.
func (c *covered) total(nodes []*corev1.Node) (all response.Coverage) {
	for _, node := range nodes {
		all.Add(c.nodes[node.Name])
	}
	return all
}

// update replaces the coverage with the result's, unless the result has less than half of the nodes before. Nodes without a value
// keep their coverage.
func (c *covered) update(r *response.Result, nodes []*corev1.Node, at time.Time) {
	if !suffices(r.Coverage, c.total(nodes)) {
		return
	}
	all := make(map[string]response.Coverage, len(nodes))
	for i, node := range nodes {
		if all[node.Name] = r.Values[i].Coverage(); !r.Values[i].Known {
			all[node.Name] = c.nodes[node.Name]
		}
	}
	c.nodes, c.dialect, c.confirmed = all, r.Query.Dialect, at
}

// fallsShort reports whether a coverage has less than half of the nodes, or of the nodes measured before.
func (s *Source) fallsShort(c response.Coverage, nodes []*corev1.Node) bool {
	return 2*c.Nodes < len(nodes) || !suffices(c, s.covered.total(nodes))
}

// detectDialect switches to the dialect that detect finds, or to none. It keeps the dialect in use, with coverage current, if one
// of these holds.
//   - The server fails.
//   - current has at least half as many nodes as the found dialect.
//   - The found dialect measures less than half of the nodes that another one measured within dialectHold.
func (s *Source) detectDialect(
	ctx context.Context, qr *response.Querier, windows []time.Duration, current response.Coverage,
) error {
	taken, tried, err := detect(ctx, qr, &s.planner, windows)
	switch {
	case err != nil:
		return err
	case current.Nodes > 0 && (taken == nil || suffices(current, taken.Coverage)):
		return nil
	case taken != nil && taken.Query.Dialect != s.covered.dialect && !suffices(taken.Coverage, s.covered.total(qr.Matcher.Nodes)) &&
		s.clock.Since(s.covered.confirmed) < dialectHold:
		tried = append(tried, diagnosis.Tried{Dialect: taken.Query.Dialect, Err: fmt.Errorf(
			"it measures %d nodes, less than half of those before, and is not used for %v", taken.Nodes, dialectHold)})
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
