package prometheus

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

type statistics struct {
	means, deviations [load.ResourceCount]*response.Result
	// end is the earliest time at which the server evaluated them, or at which they were received.
	end    time.Time
	server []time.Time
	// dialects are those of the nodes by position. Values of other dialects do not count.
	dialects []promql.Dialect
}

func dialectsOf(results []*response.Result, m *response.Matcher) []promql.Dialect {
	dialects := make([]promql.Dialect, len(m.Nodes))
	for _, r := range results {
		for i, v := range r.Values {
			if v.Known && r.Query.Kind == promql.Mean {
				dialects[i] = cmp.Or(dialects[i], v.Dialect)
			}
		}
	}
	return dialects
}

// value returns a node's value, unless it is of another dialect than that of the node.
func (s *statistics) value(r *response.Result, position int) (v response.Value, ok bool) {
	if r == nil || r.Nodes == 0 {
		return v, false
	}
	v = r.Values[position]
	return v, v.Known && (v.Dialect == "" || v.Dialect == s.dialects[position])
}

func statisticsOf(results []*response.Result, of load.Quantile) (s statistics) {
	for _, r := range results {
		if r.Nodes == 0 || r.Query.Window != of.Window || r.Query.Fraction != of.Fraction {
			continue
		}
		switch r.Query.Kind {
		case promql.Mean:
			s.means[r.Query.Resource] = r
		case promql.StdDev:
			s.deviations[r.Query.Resource] = r
		default:
			continue
		}
		s.end = earliest(s.end, r.Evaluated, r.Received)
	}
	return s
}

func samplesOf(results []*response.Result, m *response.Matcher, windows []time.Duration, quantiles []load.Quantile) []load.Sample {
	all := make([]load.Quantile, 0, len(windows)+len(quantiles)) // a fraction of 0 is a mean
	for _, window := range windows {
		all = append(all, load.Quantile{Window: window})
	}
	all = append(all, quantiles...)
	samples := make([]load.Sample, 0, len(all)*len(m.Nodes))
	newest := response.Find(results, promql.NewestSample)
	contested := map[int]bool{}
	for _, r := range results {
		for _, c := range r.Contested {
			contested[c.Position] = contested[c.Position] || r.Query.Kind == promql.Mean
		}
	}
	dialects := dialectsOf(results, m)
	for _, q := range all {
		s := statisticsOf(results, q)
		s.dialects, s.server = dialects, serverTime(results)
		for i, node := range m.Nodes {
			if contested[i] {
				continue
			}
			one := load.Sample{Node: node.Name, Window: q.Window, Fraction: q.Fraction, End: s.endOf(newest, i)}
			for r := range load.ResourceCount {
				one.Stats[r] = s.stat(r, i)
			}
			if one.Stats.Known() {
				samples = append(samples, one)
			}
		}
	}
	return samples
}

func (s *statistics) stat(r load.Resource, position int) load.Stat {
	mean, ok := s.value(s.means[r], position)
	if !ok {
		return load.Stat{}
	}
	reading, _ := s.means[r].Query.ReadingOf(mean.Dialect)
	stat := load.Stat{Mean: mean.Value, StdDev: math.NaN(), Span: reading.Span, Known: true}
	if deviation, ok := s.value(s.deviations[r], position); ok {
		stat.StdDev = deviation.Value
	}
	return stat
}

// endOf returns the time of a node's newest sample, by our clock if the server's is ahead. newest may be nil.
func (s *statistics) endOf(newest *response.Result, position int) time.Time {
	if v, ok := s.value(newest, position); ok {
		if at, ok := promql.Time(v.Value); ok {
			return earliest(s.end, at.Add(-max(newest.Evaluated.Sub(newest.Received), 0)))
		}
	}
	return earliest(s.end, s.server...)
}

// earliest returns the earliest of the times; a zero first does not count.
func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

func rejectedOf(results []*response.Result) source.Rejected {
	rejected := source.Rejected{}
	for _, r := range results {
		rejected.Add(r.Rejected)
		if r.Partial != nil {
			rejected.Add(source.Rejected{load.PartialResponse: 1})
		}
	}
	return rejected
}

// serverTime returns the time for which the server evaluated the queries, if it was asked for.
func serverTime(results []*response.Result) []time.Time {
	if r := response.Find(results, promql.ServerTime); r != nil && !r.Evaluated.IsZero() {
		return []time.Time{r.Evaluated}
	}
	return nil
}

func metricsOf(results []*response.Result, m *response.Matcher) []source.MetricValues {
	var metrics []source.MetricValues
	server := serverTime(results)
	for _, r := range results {
		if r.Nodes == 0 {
			continue
		}
		values := source.MetricValues{
			Metric: r.Query.PromQL, End: earliest(earliest(r.Evaluated, r.Received), server...), Values: make(map[string]float64, r.Nodes),
		}
		for i, v := range r.Values {
			if v.Known {
				values.Values[m.Nodes[i].Name] = v.Value
			}
		}
		metrics = append(metrics, values)
	}
	return metrics
}

// failureOf returns the error if no query of the kind has a value, or nil. undetected is why Auto found no dialect.
func failureOf(results []*response.Result, kind promql.Kind, endpoint string, undetected error) error {
	var failed, empty []error
	if undetected != nil {
		failed = append(failed, undetected)
	}
	for _, r := range results {
		switch {
		case r.Query.Kind == promql.NewestSample, r.Query.Kind == promql.ServerTime:
		case r.Err != nil:
			failed = append(failed, r.Err)
		case r.Query.Kind == promql.StdDev:
		case r.Named() > 0 && r.Query.Kind == kind:
			return nil
		case r.Nodes == 0:
			empty = append(empty, fmt.Errorf("%s at %s: %w: check that it scrapes the nodes, or set dialect, queries or nodeLabels",
				r.Query, endpoint, r.EmptyReason()))
		}
	}
	return source.Summary(append(failed, empty...))
}
