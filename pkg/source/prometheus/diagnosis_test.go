package prometheus

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// equateErrors compares errors by their text.
func equateErrors() cmp.Option {
	return cmp.Comparer(func(a, b error) bool {
		return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
	})
}

type textError string

func (e textError) Error() string { return string(e) }

func TestDiagnosis(t *testing.T) {
	warned := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"w1"},"value":[1700000000,` +
		`"8589934592"]}]},"warnings":["partial"]}`
	srv := newServer(
		t,
		rule{
			"node_cpu_seconds_total",
			status(http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"too many samples"}`),
		},
		rule{"instance:node_cpu", vector(element{`"node":"gone"`, "0.5"})}, rule{"stddev_over_time", vector()},
		rule{
			"node_cpu_usage_seconds_total", vector(element{`"node":"w1"`, "2"}, element{`"node":"vm"`, "2"}, element{`"node":"alone"`, "2"}),
		},
		rule{"node_memory_working_set_bytes", body(warned)}, rule{"latency", status(http.StatusBadGateway, "")},
	)
	// Samples of 20 s and of 50 s ago.
	srv.newest = vector(element{`"node":"w1"`, "1699999980"}, element{`"node":"w2"`, "1699999950"})
	s := newTestSource(t, Config{Address: srv.URL, NodeLabels: []string{"node"}}, append(twoNodes(), newNode("w3", "10.0.0.3"))...)
	if diff := cmp.Diff(diagnosis.Diagnosis{}, s.Diagnosis(), equateErrors()); diff != "" {
		t.Errorf("before the first Fetch (-want +got):\n%s", diff)
	}
	if _, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Metrics: []string{"latency"}}); err != nil {
		t.Fatal(err)
	}
	endpoint := srv.URL + "/api/v1/query"
	want := diagnosis.Diagnosis{
		Endpoint: endpoint,
		Dialect:  promql.Kubelet,
		Tried: []diagnosis.Tried{
			{Dialect: promql.NodeExporter, Err: textError("query refused (execution): too many samples")},
			{Dialect: promql.KubePrometheus, Err: textError(`none of 1 series matches a Node by its nodeLabels; for example {node="gone"}`)},
		},
		Queries: []diagnosis.QueryDiagnosis{
			{
				Query: promql.Query{Kind: promql.NewestSample, Resource: load.CPU, Dialect: promql.Kubelet}, Series: 2,
				Nodes: 2, Highest: 1699999980, HighestNode: "w1",
			},
			{
				Query: promql.Query{Kind: promql.Mean, Resource: load.CPU, Window: window, Dialect: promql.Kubelet}, Series: 3,
				Nodes: 1, Highest: 0.25, HighestNode: "w1",
			},
			{
				Query: promql.Query{Kind: promql.Mean, Resource: load.Memory, Window: window, Dialect: promql.Kubelet}, Series: 1,
				Nodes: 1, Highest: 0.5, HighestNode: "w1", Warnings: []string{"partial"},
			},
			{
				Query: promql.Query{Kind: promql.StdDev, Resource: load.CPU, Window: window, Dialect: promql.Kubelet},
				Err:   textError("standard deviation of cpu over 5m (dialect Kubelet): no series"),
			},
			{
				Query: promql.Query{Kind: promql.StdDev, Resource: load.Memory, Window: window, Dialect: promql.Kubelet},
				Err:   textError("standard deviation of memory over 5m (dialect Kubelet): no series"),
			},
			{Query: promql.Query{Kind: promql.NodeMetric}, Err: textError(`metric "latency": GET ` + endpoint + ": status 502 Bad Gateway")},
		},
		NodeCount:          3,
		NodesWithoutSeries: []string{"w2", "w3"},
		UnmatchedSeries:    []string{`{node="alone"}`, `{node="vm"}`},
		SampleAges:         diagnosis.SampleAges{Nodes: 2, Youngest: 20 * time.Second, Oldest: 50 * time.Second},
		Skew:               -time.Second, // our clock is a second ahead
	}
	options := cmp.Options{
		equateErrors(),
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(promql.Query{}, "PromQL", "OverCapacity", "Reads"),
	}
	if diff := cmp.Diff(want, s.Diagnosis(), options); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A Fetch that fails is diagnosed too. The clock of the server is a minute ahead.
	srv.setRules(rule{"", vector()})
	s.clock = testingclock.NewFakePassiveClock(evaluationTime().Add(-time.Minute))
	if _, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}}); err == nil {
		t.Fatal("no error though there is no series")
	}
	got := s.Diagnosis()
	if got.Dialect != "" || len(got.Tried) != len(promql.Dialects()) || got.Undetected == nil {
		t.Errorf("dialect %q, tried %v, because of %v; want none of all that there are, and a reason", got.Dialect, got.Tried,
			got.Undetected)
	}
	if got.Skew != time.Minute || !got.ClocksDiffer {
		t.Errorf("skew %v, different clocks %v; want 1m0s and true", got.Skew, got.ClocksDiffer)
	}
	if diff := cmp.Diff([]string{"w1", "w2", "w3"}, got.NodesWithoutSeries); diff != "" {
		t.Errorf("nodes without series (-want +got):\n%s", diff)
	}
}

func TestDiagnosis_NodeMetricsOnly(t *testing.T) {
	srv := newServer(t, rule{"", vector(element{`"node":"w1"`, "1"})})
	s := newTestSource(t, Config{Address: srv.URL}, twoNodes()...)
	if _, err := s.Fetch(t.Context(), source.Request{Metrics: []string{"latency"}}); err != nil {
		t.Fatal(err)
	}
	got := s.Diagnosis()
	if len(got.Queries) != 1 || got.Queries[0].PromQL != "latency" || got.SampleAges != (diagnosis.SampleAges{}) ||
		len(got.NodesWithoutSeries) > 0 {
		t.Errorf("got %+v, want one query, no ages, and no nodes that lack load", got)
	}
}
