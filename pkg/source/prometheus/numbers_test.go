package prometheus

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

// answers responds to each query with a text, without a network.
type answers func(query string) string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(a(r.FormValue("query")))), Request: r}, nil
}

func (a answers) config(dialect promql.Dialect) Config {
	return Config{Address: "http://prometheus.example", Config: httpclient.Config{Timeout: time.Minute, Transport: a}, Dialect: dialect, NodeLabels: []string{"node", "instance"}}
}

const numberLabels = `"instance":"10.0.0.1:9100","namespace":"shop","pod":"web-1","workload":"web"`

// honestly answers each query with one series that could be of each node, pod, container or workload.
func honestly(query string) element {
	switch {
	case strings.Contains(query, "timestamp(") && !strings.Contains(query, " > time()"):
		return element{numberLabels, fmt.Sprint(evaluated)}
	case strings.HasPrefix(query, "topk(1, count_over_time("):
		return element{numberLabels, "72"} // one look each five minutes of six hours
	}
	return element{numberLabels, "1"}
}

func asText(query string, elements ...element) string {
	if text := vectorText(elements...); !strings.HasPrefix(query, "min by (namespace, pod, container)") {
		return text
	}
	values := make([]string, len(elements))
	for i, e := range elements {
		values[i] = fmt.Sprintf(`{"metric":{%s},"values":[[%d,"%s"]]}`, e.labels, evaluated, e.value)
	}
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(values, ",") + `]}}`
}

func possible(t testing.TB, what string, values ...float64) {
	t.Helper()
	for _, v := range values {
		if load.RejectionOf(v) != load.Accepted {
			t.Errorf("%s is %v", what, v)
		}
	}
}

// readers ask all that the product asks of a Prometheus. They fail the test if an impossible number gets through.
func readers() (all []func(testing.TB, answers)) {
	for _, dialect := range append(promql.Dialects(), promql.Auto) {
		all = append(all, func(t testing.TB, a answers) { readNodes(t, a.config(dialect)) })
	}
	return append(all, readPods, func(t testing.TB, a answers) {
		custom := a.config(promql.Auto)
		custom.CPUQuery, custom.MemoryQuery = "my_cpu", "my_memory"
		readNodes(t, custom)
	})
}

func readNodes(t testing.TB, cfg Config) {
	t.Helper()
	ctx, now := t.Context(), time.Unix(evaluated, 0)
	quantile := load.Quantile{Window: window, Fraction: 0.95}
	ofNode := func(what string, samples []load.Sample) {
		for _, s := range samples {
			for _, stat := range s.Stats {
				if possible(t, what, stat.Mean); !math.IsNaN(stat.StdDev) {
					possible(t, "deviation of "+what, stat.StdDev)
				}
			}
		}
	}
	s, err := New(cfg, sourcetest.Lister(t, newNode("n1", "10.0.0.1"), newNode("n2", "10.0.0.2")), testingclock.NewFakePassiveClock(now))
	check.OK(t, err)
	batch, _ := s.Fetch(ctx, source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{quantile}, Metrics: []string{"temperature"}})
	ofNode("load", batch.Samples)
	for _, m := range batch.Metrics {
		for _, v := range m.Values {
			possible(t, "a node metric", math.Abs(v)) // it may be negative
		}
	}
	_, _ = s.Examiner()(ctx, []time.Duration{window})
	_, _ = s.Series(ctx, "up")
}

func readPods(t testing.TB, a answers) {
	t.Helper()
	ctx := t.Context()
	s := check.Value(NewPodSource(a.config(""), podLister(t, map[string]int{"shop": 1})))(t)
	for range fetchesPerDetection + 1 {
		s.FetchPods(ctx, 1, func(u *source.PodUsage) { possible(t, "usage of a pod", u.Usage) })
	}
	for _, length := range []time.Duration{6 * time.Hour, 48 * time.Hour} { // the rules have all looks of the first
		p := source.Period{End: time.Unix(evaluated, 0), Length: length, Step: 5 * time.Minute}
		_, _ = s.FetchHistory(ctx, p, 1, func(u *source.WorkloadUsage) { possible(t, "usage of a workload", u.Pods, u.Sum, u.SumSquares) })
	}
}

// TestNumbers answers each query that the product sends, one after the other, with what nobody can have measured.
func TestNumbers(t *testing.T) {
	asked := map[string]func(testing.TB, answers){} // one of the readers
	for _, read := range readers() {
		var mu sync.Mutex
		read(t, func(query string) string {
			mu.Lock()
			defer mu.Unlock()
			asked[query] = read
			return asText(query, honestly(query))
		})
	}
	planner := promql.Planner{By: promql.Labels{"node", "instance", "job", "namespace", "service", "pod"}}
	for _, d := range promql.Dialects() {
		for _, q := range planner.Load([]promql.Dialect{d}, []time.Duration{window}, []load.Quantile{{Window: window, Fraction: 0.95}}) {
			if asked[q.PromQL] == nil {
				t.Errorf("%s is not asked: %s", q, q.PromQL)
			}
		}
	}
	ofOthers := element{`"instance":"192.0.2.1:9100","namespace":"mallory","pod":"other","workload":"other"`, "1"}
	for _, query := range slices.Sorted(maps.Keys(asked)) {
		for _, hostile := range [][]element{
			{{numberLabels, "NaN"}}, {{numberLabels, "+Inf"}}, {{numberLabels, "-Inf"}}, {{numberLabels, "-1"}}, {{numberLabels, "1e308"}},
			{}, {{numberLabels, "0.25"}, {numberLabels, "NaN"}, {numberLabels, "3"}}, {ofOthers}, {{"", "NaN"}, {"", "0"}},
		} {
			asked[query](t, func(of string) string {
				if of == query {
					return asText(of, hostile...)
				}
				return asText(of, honestly(of))
			})
			if t.Failed() {
				t.Fatalf("%s was answered by %v", query, hostile)
			}
		}
	}
}

// TestFetch_CountsRejected has a node metric that may be negative, and means that may not.
func TestFetch_CountsRejected(t *testing.T) {
	var a answers = func(query string) string {
		switch {
		case query == "temperature":
			return vectorText(element{`"node":"n1"`, "-5"}, element{`"node":"n2"`, "NaN"})
		case strings.Contains(query, "timestamp("):
			return vectorText()
		case strings.Contains(query, "avg_over_time(node_memory"):
			return vectorText(element{`"node":"n1"`, "-0.1"}, element{`"node":"n2"`, "0.3"})
		}
		return vectorText(element{`"node":"n1"`, "0.5"})
	}
	nodes := []*corev1.Node{newNode("n1", "10.0.0.1"), newNode("n2", "10.0.0.2")}
	s, err := New(a.config(promql.NodeExporter), sourcetest.Lister(t, nodes...), testingclock.NewFakePassiveClock(evaluationTime()))
	check.OK(t, err)
	batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Metrics: []string{"temperature"}}))(t)
	check.Equal(t, "temperatures", map[string]float64{"n1": -5}, batch.Metrics[0].Values)
	check.Equal(t, "rejected", source.Rejected{load.RejectedNegative: 1, load.RejectedNotANumber: 1}, batch.Rejected)
}

// FuzzPods answers every query about pods with a text.
func FuzzPods(f *testing.F) {
	for _, value := range []string{"1", "NaN", "-Inf", "1e308", "-1", "x"} {
		f.Add(vectorText(element{numberLabels, value}, element{"", value}))
		f.Add(asText("min by (namespace, pod, container)", element{numberLabels, value}))
	}
	f.Fuzz(func(t *testing.T, text string) {
		readPods(t, func(string) string { return text })
	})
}
