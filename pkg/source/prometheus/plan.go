package prometheus

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// kind is what a query returns of each node.
type kind int

const (
	// mean and stdDev are statistics of a resource over a window. A quantile is a mean with a fraction.
	mean kind = iota
	stdDev
	// newestSample is the time of the newest sample that load is read from, in seconds since 1970.
	newestSample
	nodeMetric
)

type query struct {
	kind   kind
	promql string
	// resource and window are those of a statistic; newestSample has a resource alone.
	resource load.Resource
	window   time.Duration
	// fraction is that of a quantile, in (0, 1]; 0 for other queries.
	fraction float64
	// dialect is empty for the operator's own query.
	dialect Dialect
	// overCapacity, span and reads are as in expression.
	overCapacity bool
	reads        []readTime
	span         time.Duration
}

// String returns what errors and logs call the query.
func (q *query) String() string {
	origin := "own query"
	if q.dialect != "" {
		origin = "dialect " + string(q.dialect)
	}
	switch q.kind {
	case nodeMetric:
		return fmt.Sprintf("metric %q", text.Excerpt(q.promql))
	case newestSample:
		return fmt.Sprintf("time of the newest sample of %s (%s)", q.resource, origin)
	case stdDev:
		return fmt.Sprintf("standard deviation of %s over %s (%s)", q.resource, model.Duration(q.window), origin)
	}
	if q.fraction > 0 {
		return fmt.Sprintf("%s-quantile of %s over %s (%s)", format(q.fraction), q.resource, model.Duration(q.window), origin)
	}
	return fmt.Sprintf("mean of %s over %s (%s)", q.resource, model.Duration(q.window), origin)
}

// planner decides which queries to ask.
type planner struct {
	// own are the operator's queries by resource; an empty one leaves the resource to the dialect.
	own [load.ResourceCount]string
	// by are the labels that may name a node, as PromQL lists them.
	by string
}

// needsDialect reports whether the operator's own queries leave a resource to the dialect.
func (p *planner) needsDialect() bool { return slices.Contains(p.own[:], "") }

// probed is the resource by which a dialect is chosen: cpu, unless the operator has an own query for it.
func (p *planner) probed() load.Resource {
	if p.own[load.CPU] != "" {
		return load.Memory
	}
	return load.CPU
}

// probe returns the query that shows whether there are series of the dialect.
func (p *planner) probe(d Dialect, window time.Duration) query {
	e := d.expression(p.probed(), p.by, samplingOf(window))
	return statistics(e, p.probed(), window, d)[mean]
}

// load returns the queries for the load over all windows, and for the quantiles; both are sorted. Without a dialect they are the
// operator's own. Means come before quantiles, and these before deviations: they matter more. The time of the newest sample comes first, so that it is seldom later than
// the samples that a mean is read from.
func (p *planner) load(d Dialect, windows []time.Duration, quantiles []load.Quantile) []query {
	var means, deviations []query
	for _, window := range windows {
		for r := range load.ResourceCount {
			var e expression
			origin := d
			switch own := p.own[r]; {
			case own != "":
				e, origin = ownExpression(own, samplingOf(window)), ""
			case d != "":
				e = d.expression(r, p.by, samplingOf(window))
			default:
				continue
			}
			both := statistics(e, r, window, origin)
			means, deviations = append(means, both[mean]), append(deviations, both[stdDev])
		}
	}
	for _, q := range quantiles {
		for r := range load.ResourceCount {
			s, origin := samplingOf(q.Window), d
			var e expression
			switch own := p.own[r]; {
			case own != "":
				e, origin = ownQuantile(own, s, q.Fraction), ""
			case d != "":
				e = d.quantile(r, p.by, s, q.Fraction)
			default:
				continue
			}
			quantile := statistics(e, r, q.Window, origin)[mean]
			quantile.fraction = q.Fraction
			means = append(means, quantile)
		}
	}
	return slices.Concat(p.newestSample(d, shortestOf(windows, quantiles)), means, deviations)
}

// shortestOf returns the shortest window of load and quantiles, which are sorted and not both empty.
func shortestOf(windows []time.Duration, quantiles []load.Quantile) time.Duration {
	if len(windows) > 0 {
		return windows[0]
	}
	return quantiles[0].Window
}

// newestSample returns the query for the time of the newest samples of cpu, or else of memory: a refresh has only one for both.
// It returns none where the operator's own queries do not allow it.
func (p *planner) newestSample(d Dialect, window time.Duration) []query {
	for r := range load.ResourceCount {
		q := query{kind: newestSample, resource: r}
		if own := p.own[r]; own != "" {
			q.promql = ownNewestSample(own, model.Duration(window))
		} else if d != "" {
			q.promql, q.dialect = d.newestSample(r, p.by), d
		}
		if q.promql != "" {
			return []query{q}
		}
	}
	return nil
}

// statistics returns the queries of an expression, by kind.
func statistics(e expression, r load.Resource, window time.Duration, d Dialect) [2]query {
	common := query{resource: r, window: window, dialect: d, overCapacity: e.overCapacity, span: e.span, reads: e.reads}
	both := [2]query{mean: common, stdDev: common}
	both[mean].kind, both[mean].promql = mean, e.mean
	both[stdDev].kind, both[stdDev].promql = stdDev, e.stdDev
	return both
}

func nodeMetricQueries(expressions []string) []query {
	queries := make([]query, len(expressions))
	for i, expression := range expressions {
		queries[i] = query{kind: nodeMetric, promql: expression}
	}
	return queries
}
