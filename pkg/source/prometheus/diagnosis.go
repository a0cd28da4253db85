package prometheus

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// notableSkew is how far the server's clock may be from ours before it is logged.
	notableSkew = 10 * time.Second
	// matchExamples is how many examples of matched series a Diagnosis has.
	matchExamples = 5
)

// Diagnosis is what one Fetch found out about a Prometheus and its series. It must not be changed.
type Diagnosis struct {
	// Endpoint is the URL that was queried, without credentials.
	Endpoint string
	// Dialect is the dialect in use; empty while Auto has found none.
	Dialect Dialect
	// Tried are the dialects that Auto passed over when it last looked for one, in the order of trial.
	Tried []TriedDialect
	// Undetected is why Auto found no dialect in this Fetch; nil if it found one or had no need to look.
	Undetected error
	// Queries are all queries but those by which Auto looked for a dialect.
	Queries []QueryDiagnosis
	// NodeCount is the number of Nodes.
	NodeCount int
	// NodesWithoutSeries are the names of the Nodes without load, sorted; empty if no load was asked for.
	NodesWithoutSeries []string
	// Matches are a few of the series that belong to a Node.
	Matches []Match
	// UnmatchedSeries are the distinct series that belong to no Node, by the labels that may name one, sorted. There are at most
	// source.MaxUnmatched of them for each query.
	UnmatchedSeries []string
	// SampleAges are the ages of the Nodes' newest samples.
	SampleAges SampleAges
	// Skew is the greatest difference between the time at which a query was evaluated, by the server's clock, and the time at
	// which its response was received, by ours. It is positive if the server is ahead; a negative one includes the time that
	// the response took.
	Skew time.Duration
	// ClocksDiffer reports whether Skew is too great for a slow response: the clocks differ, or a cache answers.
	ClocksDiffer bool
}

// QueryDiagnosis is what one query returned.
type QueryDiagnosis struct {
	// Query says what was asked for; PromQL is how.
	Query, PromQL string
	// Series is the number of series in the response, Matched that of the series that belong to a Node, and Nodes that of the
	// Nodes that have a value.
	Series, Matched, Nodes int
	// Highest is the highest value, and HighestNode the name of the Node that has it; empty if no Node has a number.
	Highest     float64
	HighestNode string
	// Err is why no Node has a value; nil if at least one has.
	Err error
	// Warnings are those of the server.
	Warnings []string
}

// Match is a series, by the labels that may name a node, and the name of the Node that it belongs to.
type Match struct{ Series, Node string }

// SampleAges are the ages of the newest sample of each Node when the query for them was evaluated, by the server's clock.
type SampleAges struct {
	// Nodes is the number of Nodes for which the time of the newest sample is known.
	Nodes            int
	Youngest, Oldest time.Duration
}

// Diagnosis returns what the last Fetch found out, whether it failed or not. It is zero before the first response.
func (s *Source) Diagnosis() Diagnosis { return s.diagnosis }

// diagnose returns the diagnosis of a Fetch with the given results; load reports whether load was asked for.
func (s *Source) diagnose(m *matcher, results []*queryResult, load bool, undetected error) Diagnosis {
	d := Diagnosis{
		Endpoint: s.client.endpoint, Dialect: s.dialect, Tried: s.tried, Undetected: undetected,
		NodeCount: len(m.nodes), SampleAges: sampleAges(find(results, newestSample)),
	}
	unmatched := map[string]struct{}{}
	measured := make([]bool, len(m.nodes))
	for _, r := range results {
		q := QueryDiagnosis{
			Query: r.query.String(), PromQL: r.query.promql,
			Series: r.series, Matched: r.matched, Nodes: r.nodes, Err: r.problem(), Warnings: r.warnings,
		}
		for i, v := range r.values {
			if v.known && (q.HighestNode == "" && !math.IsNaN(v.value) || v.value > q.Highest) {
				q.Highest, q.HighestNode = v.value, m.nodes[i].Name
			}
		}
		d.Queries = append(d.Queries, q)
		maps.Copy(unmatched, r.unmatched)
		if len(r.matches) > len(d.Matches) {
			d.Matches = r.matches
		}
		for i, v := range r.values {
			measured[i] = measured[i] || v.known && r.query.kind == mean
		}
		if skew := r.evaluated.Sub(r.received); r.series > 0 && skew.Abs() > d.Skew.Abs() {
			d.Skew = skew
		}
	}
	for i, node := range m.nodes {
		if load && !measured[i] {
			d.NodesWithoutSeries = append(d.NodesWithoutSeries, node.Name)
		}
	}
	slices.Sort(d.NodesWithoutSeries)
	d.UnmatchedSeries = slices.Sorted(maps.Keys(unmatched))
	// A response may take as long as the timeout: only what is beyond is a difference of clocks.
	d.ClocksDiffer = d.Skew > notableSkew || d.Skew < -notableSkew-s.timeout
	return d
}

// sampleAges returns the ages from the result of a newestSample query, which may be nil.
func sampleAges(newest *queryResult) SampleAges {
	var ages SampleAges
	if newest == nil {
		return ages
	}
	for i := range newest.values {
		at, ok := newest.sampleTime(i)
		if !ok {
			continue
		}
		age := newest.evaluated.Sub(at)
		if ages.Nodes == 0 {
			ages.Youngest, ages.Oldest = age, age
		}
		ages.Nodes++
		ages.Youngest, ages.Oldest = min(ages.Youngest, age), max(ages.Oldest, age)
	}
	return ages
}

// failing returns the names of what has no value for any node, and the first reason.
func (d *Diagnosis) failing() (queries []string, first error) {
	if d.Undetected != nil {
		queries, first = append(queries, "dialect"), d.Undetected
	}
	for i := range d.Queries {
		if q := &d.Queries[i]; q.Err != nil {
			queries, first = append(queries, q.Query), cmp.Or(first, q.Err)
		}
	}
	return queries, first
}

// warnings returns the distinct warnings, sorted.
func (d *Diagnosis) warnings() []string {
	var all []string
	for i := range d.Queries {
		all = append(all, d.Queries[i].Warnings...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// diagnosisLog is what the log says of a source, and how often it may say something else: what a server responds may change at
// each refresh.
type diagnosisLog struct {
	failing, warnings   []string
	nodesWithoutSeries  []string
	unmatchedSeries     []string
	clocksDiffer        bool
	queries, notices    source.LogLimit
	matching, clockSkew source.LogLimit
}

// log logs what differs from what was logged last.
func (l *diagnosisLog) log(logger klog.Logger, now time.Time, d *Diagnosis) {
	l.logQueries(logger, now, d)
	l.logMatching(logger, now, d)
	if d.ClocksDiffer == l.clocksDiffer {
		return
	}
	if logger, ok := l.clockSkew.Allow(logger, now); ok {
		l.clocksDiffer = d.ClocksDiffer
		if d.ClocksDiffer {
			logger.Info("Prometheus evaluates queries at another time than now: check both clocks, or caches in between", "difference", d.Skew)
		} else {
			logger.Info("Prometheus evaluates queries at the present time again")
		}
	}
}

func (l *diagnosisLog) logQueries(logger klog.Logger, now time.Time, d *Diagnosis) {
	if failing, err := d.failing(); !slices.Equal(failing, l.failing) {
		if logger, ok := l.queries.Allow(logger, now); ok {
			l.failing = failing
			if err == nil {
				logger.Info("All queries to Prometheus are answered again")
			} else {
				logger.Error(err, "Part of what is asked for cannot be read from Prometheus", "queries", text.FirstN(failing))
			}
		}
	}
	if warnings := d.warnings(); !slices.Equal(warnings, l.warnings) {
		if logger, ok := l.notices.Allow(logger, now); ok {
			l.warnings = warnings
			logger.V(4).Info("Prometheus warns", "warnings", text.FirstN(warnings))
		}
	}
}

func (l *diagnosisLog) logMatching(logger klog.Logger, now time.Time, d *Diagnosis) {
	// Which series belong to no Node is the server's to change at each refresh: only whether there are any is always logged.
	important := (len(d.UnmatchedSeries) > 0) != (len(l.unmatchedSeries) > 0) || !slices.Equal(d.NodesWithoutSeries, l.nodesWithoutSeries)
	if !important && slices.Equal(d.UnmatchedSeries, l.unmatchedSeries) {
		return
	}
	if important {
		var ok bool
		if logger, ok = l.matching.Allow(logger, now); !ok {
			return
		}
	} else {
		logger = logger.V(2)
	}
	l.nodesWithoutSeries, l.unmatchedSeries = d.NodesWithoutSeries, d.UnmatchedSeries
	logger.Info("Matching series of Prometheus to nodes", "nodeCount", d.NodeCount,
		"nodesWithoutSeries", len(d.NodesWithoutSeries), "nodes", text.FirstN(d.NodesWithoutSeries),
		"seriesWithoutNode", len(d.UnmatchedSeries), "series", text.FirstN(d.UnmatchedSeries))
}
