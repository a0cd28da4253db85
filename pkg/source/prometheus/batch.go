package prometheus

import (
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// samplesOf returns the samples of each node and window or quantile that has a value of a resource: one, or one of each resource if
// their windows end at different moments.
func samplesOf(results []*queryResult, m *matcher, windows []time.Duration, quantiles []load.Quantile) []load.Sample {
	all := make([]load.Quantile, 0, len(windows)+len(quantiles)) // a fraction of 0 is a mean
	for _, window := range windows {
		all = append(all, load.Quantile{Window: window})
	}
	all = append(all, quantiles...)
	samples := make([]load.Sample, 0, len(all)*len(m.nodes))
	newest := find(results, newestSample)
	for _, q := range all {
		var means, deviations [load.ResourceCount]*queryResult
		var end time.Time
		for _, r := range results {
			if r.nodes == 0 || r.query.window != q.Window || r.query.fraction != q.Fraction {
				continue
			}
			switch r.query.kind {
			case mean:
				means[r.query.resource] = r
			case stdDev:
				deviations[r.query.resource] = r
			default:
				continue
			}
			end = earliest(end, r.evaluated, r.received)
		}
		for i, node := range m.nodes {
			first := len(samples)
			for r := range load.ResourceCount {
				stat := statOf(means[r], deviations[r], i)
				if !stat.Known {
					continue
				}
				resourceEnd := end
				if reads := means[r].query.reads; readsPast(reads) {
					resourceEnd = newestRead(reads, end)
				} else if at, ok := newest.sampleTime(i); ok {
					resourceEnd = earliest(end, at)
				}
				if len(samples) == first || !samples[first].End.Equal(resourceEnd) {
					samples = append(samples, load.Sample{Node: node.Name, Window: q.Window, Fraction: q.Fraction, End: resourceEnd})
				}
				samples[len(samples)-1].Stats[r] = stat
			}
		}
	}
	return samples
}

func find(results []*queryResult, k kind) *queryResult {
	for _, r := range results {
		if r.query.kind == k {
			return r
		}
	}
	return nil
}

// earliest returns the earliest of the times; a zero first is no time.
func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// sampleTime returns the time of a node's newest sample from the result of a newestSample query, which may be nil.
func (r *queryResult) sampleTime(position int) (at time.Time, ok bool) {
	if r == nil || r.nodes == 0 || !r.values[position].known {
		return time.Time{}, false
	}
	return timeOf(r.values[position].value)
}

// statOf returns the statistic of the node at a position; either result may be nil.
func statOf(means, deviations *queryResult, position int) load.Stat {
	if means == nil || !means.values[position].known {
		return load.Stat{}
	}
	stat := load.Stat{Mean: means.values[position].value, StdDev: math.NaN(), Span: means.query.span, Known: true}
	if deviations != nil && deviations.values[position].known {
		stat.StdDev = deviations.values[position].value
	}
	return stat
}

// metricsOf returns the node metrics that at least one node has a value of.
func metricsOf(results []*queryResult, m *matcher) []source.MetricValues {
	var metrics []source.MetricValues
	for _, r := range results {
		if r.nodes == 0 {
			continue
		}
		values := source.MetricValues{Metric: r.query.promql, End: earliest(r.evaluated, r.received), Values: make(map[string]float64, r.nodes)}
		for i, v := range r.values {
			if v.known {
				values.Values[m.nodes[i].Name] = v.value
			}
		}
		metrics = append(metrics, values)
	}
	return metrics
}

// failureOf returns the error of a refresh that brought neither a mean nor a node metric, or nil. undetected is why Auto found no
// dialect, if it found none.
func failureOf(results []*queryResult, endpoint string, undetected error) error {
	var failed, empty []error
	for _, r := range results {
		switch {
		case r.query.kind == newestSample:
		case r.err != nil:
			failed = append(failed, r.err)
		case r.query.kind == stdDev:
		case r.nodes > 0:
			return nil
		default:
			empty = append(empty, fmt.Errorf("%s at %s: %w: check that it scrapes the nodes, or set dialect, queries or nodeLabels",
				r.query, endpoint, r.emptiness()))
		}
	}
	if undetected != nil {
		failed = append([]error{undetected}, failed...)
	}
	return summary(append(failed, empty...))
}

// summary wraps the first error and counts the others, which mostly have the same cause.
func summary(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
}
