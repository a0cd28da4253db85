package prometheus

import (
	"context"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

func TestMain(m *testing.M) {
	leak.Main(m)
}

// evaluated is when the server evaluates every query, in seconds since 1970. The source's clock is a second ahead.
const evaluated = 1700000000

func evaluationTime() time.Time { return time.Unix(evaluated, 0) }

// server responds to an instant query by the first rule whose text is part of the query.
// Times of the newest samples have a separate response. Unless a test replaces it, the sample of w1 has the time of evaluation.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	rules    []rule
	newest   func(w http.ResponseWriter, r *http.Request)
	behind   int64 // seconds that the server's time is behind the stamps of its values
	queries  []string
	requests []*http.Request
}

// rule is the response to queries that contain a text.
type rule struct {
	contains string
	respond  func(w http.ResponseWriter, r *http.Request)
}

func newServer(t *testing.T, rules ...rule) *server {
	t.Helper()
	s := &server{rules: rules, newest: vector(at("w1", fmt.Sprint(evaluated)))}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	promql := r.FormValue("query")
	s.mu.Lock()
	s.queries = append(s.queries, promql)
	s.requests = append(s.requests, r)
	rules, newest := s.rules, s.newest
	s.mu.Unlock()
	if isNewestSample(promql) {
		newest(w, r)
		return
	}
	if promql == "vector(time())" {
		vector(element{"", fmt.Sprint(evaluated - s.behind)})(w, r)
		return
	}
	for _, rule := range rules {
		if strings.Contains(promql, rule.contains) {
			rule.respond(w, r)
			return
		}
	}
	vector()(w, r)
}

// isNewestSample reports whether the query is for the times of the newest samples. Means that filter by timestamp() are not, nor
// are samples of the future.
func isNewestSample(promql string) bool {
	if strings.Contains(promql, " offset -") {
		return false
	}
	return strings.HasPrefix(promql, "timestamp(") || strings.Contains(promql, ") (timestamp(")
}

func (s *server) setRules(rules ...rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.queries, s.requests = rules, nil, nil
}

func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// body responds with status 200 and a text.
func body(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, text)
	}
}

func status(code int, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, text)
	}
}

// element is one series: its labels in JSON without braces, and its value.
type element struct{ labels, value string }

func at(instance, value string) element {
	return element{fmt.Sprintf("%q:%q", "instance", instance), value}
}

func vectorText(elements ...element) string {
	texts := make([]string, len(elements))
	for i, e := range elements {
		texts[i] = fmt.Sprintf(`{"metric":{%s},"value":[%d,"%s"]}`, e.labels, evaluated, e.value)
	}
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(texts, ",") + `]}}`
}

func vector(elements ...element) func(http.ResponseWriter, *http.Request) {
	return body(vectorText(elements...))
}

// The queries of the NodeExporter dialect, told apart by what only they contain. The order is that of the rules.
func nodeExporter(cpuMean, cpuStdDev, memoryMean, memoryStdDev func(http.ResponseWriter, *http.Request)) []rule {
	return []rule{
		{"stddev_over_time((sum", cpuStdDev},
		{"stddev_over_time(node_memory_MemAvailable_bytes", memoryStdDev},
		{"node_cpu_seconds_total", cpuMean},
		{"node_memory_MemAvailable_bytes", memoryMean},
	}
}

func newNode(name, address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
			Capacity:    corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("8"), corev1.ResourceMemory: apiresource.MustParse("16Gi")},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("4"), corev1.ResourceMemory: apiresource.MustParse("8Gi")},
		},
	}
}

func twoNodes() []*corev1.Node {
	return []*corev1.Node{newNode("w1", "10.0.0.1"), newNode("w2", "fd00::2")}
}

// complete returns the configuration with the fields that most tests do not care for.
func complete(cfg Config) Config {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute // as long as a busy machine may need
	}
	if cfg.Dialect == "" {
		cfg.Dialect = promql.Auto
	}
	if cfg.NodeLabels == nil {
		cfg.NodeLabels = []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname", "k8s_node_name"}
	}
	return cfg
}

func newTestSource(t *testing.T, cfg Config, nodes ...*corev1.Node) *Source {
	t.Helper()
	s, err := New(complete(cfg), sourcetest.Lister(t, nodes...), testingclock.NewFakePassiveClock(evaluationTime().Add(time.Second)))
	check.OK(t, err)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	return s
}

// logged collects log lines of verbosity 0.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) context(t *testing.T) context.Context {
	t.Helper()
	return klog.NewContext(t.Context(), funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{}))
}

// take returns the lines since the last call.
func (l *logged) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func byName(samples []load.Sample) []load.Sample {
	slices.SortFunc(samples, func(a, b load.Sample) int { return strings.Compare(a.Node, b.Node) })
	return samples
}

func equateValues() cmp.Options {
	return cmp.Options{cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()}
}

const window = 5 * time.Minute

func fetch(t *testing.T, s *Source) []load.Sample {
	t.Helper()
	batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}}))(t)
	return byName(batch.Samples)
}

// sample is of the default window and time.
func sample(node string, cpu, memory load.Stat) load.Sample {
	return load.Sample{Node: node, Window: window, End: evaluationTime(), Stats: load.Stats{load.CPU: cpu, load.Memory: memory}}
}

func known(mean, stdDev float64) load.Stat { return load.Stat{Mean: mean, StdDev: stdDev, Known: true} }

func meanOnly(mean float64) load.Stat { return known(mean, math.NaN()) }

func TestFetch_Dialects(t *testing.T) {
	const gib = "1073741824"
	want := []load.Sample{sample("w1", known(0.25, 0.05), known(0.5, 0.0625)), sample("w2", meanOnly(0.75), meanOnly(0.125))}
	for _, tt := range []struct {
		dialect promql.Dialect
		rules   []rule
		want    []load.Sample
	}{
		{
			// Fractions: 0.25 ± 0.05 and 0.5 ± 0.0625. w2 has no deviation.
			dialect: promql.NodeExporter,
			rules: nodeExporter(
				vector(at("10.0.0.1:9100", "0.25"), at("[fd00:0:0::2]:9100", "0.75")), vector(at("10.0.0.1:9100", "0.05")),
				vector(at("10.0.0.1:9100", "0.5"), at("[fd00:0:0::2]:9100", "0.125")), vector(at("10.0.0.1:9100", "0.0625"))),
			want: want,
		},
		{
			dialect: promql.KubePrometheus,
			rules: []rule{
				{"stddev_over_time((max by (node, instance, nodename, kubernetes_node, exported_instance, hostname, k8s_node_name, job, namespace, service, " +
					"pod) " +
					"(instance:node_cpu_utilisation:rate5m) or ", vector(at("w1", "0.05"))},
				{"stddev_over_time((max by (node, instance, nodename, kubernetes_node, exported_instance, hostname, k8s_node_name, job, namespace, service, " +
					"pod) " +
					"(instance:node_memory_utilisation:ratio", vector(at("w1", "0.0625"))},
				{"instance:node_cpu_utilisation:rate5m", vector(at("w1", "0.25"), at("w2", "0.75"))},
				{"instance:node_memory_utilisation:ratio", vector(at("w1", "0.5"), at("w2", "0.125"))},
			},
			want: want,
		},
		{
			// Cores over 8 of capacity, not over the 4 allocatable: 2/8 ± 0.4/8 and 6/8. Bytes over 16 GiB: 8/16 ± 1/16, 2/16.
			dialect: promql.Kubelet,
			rules: []rule{
				{"stddev_over_time((max by", vector(at("w1:10250", "0.4"))},
				{"stddev_over_time(node_memory_working_set_bytes", vector(at("w1:10250", gib))},
				{"node_cpu_usage_seconds_total", vector(at("w1:10250", "2"), at("w2:10250", "6"))},
				{"node_memory_working_set_bytes", vector(at("w1:10250", "8589934592"), at("w2:10250", "2147483648"))},
			},
			want: want,
		},
		{
			dialect: promql.CAdvisor,
			rules: []rule{
				{"stddev_over_time((max by", vector(at("w1", "0.4"))},
				{`stddev_over_time(container_memory_working_set_bytes{id="/"}`, vector(at("w1", gib))},
				{`container_cpu_usage_seconds_total{id="/"}`, vector(at("w1", "2"), at("w2", "6"))},
				{`container_memory_working_set_bytes{id="/"}`, vector(at("w1", "8589934592"), at("w2", "2147483648"))},
			},
			want: want,
		},
	} {
		t.Run(string(tt.dialect), func(t *testing.T) {
			srv := newServer(t, tt.rules...)
			s := newTestSource(t, Config{Address: srv.URL, Dialect: tt.dialect}, twoNodes()...)
			check.Equal(t, "samples", tt.want, fetch(t, s), equateValues())
			check.Equal(t, "queries", 5, len(srv.asked()))
		})
	}
}

func TestFetch_OwnQueries(t *testing.T) {
	srv := newServer(t,
		rule{"stddev_over_time((my_cpu{w=\"2m\"}\n)[5m:30s])", vector(at("w1", "0.02"))},
		rule{`my_cpu{w="5m"}`, vector(at("w1", "0.3"))},
		rule{"stddev_over_time(node_memory_working_set_bytes", vector()},
		rule{"node_memory_working_set_bytes", vector(at("w1", "4294967296"))},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet, CPUQuery: `my_cpu{w="$window"}`}, twoNodes()...)
	// The cpu is the fraction it is; the memory still comes from the dialect: 4 of 16 GiB.
	want := []load.Sample{sample("w1", known(0.3, 0.02), meanOnly(0.25))}
	check.Equal(t, "samples", want, fetch(t, s), equateValues())
}

func countContaining(lines []string, text string) int {
	n := 0
	for _, line := range lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func TestFetch_EmptyResponse(t *testing.T) {
	srv := newServer(t)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "no series", "dialect NodeExporter", "set dialect, queries or nodeLabels", srv.URL)

	srv.setRules(nodeExporter(vector(at("elsewhere:9100", "0.25")), vector(), vector(), vector())...)
	_, err = s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "none of 1 series matches a Node", `instance="elsewhere:9100"`, "nodeLabels")
}

func TestFetch_PartialFailure(t *testing.T) {
	fine := nodeExporter(vector(at("w1", "0.25")), vector(at("w1", "0.05")), vector(at("w1", "0.5")), vector(at("w1", "0.1")))
	failing := nodeExporter(vector(at("w1", "0.25")), vector(at("w1", "0.05")),
		status(http.StatusInternalServerError, "out of memory"), status(http.StatusInternalServerError, "out of memory"))
	srv := newServer(t, failing...)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, newNode("w1", "10.0.0.1"))
	var log logged
	get := func() []load.Sample {
		t.Helper()
		batch := check.Value(s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}))(t)
		return batch.Samples
	}
	cpuOnly := []load.Sample{sample("w1", known(0.25, 0.05), load.Stat{})}
	for range 2 {
		check.Equal(t, "samples", cpuOnly, get(), equateValues())
	}
	lines := log.take()
	if len(lines) != 1 || !strings.Contains(lines[0], "mean of memory over 5m") || !strings.Contains(lines[0], "out of memory") {
		t.Errorf("want one line in two refreshes that names the failed query, got %q", lines)
	}

	srv.setRules(fine...)
	for range 2 {
		if got := get(); !got[0].Stats[load.Memory].Known {
			t.Errorf("memory is not known: %v", got)
		}
	}
	if lines := log.take(); len(lines) != 1 || !strings.Contains(lines[0], `"problems"=[]`) {
		t.Errorf("want one line that says it is well again, got %q", lines)
	}

	// A mean that is empty, beside one that is not, is a failure of that part.
	srv.setRules(nodeExporter(vector(at("w1", "0.25")), vector(at("w1", "0.05")), vector(), vector(at("w1", "0.1")))...)
	check.Equal(t, "a deviation without a mean is not a value", cpuOnly, get(), equateValues())
	if lines := log.take(); len(lines) != 1 || !strings.Contains(lines[0], "no series") {
		t.Errorf("want one line about the empty response, got %q", lines)
	}
}

func TestFetch_Windows(t *testing.T) {
	srv := newServer(t, rule{"[15m", vector(at("w1", "0.5"))}, rule{"[5m", vector(at("w1", "0.25"))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, newNode("w1", "10.0.0.1"))
	batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{15 * time.Minute, 5 * time.Minute, 5 * time.Minute}})
	check.OK(t, err)
	want := []load.Sample{
		{Node: "w1", Window: 5 * time.Minute, End: evaluationTime(), Stats: load.Stats{load.CPU: known(0.25, 0.25), load.Memory: known(0.25, 0.25)}},
		{Node: "w1", Window: 15 * time.Minute, End: evaluationTime(), Stats: load.Stats{load.CPU: known(0.5, 0.5), load.Memory: known(0.5, 0.5)}},
	}
	check.Equal(t, "samples", want, batch.Samples, equateValues())
	check.Equal(t, "queries, want one for the newest samples and 4 for each of two windows", 9, len(srv.asked()))
	for _, windows := range [][]time.Duration{nil, {0}, {window, -1}} {
		if _, err := s.Fetch(t.Context(), source.Request{Windows: windows}); err == nil {
			t.Errorf("windows %v: no error", windows)
		}
	}
}

// withTimeouts tries longer and longer timeouts until nothing is missing. A query that hangs takes all of one; on a busy machine, the
// others do not end within the first.
func withTimeouts(t *testing.T, missing func(timeout time.Duration) string) {
	t.Helper()
	for timeout := time.Second; ; timeout *= 4 {
		what := missing(timeout)
		if what == "" {
			return
		}
		if timeout > time.Minute {
			t.Fatal(what)
		}
	}
}

func TestFetch_HungQuery(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	srv := newServer(t, nodeExporter(vector(at("w1", "0.25")), vector(at("w1", "0.05")), hang, hang)...)
	within := func(timeout time.Duration) *Source {
		return newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter, Config: httpclient.Config{Timeout: timeout}},
			newNode("w1", "10.0.0.1"))
	}
	want := []load.Sample{sample("w1", known(0.25, 0.05), load.Stat{})}
	withTimeouts(t, func(timeout time.Duration) string {
		batch, err := within(timeout).Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
		if diff := cmp.Diff(want, batch.Samples, equateValues()); err != nil || diff != "" {
			return fmt.Sprintf("error %v; samples (-want +got):\n%s", err, diff)
		}
		return ""
	})

	// The whole Fetch has one timeout, also when headers come and the body does not.
	srv.setRules(rule{"", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"status":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	withTimeouts(t, func(timeout time.Duration) string {
		s, before := within(timeout), len(srv.asked())
		_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window, 2 * window, 3 * window}})
		for _, text := range []string{fmt.Sprint("no complete response within the timeout of ", timeout), srv.URL} {
			if !strings.Contains(fmt.Sprint(err), text) {
				return fmt.Sprintf("error %v, want %q", err, text)
			}
		}
		// Four queries run at once. All but the one for the newest samples hang.
		if got := len(srv.asked()) - before; got > 1+4 {
			return fmt.Sprintf("%d queries, want none after the timeout", got)
		}
		return ""
	})
}

func TestFetch_ImpossibleValues(t *testing.T) {
	srv := newServer(
		t,
		nodeExporter(vector(at("w1", "NaN"), at("w2", "1.7")), vector(at("w1", "+Inf")), vector(at("w1", "-0.5")), vector())...)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	want := []load.Sample{sample("w2", meanOnly(1.7), load.Stat{})} // the watcher reads it as full
	check.Equal(t, "samples", want, fetch(t, s), equateValues())
}

func TestFetch_SeveralSeriesOfNode(t *testing.T) {
	for _, tt := range []struct {
		name     string
		elements []element
		want     float64
	}{
		{"the greater of duplicates", []element{at("w1", "0.2"), at("w1:9100", "0.3"), at("10.0.0.1", "0.1")}, 0.3},
		{"a number rather than NaN", []element{at("w1", "NaN"), at("w1:9100", "0.3")}, 0.3},
		{"a number rather than NaN, whatever the order", []element{at("w1", "0.3"), at("w1:9100", "NaN")}, 0.3},
		// An exporter on w1 with a deleted node: its instance is w1, but w1 has a series by name.
		{"the earlier label", []element{{`"node":"gone","instance":"10.0.0.1:9100"`, "0.9"}, {`"node":"w1","instance":"10.0.0.1:9100"`, "0.2"}}, 0.2},
		{"the earlier label, whatever the order", []element{{`"node":"w1","instance":"10.0.0.1:9100"`, "0.2"}, {`"node":"gone","instance":"10.0.0.1:9100"`, "0.9"}}, 0.2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"stddev_over_time", vector()}, rule{"node_cpu_seconds_total", vector(tt.elements...)})
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
			want := []load.Sample{sample("w1", meanOnly(tt.want), load.Stat{})}
			check.Equal(t, "samples", want, fetch(t, s), equateValues())
		})
	}
}

func TestFetch_NodeWithoutCapacity(t *testing.T) {
	bare := newNode("w2", "fd00::2")
	bare.Status.Capacity = nil
	srv := newServer(t, rule{"node_cpu_usage_seconds_total", vector(at("w1", "2"), at("w2", "6"))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet}, newNode("w1", "10.0.0.1"), bare)
	want := []load.Sample{sample("w1", known(0.25, 0.25), load.Stat{})}
	check.Equal(t, "samples", want, fetch(t, s), equateValues())
}

// TestFetch_LogsAlternationRarely has a server leave out another node at each of 100 refreshes.
func TestFetch_LogsAlternationRarely(t *testing.T) {
	srv := newServer(t)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	var log logged
	for i := range 100 {
		srv.setRules(rule{"", vector(at(fmt.Sprintf("w%d", 1+i%2), "0.5"))})
		check.Value(s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}))(t)
	}
	if lines := log.take(); len(lines) != 6 {
		t.Errorf("%d lines, want 6: %q", len(lines), lines)
	}
}

func TestFetch_LogsUnmatchedOnChange(t *testing.T) {
	six := []element{at("w1", "0.5")}
	for i := range 6 {
		six = append(six, element{fmt.Sprintf(`"node":"vm%d","instance":"192.0.2.%d:9100"`, i, i), "0.5"})
	}
	srv := newServer(t, rule{"", vector(six...)})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	var log logged
	for range 3 {
		batch := check.Value(s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}))(t)
		// Four responses have the same six series of no node; they count once.
		check.Equal(t, "series are unmatched", 6, batch.UnmatchedCount)
		check.Equal(t, "samples, want that of w1", 1, len(batch.Samples))
	}
	lines := log.take()
	check.Require(t, fmt.Sprintf("lines in three refreshes: %q", lines), 1, len(lines))
	for _, text := range []string{`"1 node without series: w2"`, `"unmatchedSeriesCount"=6`,
		`{node=\"vm0\", instance=\"192.0.2.0:9100\"}`, "vm4", "…"} {
		check.Contains(t, lines[0], text)
	}
	check.Lacks(t, lines[0], "vm5")
	srv.setRules(rule{"", vector(append(six, at("w2", "0.1"))...)})
	for range 2 {
		check.Value(s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}))(t)
	}
	if lines := log.take(); len(lines) != 1 || !strings.Contains(lines[0], `"problems"=["series without a node"]`) {
		t.Errorf("want one line on the change, got %q", lines)
	}
}

func TestFetch_NodeLabels(t *testing.T) {
	srv := newServer(t, rule{"by (host, vm, " + targets + ")", vector(element{`"vm":"w1","instance":"w2"`, "0.5"})})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter, NodeLabels: []string{"host", "vm"}}, twoNodes()...)
	want := []load.Sample{sample("w1", known(0.5, 0.5), known(0.5, 0.5))}
	check.Equal(t, "samples", want, fetch(t, s), equateValues())
}

func TestFetch_EndAndClocks(t *testing.T) {
	for _, tt := range []struct {
		name      string
		now, want time.Time
		logged    int
	}{
		{"clocks agree", evaluationTime().Add(20 * time.Millisecond), evaluationTime(), 0},
		{"the server is ahead", evaluationTime().Add(-time.Minute), evaluationTime().Add(-time.Minute), 1},
		{"the server is behind, or a cache answers", evaluationTime().Add(time.Hour), evaluationTime(), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, newNode("w1", "10.0.0.1"))
			s.clock = testingclock.NewFakePassiveClock(tt.now)
			var log logged
			for range 2 {
				batch := check.Value(s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}))(t)
				if got := batch.Samples[0].End; !got.Equal(tt.want) {
					t.Errorf("End %s, want %s", got, tt.want)
				}
			}
			if lines := log.take(); len(lines) != tt.logged {
				t.Errorf("%d lines, want %d: %q", len(lines), tt.logged, lines)
			}
			check.Equal(t, "time of the query, want none", "", srv.requests[0].FormValue("time"))
		})
	}
}

func TestFetch_QueryCount(t *testing.T) {
	for _, count := range []int{1, 1000} {
		var nodes []*corev1.Node
		var elements []element
		for i := range count {
			nodes = append(nodes, newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250)))
			elements = append(elements, at(fmt.Sprintf("10.1.%d.%d:9100", i/250, i%250), "0.5"))
		}
		srv := newServer(t, rule{"", vector(elements...)})
		s := newTestSource(t, Config{Address: srv.URL}, nodes...)
		if got := len(fetch(t, s)); got != count {
			t.Errorf("%d samples of %d nodes", got, count)
		}
		// One to find the dialect, one for the newest samples, four for the window.
		check.Equal(t, fmt.Sprint(count, " nodes: queries"), 6, len(srv.asked()))
	}
}

func TestFetch_NoNodes(t *testing.T) {
	srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter})
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "no Node is known")
}

func writeCA(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}
	check.OK(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	return file
}

func TestFetch_SpanOfRule(t *testing.T) {
	srv := newServer(t, rule{"stddev", vector()}, rule{"instance:node_cpu", vector(at("w1", "0.5"))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.KubePrometheus}, twoNodes()...)
	batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{time.Minute}}))(t)
	check.Equal(t, "span of a sample over one minute", 6*time.Minute, batch.Samples[0].Stats[load.CPU].Span)
}

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
		{"one metric fails", append([]rule{{"latency", latency}, {"errors", refused}}, load...), 1, map[string]map[string]float64{"latency": both["latency"]}, false},
		{"one metric is empty", append([]rule{{"latency", latency}, {"errors", vector()}}, load...), 1, map[string]map[string]float64{"latency": both["latency"]}, false},
		{"all metrics fail", append([]rule{{"latency", refused}, {"errors", refused}}, load...), 1, map[string]map[string]float64{}, false},
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
				check.Equal(t, "samples", tt.wantSamples, len(batch.Samples))
				check.Equal(t, "values", tt.want, byMetric(t, batch))
			})
		}
	}
}

func TestFetch_NodeMetricsOnly(t *testing.T) {
	srv := newServer(t,
		rule{"", vector(element{`"node":"w1"`, "1"}, element{`"Hostname":"w2"`, "2"}, element{`"node":"w1","device":"b"`, "3"})})
	s := newTestSource(t, Config{Address: srv.URL, NodeLabels: []string{"node", "Hostname"}}, twoNodes()...)
	want := []string{"avg by (Hostname) (gpu)", "latency"}
	batch := check.Value(s.Fetch(t.Context(), source.Request{Metrics: want}))(t)
	asked := srv.asked()
	slices.Sort(asked)
	check.Equal(t, "asked", append(slices.Clone(want), "vector(time())"), asked)
	// Of the two series of w1 the greater is taken.
	values := map[string]float64{"w1": 3, "w2": 2}
	check.Equal(t, "values", map[string]map[string]float64{want[0]: values, want[1]: values}, byMetric(t, batch))
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

// TestFetch_WhoseSeriesCount has a tenant's target beside the exporter of w1. Both are of one rank where their instances are alike.
func TestFetch_WhoseSeriesCount(t *testing.T) {
	of := func(instance, namespace, value string) element {
		return element{`"instance":"` + instance + `","node":"w1","job":"a","namespace":"` + namespace + `"`, value}
	}
	for _, tt := range []struct {
		name      string
		series    []element
		want      float64
		contested bool
	}{
		{"the node's own address before others", []element{of("10.8.0.1:80", "tenant", "0.9"), of("10.0.0.1:9100", "monitoring", "0.25")}, 0.25, false},
		{"the node's own name before others", []element{of("w1:9100", "monitoring", "0.25"), of("10.8.0.1:80", "tenant", "0.9")}, 0.25, false},
		{"another node's address is not its own", []element{of("[fd00::2]:9100", "tenant", "0.9"), of("w1", "monitoring", "0.25")}, 0.25, false},
		{"two at the node's address differ by more than 5 points", []element{of("10.0.0.1:9100", "monitoring", "0.25"), of("10.0.0.1:30000", "tenant", "0.31")}, 0, true},
		{"two at the node's address differ by less: the higher", []element{of("10.0.0.1:9100", "monitoring", "0.25"), of("w1", "tenant", "0.29")}, 0.29, false},
		{"two elsewhere differ", []element{of("10.8.0.1:80", "monitoring", "0.25"), of("10.8.0.2:80", "tenant", "0.9")}, 0, true},
		{"a third between the two", []element{of("w1", "a", "0.1"), of("w1", "b", "0.14"), of("w1", "c", "0.18")}, 0, true},
		{"pods of one target set, as in a rollout: the higher", []element{of("10.8.0.1:80", "monitoring", "0.25"), of("10.8.0.2:80", "monitoring", "0.9")}, 0.9, false},
		{"a number that is none contests nothing", []element{of("w1", "monitoring", "0.25"), of("w1", "tenant", "NaN")}, 0.25, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(tt.series...)})
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter, NodeLabels: []string{"node"}}, twoNodes()...)
			var log logged
			var batch source.Batch
			for range 3 {
				batch, _ = s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}})
			}
			if got := len(batch.Contested) == 1 && batch.Contested[0].Node == "w1"; got != tt.contested {
				t.Errorf("contested %+v, want w1: %t", batch.Contested, tt.contested)
			}
			if tt.contested != (len(batch.Samples) == 0) || !tt.contested && batch.Samples[0].Stats[0].Mean != tt.want {
				t.Errorf("samples %+v, want %v", batch.Samples, tt.want)
			}
			lines := log.take()
			if got := countContaining(lines, "scored by what their pods request"); (got == 1) != tt.contested {
				t.Errorf("%q, want one line about a contested node in three refreshes: %t", lines, tt.contested)
			}
			if tt.contested && !strings.Contains(strings.Join(lines, ""), "namespace=") {
				t.Errorf("%q, want the target sets", lines)
			}
		})
	}
}
