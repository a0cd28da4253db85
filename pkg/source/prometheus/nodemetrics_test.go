package prometheus

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// byMetric returns the values by metric. Each has to end at the time of evaluation.
func byMetric(t *testing.T, batch source.Batch) map[string]map[string]float64 {
	t.Helper()
	values := map[string]map[string]float64{}
	for _, metric := range batch.Metrics {
		if !metric.End.Equal(evaluationTime()) {
			t.Errorf("%s is of %v, want %v", metric.Metric, metric.End, evaluationTime())
		}
		values[metric.Metric] = metric.Values
	}
	return values
}

func TestFetch_NodeMetricsAndLoad(t *testing.T) {
	refused := status(http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"too many series"}`)
	latency := vector(element{`"node":"w1"`, "0.5"}, element{`"node":"w2"`, "1.5"})
	load := nodeExporter(vector(at("10.0.0.1:9100", "0.25")), vector(), vector(), vector())
	both := map[string]map[string]float64{"latency": {"w1": 0.5, "w2": 1.5}, "errors": {"w1": 7}}
	errors := vector(at("10.0.0.1:8080", "7"), element{`"node":"unknown"`, "9"})

	for _, tt := range []struct {
		name        string
		rules       []rule
		wantSamples int
		want        map[string]map[string]float64
		failure     bool
	}{
		{"all succeed", append([]rule{{"latency", latency}, {"errors", errors}}, load...), 1, both, false},
		{"one metric fails", append([]rule{{"latency", latency}, {"errors", refused}}, load...), 1,
			map[string]map[string]float64{"latency": both["latency"]}, false},
		{"one metric is empty", append([]rule{{"latency", latency}, {"errors", vector()}}, load...), 1,
			map[string]map[string]float64{"latency": both["latency"]}, false},
		{"all metrics fail", append([]rule{{"latency", refused}, {"errors", refused}}, load...), 1, map[string]map[string]float64{},
			false},
		{"load fails", []rule{{"latency", latency}, {"errors", errors}, {"", refused}}, 0, both, true},
		{"load is empty", []rule{{"latency", latency}, {"errors", errors}}, 0, both, true},
		{"all fail", []rule{{"", refused}}, 0, map[string]map[string]float64{}, true},
		{"all are empty", nil, 0, map[string]map[string]float64{}, true},
	} {
		for _, dialect := range []promql.Dialect{promql.NodeExporter, promql.Auto} {
			t.Run(tt.name+", dialect "+string(dialect), func(t *testing.T) {
				srv := newServer(t, tt.rules...)
				s := newTestSource(t, Config{Address: srv.URL, Dialect: dialect}, twoNodes()...)
				batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Metrics: []string{"latency", "errors"}})
				if (err != nil) != tt.failure {
					t.Fatalf("Fetch: %v, want a failure: %v", err, tt.failure)
				}
				if len(batch.Samples) != tt.wantSamples {
					t.Errorf("%d samples, want %d", len(batch.Samples), tt.wantSamples)
				}
				if diff := cmp.Diff(tt.want, byMetric(t, batch)); diff != "" {
					t.Errorf("values (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestFetch_NodeMetricsOnly(t *testing.T) {
	srv := newServer(t,
		rule{"", vector(element{`"node":"w1"`, "1"}, element{`"Hostname":"w2"`, "2"}, element{`"node":"w1","device":"b"`, "3"})})
	s := newTestSource(t, Config{Address: srv.URL, NodeLabels: []string{"node", "Hostname"}}, twoNodes()...)
	want := []string{"avg by (Hostname) (gpu)", "latency"}
	batch, err := s.Fetch(t.Context(), source.Request{Metrics: want})
	if err != nil {
		t.Fatal(err)
	}
	asked := srv.asked()
	slices.Sort(asked)
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	// Of the two series of w1 the greater is taken.
	values := map[string]float64{"w1": 3, "w2": 2}
	if diff := cmp.Diff(map[string]map[string]float64{want[0]: values, want[1]: values}, byMetric(t, batch)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if len(batch.Samples) > 0 {
		t.Errorf("%d samples of load that nobody asked for", len(batch.Samples))
	}
}

func TestFetch_HungLoadQuery(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	srv := newServer(t, rule{"latency", vector(element{`"node":"w1"`, "1"})}, rule{"", hang})
	for _, dialect := range []promql.Dialect{promql.NodeExporter, promql.Auto} {
		withTimeouts(t, func(timeout time.Duration) string {
			s := newTestSource(t, Config{Address: srv.URL, Dialect: dialect, Config: httpclient.Config{Timeout: timeout}}, twoNodes()...)
			batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Metrics: []string{"latency"}})
			if diff := cmp.Diff(map[string]map[string]float64{"latency": {"w1": 1}}, byMetric(t, batch)); err == nil || diff != "" {
				return fmt.Sprintf("%s: error %v, want one; values (-want +got):\n%s", dialect, err, diff)
			}
			return ""
		})
	}
}
