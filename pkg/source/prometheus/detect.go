package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// detect probes the dialects in order. It returns the probe of the dialect to use, or nil, and the dialects that it passed over.
// It passes over a dialect whose query the server refuses. An error means that the server failed, which allows no conclusion.
//
// It takes the first dialect that measures at least half as many nodes as the best. Nodes count that a target with their own
// address or name measures, if these are half of the most that any dialect measures. Otherwise all nodes count.
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

// probe probes the dialects. It stops at the first that measures half of all nodes by their own address or name. No later dialect
// can measure more than twice as many.
func probe(ctx context.Context, qr *response.Querier, p *promql.Planner, window time.Duration,
) (probes []*response.Result, err error) {
	for _, dialect := range promql.Dialects() {
		q := p.Probe(dialect, window)
		r := qr.Probe(ctx, &q)
		if r.Err != nil && (!isRefused(r) || isBusy(r.Err)) {
			return nil, r.Err
		}
		if probes = append(probes, r); r.Own > 0 && 2*r.Own >= len(qr.Matcher.Nodes) {
			break
		}
	}
	return probes, nil
}

func isRefused(r *response.Result) bool {
	_, refused := errors.AsType[*response.RefusedError](r.Err)
	return refused || source.IsTooLarge(r.Err)
}

// isBusy reports whether the server failed for now, so that its refusal says nothing of the query.
func isBusy(err error) bool {
	status, ok := errors.AsType[*httpclient.StatusError](err)
	return ok && (status.Code == http.StatusTooManyRequests || status.Code >= http.StatusInternalServerError)
}

func best(probes []*response.Result) *response.Result {
	own, nodes := 0, 0
	for _, r := range probes {
		own, nodes = max(own, r.Own), max(nodes, r.Named())
	}
	for _, r := range probes {
		if own > 0 && 2*own >= nodes && 2*r.Own >= own || 2*own < nodes && 2*r.Named() >= nodes {
			return r
		}
	}
	return nil
}

func passedOver(r *response.Result) error {
	if refused, ok := errors.AsType[*response.RefusedError](r.Err); ok {
		return refused
	}
	if source.IsTooLarge(r.Err) {
		return errors.New("the response is too large: set metricProvider.selector")
	}
	if r.Named() > 0 {
		return fmt.Errorf("another dialect is better: this one measures %d nodes, %d of them by their own address or name",
			r.Named(), r.Own)
	}
	return r.EmptyReason()
}

func coverageOf(p *promql.Planner, results []*response.Result) (most *response.Result) {
	for _, r := range results {
		if q := r.Query; q.Dialect == "" || q.Kind != promql.Mean || q.Resource != p.Probed() {
			continue
		}
		if r.Err != nil {
			return nil
		}
		if most == nil || r.Named() > most.Named() {
			most = r
		}
	}
	return most
}

// detectDialect switches to the dialect that detect finds, or to none. It keeps the dialect in use, whose result is current, if the
// server fails, or if current has at least half as many nodes as the found dialect.
func (s *Source) detectDialect(ctx context.Context, qr *response.Querier, windows []time.Duration, current *response.Result) error {
	taken, tried, err := detect(ctx, qr, &s.planner, windows)
	if err != nil {
		return err
	}
	if current != nil && current.Named() > 0 && (taken == nil || best([]*response.Result{current, taken}) == current) {
		return nil
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
		s.dialect, s.others, s.fetches = dialect, nil, 0
	}
	return nil
}

func (s *Source) dialects() []promql.Dialect {
	if s.dialect == "" {
		return nil
	}
	return slices.Concat([]promql.Dialect{s.dialect}, s.others)
}

const (
	// fetchesPerLook is the number of Fetches between two looks for dialects of nodes that are not measured.
	fetchesPerLook = 10
	// patience is the number of Fetches that a node keeps its dialect while that does not measure it. Dialects measure memory
	// differently: a node's load should not jump while an exporter restarts.
	patience = 3
)

type choice struct {
	dialect promql.Dialect
	missed  int
}

// preferred returns the dialect that each node keeps, by position; empty where any dialect may measure the node. Before a look,
// nodes of further dialects may return to the first.
func (s *Source) preferred(m *response.Matcher) []promql.Dialect {
	only, inUse := make([]promql.Dialect, len(m.Nodes)), s.dialects()
	for i, node := range m.Nodes {
		if c, ok := s.chosen[node.Name]; ok && c.missed < patience && slices.Contains(inUse, c.dialect) &&
			(c.dialect == s.dialect || s.fetches < fetchesPerLook) {
			only[i] = c.dialect
		}
	}
	return only
}

func (s *Source) choose(results []*response.Result, m *response.Matcher) {
	last := s.chosen
	s.chosen = make(map[string]choice, len(m.Nodes))
	for i, d := range dialectsOf(results, m) {
		name := m.Nodes[i].Name
		if c, ok := last[name]; ok && d == "" {
			s.chosen[name] = choice{c.dialect, c.missed + 1}
		} else if d != "" {
			s.chosen[name] = choice{dialect: d}
		}
	}
}

func lacksMean(r *response.Result) bool {
	return r.Err != nil && r.Query.Kind == promql.Mean && r.Query.Fraction == 0
}

// widen adds dialects for nodes that none in use measures, and drops those that measure no node. It reports whether it added one.
// It looks at the first Fetch and then once in several, where no mean failed: a failed query says nothing of a dialect.
func (s *Source) widen(ctx context.Context, qr *response.Querier, window time.Duration, results []*response.Result) bool {
	first := s.fetches == 0
	if s.fetches++; s.dialect == "" || !first && s.fetches <= fetchesPerLook || slices.ContainsFunc(results, lacksMean) {
		return false
	}
	s.fetches = 1
	dialects, missing := dialectsOf(results, qr.Matcher), map[int]bool{}
	for i, d := range dialects {
		if d == "" && !slices.ContainsFunc(results, func(r *response.Result) bool { return r.IsContested(i) }) {
			missing[i] = true
		}
	}
	s.others = slices.DeleteFunc(s.others, func(d promql.Dialect) bool { return !slices.Contains(dialects, d) })
	before := len(s.others)
	for _, d := range promql.Dialects() {
		if len(missing) == 0 {
			break
		}
		if slices.Contains(s.dialects(), d) {
			continue
		}
		q, found := s.planner.Probe(d, window), false
		for i, v := range qr.Probe(ctx, &q).Values {
			if v.Known && missing[i] {
				found = true
				delete(missing, i)
			}
		}
		if found {
			s.others = append(s.others, d)
			klog.FromContext(ctx).Info("Reading the load of further nodes from Prometheus", "dialect", d)
		}
	}
	return len(s.others) > before
}
