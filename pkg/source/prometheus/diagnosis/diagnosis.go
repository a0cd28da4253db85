// Package diagnosis says what is wrong with a Prometheus and its series, as typed values.
package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// SkewTolerance is the difference of clocks above which they count as different.
const SkewTolerance = 10 * time.Second

// Diagnosis is the state of a Prometheus and its series in one Fetch. It must not be changed.
type Diagnosis struct {
	Endpoint string
	Dialect  promql.Dialect
	// Further are the nodes that other dialects measure, by dialect.
	Further map[string][]string
	// Tried are the dialects that Auto passed over when it last looked for one, in the order of trial.
	Tried []Tried
	// Undetected is an *UndetectedError or a failed query; nil if Auto found a dialect or did not look for one.
	Undetected error
	Queries    []QueryDiagnosis
	NodeCount  int
	// NodesWithoutSeries are the names of the Nodes without load, sorted; empty if the request has no load.
	NodesWithoutSeries []string
	// UnmatchedSeries are the distinct series without a Node, by the labels that may name one, sorted.
	// There are at most source.MaxUnmatched of them for each query.
	UnmatchedSeries []string
	Replaced        []source.Replaced
	Contested       []source.Contested
	SampleAges      SampleAges
	// Skew is the greatest difference between the server's time of an evaluation and this machine's time of the response.
	// It is positive if the server is ahead. A negative one includes the duration of the response.
	Skew time.Duration
	// ClocksDiffer reports whether Skew is more than a slow response explains: the clocks differ, or a cache answers.
	ClocksDiffer bool
}

// QueryDiagnosis is the outcome of one query.
type QueryDiagnosis struct {
	promql.Query
	// Series counts the series in the response, and Nodes the Nodes with a value.
	Series, Nodes int
	// Highest is the highest value, and HighestNode the name of its Node; empty if no Node has a number.
	Highest     float64
	HighestNode string
	Err         error
	Warnings    []string
	Partial     error
}

// Tried is a dialect that Auto tried and passed over.
type Tried struct {
	Dialect promql.Dialect
	Err     error
}

// UndetectedError is the error if Auto finds no dialect.
type UndetectedError struct {
	Endpoint string
	Tried    []Tried
}

func (e *UndetectedError) Error() string {
	return fmt.Sprintf("no series with the load of nodes at %s: scrape the nodes, or set dialect, queries or nodeLabels: tried %s",
		e.Endpoint, reasons(e.Tried))
}

// reasons lists the dialects, those that follow each other with the same reason together.
func reasons(tried []Tried) string {
	var groups, names []string
	for i, t := range tried {
		reason := text.Excerpt(t.Err.Error())
		names = append(names, string(t.Dialect))
		if i+1 == len(tried) || text.Excerpt(tried[i+1].Err.Error()) != reason {
			groups, names = append(groups, strings.Join(names, ", ")+": "+reason), nil
		}
	}
	return strings.Join(groups, "; ")
}

// SampleAges are the ages of each Node's newest sample when the query for them was evaluated, by the server's clock.
type SampleAges struct {
	Nodes            int
	Youngest, Oldest time.Duration
}

// New completes a diagnosis, which has Endpoint, Dialect, Tried and Undetected, with the results of a Fetch.
// asksLoad reports whether the request has load. A response takes at most timeout.
func New(d Diagnosis, m *response.Matcher, results []*response.Result, asksLoad bool, timeout time.Duration) Diagnosis {
	d.NodeCount, d.SampleAges = len(m.Nodes), sampleAges(response.Find(results, promql.NewestSample))
	unmatched := map[string]struct{}{}
	measured := make([]bool, len(m.Nodes))
	for _, r := range results {
		if r.Query.Kind == promql.ServerTime {
			continue
		}
		d.Queries = append(d.Queries, diagnose(r, m))
		for _, c := range r.Contested {
			if r.Query.Kind == promql.Mean {
				d.Contested = append(d.Contested, source.Contested{Node: m.Nodes[c.Position].Name, High: c.High.String(), Low: c.Low.String()})
			}
		}
		maps.Copy(unmatched, r.Unmatched)
		for i, v := range r.Values {
			measured[i] = measured[i] || v.Known && r.Query.Kind == promql.Mean
		}
		if skew := r.Evaluated.Sub(r.Received); r.Series > 0 && skew.Abs() > d.Skew.Abs() {
			d.Skew = skew
		}
	}
	slices.SortStableFunc(d.Contested, func(a, b source.Contested) int { return cmp.Compare(a.Node, b.Node) })
	d.Contested = slices.CompactFunc(d.Contested, func(a, b source.Contested) bool { return a.Node == b.Node })
	for i, node := range m.Nodes {
		if asksLoad && !measured[i] {
			d.NodesWithoutSeries = append(d.NodesWithoutSeries, node.Name)
		}
	}
	slices.Sort(d.NodesWithoutSeries)
	d.Replaced = replaced(m.Index, d.NodesWithoutSeries)
	d.UnmatchedSeries = slices.Sorted(maps.Keys(unmatched))
	d.ClocksDiffer = d.Skew > SkewTolerance || d.Skew < -SkewTolerance-timeout
	return d
}

func replaced(x *source.NodeIndex, without []string) []source.Replaced {
	all := slices.DeleteFunc(slices.Clone(x.Replaced()), func(r source.Replaced) bool { return !slices.Contains(without, r.Node) })
	slices.SortStableFunc(all, func(a, b source.Replaced) int { return cmp.Compare(a.Node, b.Node) })
	return slices.CompactFunc(all, func(a, b source.Replaced) bool { return a.Node == b.Node })
}

func diagnose(r *response.Result, m *response.Matcher) QueryDiagnosis {
	q := QueryDiagnosis{Query: *r.Query, Series: r.Series, Nodes: r.Nodes, Err: r.Problem(), Warnings: r.Warnings, Partial: r.Partial}
	for i, v := range r.Values {
		if v.Known && (q.HighestNode == "" && !math.IsNaN(v.Value) || v.Value > q.Highest) {
			q.Highest, q.HighestNode = v.Value, m.Nodes[i].Name
		}
	}
	return q
}

func sampleAges(newest *response.Result) SampleAges {
	var ages SampleAges
	if newest == nil {
		return ages
	}
	for i := range newest.Values {
		at, ok := newest.SampleTime(i)
		if !ok {
			continue
		}
		age := newest.Evaluated.Sub(at)
		if ages.Nodes == 0 {
			ages.Youngest, ages.Oldest = age, age
		}
		ages.Nodes++
		ages.Youngest, ages.Oldest = min(ages.Youngest, age), max(ages.Oldest, age)
	}
	return ages
}

// Log logs the problems of Diagnoses when they change, at a limited rate, because responses can change at each refresh.
type Log struct{ limit source.LogLimit }

// Changes logs the problems of a Diagnosis if they differ from the last logged ones.
func (l *Log) Changes(logger klog.Logger, now time.Time, d *Diagnosis) {
	problems, err := d.failing()
	if n := d.NodesWithoutSeries; len(n) > 0 {
		problems = append(problems, fmt.Sprintf("%s without series: %s", text.Count(len(n), "node"), text.FirstN(n)))
	}
	if len(d.UnmatchedSeries) > 0 {
		problems = append(problems, "series without a node")
	}
	if c := d.Contested; len(c) > 0 {
		problems = append(problems, fmt.Sprintf("target sets (%s and %s) differ about nodes, which are scored by what their pods "+
			"request: set metricProvider.selector to that of your exporter: %s", c[0].High, c[0].Low,
			text.FirstN(text.Each(c, func(c source.Contested) string { return c.Node }))))
	}
	if d.ClocksDiffer {
		problems = append(problems, "the clocks of Prometheus and of this program differ, or a cache answers")
	}
	if logger, ok := l.limit.AllowChange(logger, now, problems); ok {
		logger.Info("The problems with Prometheus changed", "problems", problems, "err", err, "nodeCount", d.NodeCount,
			"unmatchedSeriesCount", len(d.UnmatchedSeries), "unmatchedSeries", text.FirstN(d.UnmatchedSeries), "serverAheadBy", d.Skew)
	}
}

func (d *Diagnosis) failing() (queries []string, first error) {
	if d.Undetected != nil {
		queries, first = append(queries, "dialect"), d.Undetected
	}
	for i := range d.Queries {
		if q := &d.Queries[i]; q.Err != nil {
			queries, first = append(queries, q.String()), cmp.Or(first, q.Err)
		}
	}
	return queries, first
}

// ReadBy names the dialects in use, and the nodes of all but the first, or the custom queries.
func (d *Diagnosis) ReadBy() string {
	name := "the custom queries"
	if d.Dialect != "" || d.Undetected != nil {
		name = "dialect " + string(cmp.Or(d.Dialect, promql.Auto))
	}
	for _, further := range slices.Sorted(maps.Keys(d.Further)) {
		name += fmt.Sprintf(", and of %s by dialect %s", text.FirstN(d.Further[further]), further)
	}
	return name
}

// TriedBefore names the dialects that Auto passed over, with the reasons; empty if there are none.
func (d *Diagnosis) TriedBefore() string {
	if len(d.Tried) == 0 {
		return ""
	}
	return "; tried before: " + reasons(d.Tried)
}

// Partial says what data the answers lack, in the server's words; nil if they lack none.
func (d *Diagnosis) Partial() error {
	for i := range d.Queries {
		if err := d.Queries[i].Partial; err != nil {
			return err
		}
	}
	return nil
}
