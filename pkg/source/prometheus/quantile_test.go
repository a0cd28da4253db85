package prometheus

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

const day = 24 * time.Hour

// Each quantile of each resource takes one query. Its value is a sample of its own beside the means.
func TestFetch_Quantiles(t *testing.T) {
	srv := newServer(t,
		rule{"quantile_over_time(0.95, (sum", vector(at("w1", "0.8"), at("w2", "0.6"))},
		rule{"quantile_over_time(0.05, node_memory", vector(at("w1", "0.7"))},
		rule{"quantile_over_time(1, (sum", vector(at("w1", "0.9"))},
		rule{"stddev_over_time", vector()},
		rule{"node_cpu_seconds_total", vector(at("w1", "0.25"))},
		rule{"avg_over_time(node_memory", vector(at("w1", "0.5"))},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	p95, maximum := load.Quantile{Window: day, Fraction: 0.95}, load.Quantile{Window: time.Hour, Fraction: 1}
	batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{p95, maximum}})
	if err != nil {
		t.Fatal(err)
	}
	quantile := func(node string, q load.Quantile, span time.Duration, cpu, memory float64) load.Sample {
		sample := load.Sample{Node: node, Window: q.Window, Fraction: q.Fraction, End: evaluationTime()}
		for r, value := range []float64{cpu, memory} {
			if value > 0 {
				sample.Stats[r] = load.Stat{Mean: value, StdDev: math.NaN(), Span: span, Known: true}
			}
		}
		return sample
	}
	want := []load.Sample{
		sample("w1", meanOnly(0.25), meanOnly(0.5)),
		quantile("w1", maximum, 2*time.Minute, 0.9, 0),
		quantile("w1", p95, 5*time.Minute, 0.8, 0.7),
		quantile("w2", p95, 5*time.Minute, 0.6, 0),
	}
	slices.SortFunc(batch.Samples, func(a, b load.Sample) int {
		return strings.Compare(a.Node+a.Window.String(), b.Node+b.Window.String())
	})
	slices.SortFunc(want, func(a, b load.Sample) int { return strings.Compare(a.Node+a.Window.String(), b.Node+b.Window.String()) })
	if diff := cmp.Diff(want, batch.Samples, equateValues()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The time of the newest samples; two means and two deviations; two for each quantile.
	if asked := srv.asked(); len(asked) != 9 {
		t.Errorf("%d queries, want 9:\n%s", len(asked), strings.Join(asked, "\n"))
	}
}

// A reader of quantiles alone finds the dialect too, by a short window.
func TestFetch_QuantilesAlone(t *testing.T) {
	srv := newServer(t, rule{"quantile_over_time(0.95, (max", vector(at("w1", "4"))},
		rule{"rate(node_cpu_usage_seconds_total[5m]", vector(at("w1", "2"))})
	s := newTestSource(t, Config{Address: srv.URL}, twoNodes()...)
	batch, err := s.Fetch(t.Context(), source.Request{Quantiles: []load.Quantile{{Window: day, Fraction: 0.95}}})
	if err != nil {
		t.Fatal(err)
	}
	// 4 of 8 cores.
	if len(batch.Samples) != 1 || batch.Samples[0].Node != "w1" || batch.Samples[0].Fraction != 0.95 ||
		batch.Samples[0].Stats[load.CPU].Mean != 0.5 {
		t.Errorf("samples %+v, want the quantile of w1, 0.5", batch.Samples)
	}
	for _, asked := range srv.asked() {
		if strings.Contains(asked, "rate(node_cpu_usage_seconds_total[1d]") {
			t.Errorf("a dialect is looked for over a day: %s", asked)
		}
	}
}

// An error names the quantile.
func TestFetch_QuantileFails(t *testing.T) {
	srv := newServer(
		t,
		rule{
			"quantile_over_time",
			status(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`),
		},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	_, err := s.Fetch(t.Context(), source.Request{Quantiles: []load.Quantile{{Window: day, Fraction: 0.95}}})
	if err == nil || !strings.Contains(err.Error(), "0.95-quantile of cpu over 1d (dialect NodeExporter)") ||
		!strings.Contains(err.Error(), "too many samples") {
		t.Errorf("error %v, want one that names the quantile and the reason", err)
	}
}
