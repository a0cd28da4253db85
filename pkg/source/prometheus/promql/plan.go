package promql

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Kind is what a query returns for each node.
type Kind int

// The kinds.
const (
	Mean Kind = iota // or a quantile, if the query has a Fraction
	StdDev
	// NewestSample is the time of the newest sample that load is read from, in seconds since 1970.
	NewestSample
	NodeMetric
	// ServerTime is the time for which the server evaluates queries. VictoriaMetrics stamps values of thirty seconds ago with now.
	ServerTime
)

// Query is one instant query.
type Query struct {
	Kind   Kind
	PromQL string
	// Resource is unset for a NodeMetric. Only Mean and StdDev have a Window.
	Resource load.Resource
	Window   time.Duration
	Fraction float64 // in (0, 1]; 0 for other queries
	Reading
	// Others are the readings of further dialects, for nodes that the first lacks. Their series have the label DialectLabel.
	Others []Reading
}

// Reading says what a dialect's values are.
type Reading struct {
	// Dialect is empty for a custom query and for a NodeMetric.
	Dialect Dialect
	// OverCapacity reports that the result is an amount (cores, bytes), to be divided by the node's capacity, and no fraction.
	OverCapacity bool
	// Span is the measured span where it differs from the window, otherwise 0.
	Span time.Duration
}

// DialectLabel is a label that queries give to the series of all dialects but the first.
const DialectLabel = "plimsoll_dialect"

// ReadingOf returns the reading of a dialect, and its place in the order of preference. It returns the first reading for "".
func (q *Query) ReadingOf(d Dialect) (reading *Reading, order int) {
	for i := range q.Others {
		if q.Others[i].Dialect == d {
			return &q.Others[i], 1 + i
		}
	}
	return &q.Reading, 0
}

func (d Dialect) or(query, further string) string {
	return fmt.Sprintf(`%s or label_replace(%s, "%s", "%s", "", "")`, query, further, DialectLabel, d)
}

// Custom reports whether the operator wrote the query for a resource.
func (q Query) Custom() bool { return q.Kind != NodeMetric && q.Dialect == "" }

// String returns the query's name for errors and logs.
func (q Query) String() string {
	switch q.Kind {
	case NodeMetric:
		return fmt.Sprintf("metric %q", text.Excerpt(q.PromQL))
	case ServerTime:
		return "time of the server"
	case NewestSample:
		return fmt.Sprintf("time of the newest sample of %s (%s)", q.Resource, q.origin())
	case StdDev:
		return "standard deviation of " + q.Statistic()
	}
	if q.Fraction > 0 {
		return format(q.Fraction) + "-quantile of " + q.Statistic()
	}
	return "mean of " + q.Statistic()
}

// Statistic returns the name of what is measured, such as "cpu over 5m (dialect Kubelet)".
func (q Query) Statistic() string {
	return fmt.Sprintf("%s over %s (%s)", q.Resource, model.Duration(q.Window), q.origin())
}

func (q Query) origin() string {
	if q.Dialect == "" {
		return "custom query"
	}
	return "dialect " + string(q.Dialect)
}

// Planner decides which queries to send.
type Planner struct {
	// Custom are the operator's queries by resource; an empty one leaves the resource to the dialect.
	Custom   [load.ResourceCount]string
	By       Labels
	Selector Selector
}

// NeedsDialect reports whether a resource has no custom query.
func (p *Planner) NeedsDialect() bool { return slices.Contains(p.Custom[:], "") }

// Probed returns the resource that selects the dialect: cpu, or memory where cpu has a custom query.
func (p *Planner) Probed() load.Resource {
	if p.Custom[load.CPU] != "" {
		return load.Memory
	}
	return load.CPU
}

// Probe returns the query that shows whether the dialect has series.
func (p *Planner) Probe(d Dialect, window time.Duration) Query {
	e := p.Selector.restrict(d.expression(p.Probed(), p.By, samplingOf(window)))
	return e.query(Mean, Query{Resource: p.Probed(), Window: window, Reading: Reading{Dialect: d}})
}

// Load returns the queries for all windows and quantiles, which are sorted. Without a dialect they are the custom ones. Further
// dialects add series, but no queries.
// Queries of the newest samples go first: so these are seldom later than the samples of a mean.
// Deviations matter least and go last.
func (p *Planner) Load(dialects []Dialect, windows []time.Duration, quantiles []load.Quantile) []Query {
	var means, deviations []Query
	for _, window := range windows {
		for r := range load.ResourceCount {
			if e, q, ok := p.expression(dialects, r, load.Quantile{Window: window}); ok {
				means, deviations = append(means, e.query(Mean, q)), append(deviations, e.query(StdDev, q))
			}
		}
	}
	for _, quantile := range quantiles {
		for r := range load.ResourceCount {
			if e, q, ok := p.expression(dialects, r, quantile); ok {
				means = append(means, e.query(Mean, q))
			}
		}
	}
	return slices.Concat(p.newestSample(dialects, Shortest(windows, quantiles)), means, deviations)
}

func (p *Planner) expression(dialects []Dialect, r load.Resource, of load.Quantile) (e expression, q Query, ok bool) {
	s, custom := samplingOf(of.Window), p.Custom[r]
	q = Query{Resource: r, Window: of.Window, Fraction: of.Fraction}
	switch {
	case custom != "" && of.Fraction > 0:
		return customQuantile(custom, s, of.Fraction), q, true
	case custom != "":
		return customExpression(custom, s), q, true
	}
	for i, d := range dialects {
		next := d.expression(r, p.By, s)
		if of.Fraction > 0 {
			next = d.quantile(r, p.By, s, of.Fraction)
		}
		if next = p.Selector.restrict(next); i == 0 {
			e, q.Dialect = next, d
			continue
		}
		e.mean, e.stdDev = d.or(e.mean, next.mean), d.or(e.stdDev, next.stdDev)
		q.Others = append(q.Others, Reading{Dialect: d, OverCapacity: next.overCapacity, Span: next.span})
	}
	return e, q, len(dialects) > 0
}

// Shortest returns the shortest window of load and quantiles, which are sorted and not both empty.
func Shortest(windows []time.Duration, quantiles []load.Quantile) time.Duration {
	if len(windows) > 0 {
		return windows[0]
	}
	return quantiles[0].Window
}

// newestSample returns the query for the newest samples of cpu, or else of memory: one query serves both.
// It returns none where a custom query does not allow it.
func (p *Planner) newestSample(dialects []Dialect, window time.Duration) []Query {
	for r := range load.ResourceCount {
		q := Query{Kind: NewestSample, Resource: r}
		if custom := p.Custom[r]; custom != "" {
			q.PromQL = customNewestSample(custom, model.Duration(window))
		} else {
			for i, d := range dialects {
				next := p.Selector.add(d.newestSample(r, p.By))
				if i == 0 {
					q.PromQL, q.Dialect = next, d
					continue
				}
				q.PromQL, q.Others = d.or(q.PromQL, next), append(q.Others, Reading{Dialect: d})
			}
		}
		if q.PromQL != "" {
			return []Query{q}
		}
	}
	return nil
}

// SampleSelector returns a selector with one series a node, whose samples date the load; empty if there is none.
func (p *Planner) SampleSelector(d Dialect) string {
	if p.Custom[load.Memory] == "" && d != "" {
		if selectors := d.Series(load.Memory); len(selectors) == 1 {
			return p.Selector.add(selectors[0])
		}
		return ""
	}
	for _, r := range []load.Resource{load.Memory, load.CPU} {
		if custom := p.Custom[r]; custom != "" && customNewestSample(custom, model.Duration(time.Minute)) != "" {
			return custom
		}
	}
	return ""
}

// Series returns the query for the dialect's series of a resource.
func (p *Planner) Series(d Dialect, r load.Resource) string {
	return p.Selector.add(FirstOf(d.Series(r), "%s"))
}

// CustomNow returns the operator's query of a resource over a window; empty if there is none.
func (p *Planner) CustomNow(r load.Resource, window time.Duration) string {
	return withWindow(p.Custom[r], model.Duration(window))
}

// CPUCounters returns a selector of the counters of cpu seconds behind the dialect's load; empty if none are known.
func (p *Planner) CPUCounters(d Dialect) string {
	if p.Custom[load.CPU] != "" || d == "" {
		return ""
	}
	of := definitions[d]
	if of.rule > 0 {
		of = definitions[NodeExporter] // which the rules follow from
	}
	if of.modes == "" {
		return p.Selector.add(of.series[load.CPU][0])
	}
	return p.Selector.add(of.allModes()) // of any mode: a busy node is never idle
}

// ByNode returns the query for an aggregate, such as max, of an expression by node.
func (p *Planner) ByNode(aggregate, expression string, args ...any) Query {
	return Query{Kind: NodeMetric, PromQL: fmt.Sprintf("%s by (%s) (%s)", aggregate, p.By, fmt.Sprintf(expression, args...))}
}

// ClusterLabels name the cluster of a series, where one server has several.
var ClusterLabels = []string{"cluster", "k8s_cluster_name", "cluster_name"}

// ByCluster returns the query for the series of each node and cluster; empty for custom queries.
func (p *Planner) ByCluster(d Dialect) string {
	if d == "" || p.Custom[load.Memory] != "" {
		return ""
	}
	return fmt.Sprintf("group by (%s, %s) (%s)", p.By, strings.Join(ClusterLabels, ", "), p.Series(d, load.Memory))
}

// Down is the query for the targets that cannot be scraped.
const Down = "up == 0"

// Scrapes is the query for a number that differs between servers with different times of scrapes. The order of targets does not
// change the number, unlike a sum over all.
const Scrapes = "max(timestamp(up)) + min(timestamp(up))"

// NodeMetrics returns the queries for NodeMetrics' expressions. The first is for the time of the server: nothing else dates their
// values, and those of custom queries without newest samples.
func (p *Planner) NodeMetrics(expressions []string) (queries []Query) {
	custom := p.Custom != [load.ResourceCount]string{}
	if len(expressions) > 0 || custom && len(p.newestSample(nil, time.Minute)) == 0 {
		queries = append(queries, Query{Kind: ServerTime, PromQL: "vector(time())"})
	}
	for _, expression := range expressions {
		queries = append(queries, Query{Kind: NodeMetric, PromQL: expression})
	}
	return queries
}
