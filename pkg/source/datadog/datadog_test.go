package datadog

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

const (
	apiKey         = "4p1-k3y-0f-th3-t3st"
	applicationKey = "4pp-k3y-0f-th3-t3st"
	// minute is the beginning of a minute in seconds since 1970, and now is 20 s later.
	minute = 1_699_999_980
)

var now = time.Unix(minute+20, 0)

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func nodes(count int) []*corev1.Node {
	all := make([]*corev1.Node, count)
	for i := range all {
		all[i] = node(fmt.Sprintf("n%d", i))
	}
	return all
}

// metric is a metric of a host. The last value is of the minute that began 20 s ago; NaN is a null.
type metric struct {
	name, host, cluster string
	values              []float64
}

// stub speaks the part of the Datadog API that is used.
type stub struct {
	*httptest.Server
	metrics []metric
	// respond, unless nil, responds to the requests of a path.
	respond map[string]http.HandlerFunc

	mu       sync.Mutex
	requests []string
	bodies   []requestBody
}

func newStub(t *testing.T, metrics ...metric) *stub {
	t.Helper()
	s := &stub{metrics: metrics, respond: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	s.mu.Unlock()
	switch respond := s.respond[r.URL.Path]; {
	case respond != nil:
		respond(w, r)
	case r.Header.Get("DD-API-KEY") != apiKey || r.Header.Get("DD-APPLICATION-KEY") != applicationKey ||
		r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"errors":["Forbidden"]}`)
	case r.Method == http.MethodPost && r.URL.Path == "/api/v2/query/timeseries":
		s.timeseries(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/search":
		write(w, map[string]any{"results": map[string]any{"metrics": []string{"system.cpu.idle", "docker.cpu.usage"}, "hosts": nil}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

var queryPattern = regexp.MustCompile(`^(max|avg):([a-z_.]+)\{([^}]*)\} by \{host\}\.rollup\((max|avg), (\d+)\)$`)

func (s *stub) timeseries(w http.ResponseWriter, r *http.Request) {
	var body requestBody
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	a := body.Data.Attributes
	var times []int64
	for at := int64(minute) * 1000; at >= a.From; at -= a.Interval {
		times = append([]int64{at}, times...)
	}
	series, values := []any{}, []any{}
	for i, query := range a.Queries {
		parts := queryPattern.FindStringSubmatch(query.Query)
		if parts == nil || fmt.Sprint(a.Interval/1000) != parts[5] {
			panic(query.Query)
		}
		for _, m := range s.metrics {
			if m.name != parts[2] || !selected(m, parts[3]) {
				continue
			}
			row := make([]any, len(times)) // nulls
			for j := range row {
				if k := len(m.values) - len(row) + j; k >= 0 && !math.IsNaN(m.values[k]) {
					row[j] = m.values[k]
				}
			}
			series = append(series, map[string]any{"group_tags": []string{"host:" + m.host}, "query_index": i, "unit": []any{nil, nil}})
			values = append(values, row)
		}
	}
	write(w, responseOf(series, times, values))
}

func responseOf(series, times, values any) map[string]any {
	return map[string]any{"data": map[string]any{"id": "0", "type": "timeseries_response",
		"attributes": map[string]any{"series": series, "times": times, "values": values}}}
}

func selected(m metric, filter string) bool {
	for term := range strings.SplitSeq(filter, ",") {
		key, value, _ := strings.Cut(term, ":")
		switch {
		case key == "host" && strings.HasSuffix(m.host, strings.TrimPrefix(value, "*")):
		case key == "cluster_name" && m.cluster == value:
		default:
			return false
		}
	}
	return true
}

func write(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(err)
	}
}

// sent returns the requests so far, and forgets them.
func (s *stub) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

const (
	post   = "POST /api/v2/query/timeseries"
	lookup = "GET /api/v1/search?q=metrics%3A"
)

func newSource(t *testing.T, cfg hosted.Config, c *clocktesting.FakePassiveClock, nodes ...*corev1.Node) *Source {
	t.Helper()
	if cfg.BearerToken == "" && cfg.BearerTokenFile == "" {
		cfg.BearerToken, cfg.Key = apiKey, applicationKey
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute // as long as a busy machine may need
	}
	if cfg.Dialect == "" {
		cfg.Dialect = Utilization
	}
	s, err := New(cfg, sourcetest.Lister(t, nodes...), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Error(t, err, parts...)
	if strings.Contains(err.Error(), apiKey) || strings.Contains(err.Error(), applicationKey) {
		t.Errorf("error shows a secret: %s", err)
	}
}

func cpu(host string, percent ...float64) metric {
	return metric{name: "cpu.utilization", host: host, values: percent}
}

func memory(host string, percent ...float64) metric {
	return metric{name: "memory.utilization", host: host, values: percent}
}

func TestFetch_MeansAndDeviations(t *testing.T) {
	nan := math.NaN()
	server := newStub(t,
		cpu("n1", 99, 99, 99, 99, 99, 10, 20, 30, 40, 50), // ten minutes
		cpu("n2.example.com", 90, 90, 90, 90, 90, 20, nan, nan, nan, 40),
		memory("n1", 60, 60, 60, 60, 60, 60, 60, 60, 60, nan), // ends a minute earlier than cpu
		memory("n2.example.com", nan, nan),                    // nulls have no mean
	)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2.example.com"))
	got, err := sourcetest.Fetch(t, s, 10*time.Minute, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Unix(minute, 0)
	sourcetest.WantSamples(t, got, []load.Sample{
		// 5m: (10+20+30+40+50)/5 = 30, √((400+100+0+100+400)/5) = √200
		{
			Node: "n1", Window: 5 * time.Minute, End: end,
			Stats: load.Stats{load.CPU: {Mean: 0.3, StdDev: math.Sqrt(200) / 100, Known: true}},
		},
		{
			Node: "n1", Window: 5 * time.Minute, End: end.Add(-time.Minute),
			Stats: load.Stats{load.Memory: {Mean: 0.6, StdDev: 0, Known: true}},
		},
		// 10m: (5·99+150)/10 = 64.5; (5·34.5² + 54.5²+44.5²+34.5²+24.5²+14.5²)/10 = 1290.25
		{
			Node: "n1", Window: 10 * time.Minute, End: end,
			Stats: load.Stats{load.CPU: {Mean: 0.645, StdDev: math.Sqrt(1290.25) / 100, Known: true}},
		},
		// Nine points are nine minutes.
		{
			Node: "n1", Window: 10 * time.Minute, End: end.Add(-time.Minute),
			Stats: load.Stats{load.Memory: {Mean: 0.6, StdDev: 0, Span: 9 * time.Minute, Known: true}},
		},
		// 5m: (20+40)/2 = 30 ± 10: nulls are not zeros
		{Node: "n2.example.com", Window: 5 * time.Minute, End: end, Stats: load.Stats{{Mean: 0.3, StdDev: 0.1, Known: true}}},
		// 10m: (5·90+20+40)/7 = 510/7; (5·(120/7)² + (370/7)² + (230/7)²)/7 = 261800/343
		{
			Node: "n2.example.com", Window: 10 * time.Minute, End: end,
			Stats: load.Stats{{Mean: 5.1 / 7, StdDev: math.Sqrt(261800.0/343) / 100, Known: true}},
		},
	})
	if got := server.sent(); len(got) != 1 {
		t.Errorf("requests %v, want one for all nodes, resources and windows", got)
	}
}

func TestFetch_Request(t *testing.T) {
	server := newStub(t, cpu("n1.example.com", 10), memory("n1.example.com", 10))
	server.metrics[0].cluster, server.metrics[1].cluster = "prod", "prod"
	s := newSource(t, hosted.Config{Address: server.URL, ClusterName: "prod", HostNameSuffix: ".example.com"},
		clocktesting.NewFakePassiveClock(now), node("n1"))
	got, err := sourcetest.Fetch(t, s, 24*time.Hour, 10*time.Second, 5*time.Minute, 15*time.Minute)
	if err != nil || len(got) == 0 {
		t.Fatalf("samples %v, error %v", got, err)
	}
	want := func(seconds int64, span time.Duration) requestBody {
		return requestBody{Data: requestData{Type: "timeseries_request", Attributes: requestAttributes{
			From: now.Add(-span).UnixMilli(), To: now.UnixMilli(), Interval: seconds * 1000,
			Queries: []requestQuery{
				{
					DataSource: "metrics", Name: "cpu",
					Query: fmt.Sprintf("max:cpu.utilization{host:*.example.com,cluster_name:prod} by {host}.rollup(max, %d)", seconds),
				},
				{
					DataSource: "metrics", Name: "memory",
					Query: fmt.Sprintf("max:memory.utilization{host:*.example.com,cluster_name:prod} by {host}.rollup(max, %d)", seconds),
				},
			},
		}}}
	}
	// Points arrive late, so each request begins five minutes and a point before its longest window.
	if diff := cmp.Diff(
		[]requestBody{want(15, 325*time.Second), want(60, 21*time.Minute), want(300, 24*time.Hour+10*time.Minute)}, server.bodies,
	); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// The body is what version 2.67 of datadog-api-client-go sends for the same request, apart from the order of keys.
func TestFetch_BodyOfRequest(t *testing.T) {
	server := newStub(t)
	var got map[string]any
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			panic(err)
		}
		if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
			t.Errorf("content type %q", contentType)
		}
		// And this is how it writes a response.
		_, _ = fmt.Fprintf(w,
			`{"data":{"attributes":{"series":[{"group_tags":["host:n1"],"query_index":0}],"times":[%d000],"values":[[5.5]]}}}`, minute)
	}
	s := newSource(
		t, hosted.Config{Address: server.URL, CPUQuery: "q", MemoryQuery: "r"}, clocktesting.NewFakePassiveClock(now), node("n1"),
	)
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"data":{"attributes":{"from":1699999340000,"interval":60000,"queries":[
		{"data_source":"metrics","name":"cpu","query":"q"},{"data_source":"metrics","name":"memory","query":"r"}],
		"to":1700000000000},"type":"timeseries_request"}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestFetch_AgentDialect(t *testing.T) {
	server := newStub(t, metric{name: "system.cpu.idle", host: "n1", values: []float64{80, 60}},
		metric{name: "system.mem.pct_usable", host: "n1", values: []float64{0.25, 0.75}})
	s := newSource(t, hosted.Config{Address: server.URL, Dialect: Agent}, clocktesting.NewFakePassiveClock(now), node("n1"))
	got, err := sourcetest.Fetch(t, s, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	// (20+40)/2 = 30 % ± 10 busy; (0.75+0.25)/2 = 0.5 ± 0.25 not usable
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 2 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{
		{Mean: 0.3, StdDev: 0.1, Known: true}, {Mean: 0.5, StdDev: 0.25, Known: true}}}})
}

func TestFetch_AutoDialect(t *testing.T) {
	agent := []metric{
		{name: "system.cpu.idle", host: "n1", values: []float64{80}},
		{name: "system.mem.pct_usable", host: "n1", values: []float64{0.5}},
	}
	server := newStub(t, agent...)
	s := newSource(t, hosted.Config{Address: server.URL, Dialect: Auto}, clocktesting.NewFakePassiveClock(now), node("n1"))
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	refresh := func(wantRequests int, wantCPU float64) {
		t.Helper()
		batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		if got := batch.Samples[0].Stats[load.CPU].Mean; math.Abs(got-wantCPU) > 1e-9 {
			t.Errorf("cpu %v, want %v", got, wantCPU)
		}
		if got := server.sent(); len(got) != wantRequests {
			t.Errorf("requests %v, want %d", got, wantRequests)
		}
	}
	refresh(2, 0.2)
	refresh(1, 0.2)
	server.metrics = []metric{cpu("n1", 70), memory("n1", 70)}
	refresh(2, 0.7)
	server.metrics = append(server.metrics, agent...)
	refresh(1, 0.7)
	if len(lines) != 2 || !strings.Contains(lines[0], "DatadogAgent") || !strings.Contains(lines[1], "Utilization") {
		t.Errorf("log %q", lines)
	}

	server.metrics = nil
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "cpu: query max:cpu.utilization", "none of the dialects Utilization, DatadogAgent has a value",
		"system.cpu.idle, docker.cpu.usage")
}

func TestFetch_OwnQueries(t *testing.T) {
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, r *http.Request) {
		var body requestBody
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(err)
		}
		server.bodies = append(server.bodies, body)
		write(
			w,
			responseOf(
				[]any{
					map[string]any{"group_tags": []string{"zone:n2", "kube_node:n1"}, "query_index": 0},
					map[string]any{"group_tags": []string{"kube_node:n1"}, "query_index": 0},
				},
				[]any{minute * 1000}, []any{[]any{90}, []any{10}},
			),
		)
	}
	s := newSource(
		t,
		hosted.Config{
			Address: server.URL, ClusterName: "prod", Dialect: Auto,
			CPUQuery: "avg:my.cpu{$filter} by {kube_node}.rollup(avg, $interval)", MemoryQuery: "avg:my.mem{*} by {kube_node}",
		},
		clocktesting.NewFakePassiveClock(now), node("n1"),
	)
	got, err := sourcetest.Fetch(t, s, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{
		load.CPU: {Mean: 0.1, StdDev: math.NaN(), Span: time.Minute, Known: true}}}})
	queries := server.bodies[0].Data.Attributes.Queries
	if queries[0].Query != "avg:my.cpu{host:*,cluster_name:prod} by {kube_node}.rollup(avg, 60)" ||
		queries[1].Query != "avg:my.mem{*} by {kube_node}" {
		t.Errorf("queries %v", queries)
	}
	if len(server.bodies) != 1 {
		t.Errorf("%d requests, although no resource is left to a dialect", len(server.bodies))
	}
}

// A skipped series must not shift the values of later ones.
func TestFetch_SeriesThatAreSkipped(t *testing.T) {
	one := func(index any, tags ...any) map[string]any {
		return map[string]any{"group_tags": tags, "query_index": index}
	}
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, _ *http.Request) {
		write(w, responseOf([]any{
			one(nil, "host:n1"),
			one(0),
			one(0, "host:n1", "host:n9"),
			one(7, "host:n1"),
			one(-1, "host:n1"),
			one(0, 5),
			one(0, "host:n2"),
			one(1, "host:n1"),
			one(1, "env:x", "host:n2"),
		}, []any{minute * 1000}, []any{[]any{91}, []any{92}, []any{10}, []any{93}, []any{94}, []any{95}, []any{20}, []any{30},
			[]any{40}}))
	}
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	// A window of a minute has points of 15 s, of which there is one.
	stat := func(mean float64) load.Stat {
		return load.Stat{Mean: mean, StdDev: math.NaN(), Span: 15 * time.Second, Known: true}
	}
	sourcetest.WantSamples(t, batch.Samples, []load.Sample{
		{Node: "n1", Window: time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{stat(0.1), stat(0.3)}},
		{Node: "n2", Window: time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{stat(0.2), stat(0.4)}},
	})
	if batch.UnmatchedCount != 2 { // the second and the sixth series
		t.Errorf("%d unmatched, want 2", batch.UnmatchedCount)
	}
}

// An unreadable part of a response does not affect the rest.
func TestFetch_MalformedSeries(t *testing.T) {
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = sourcetest.Respond(200, "", "", fmt.Sprintf(`{"errors":[],"data":{"attributes":{
		"series":[{"group_tags":["host:n1"],"query_index":0},{"group_tags":["host:n2"],"query_index":0},
			{"group_tags":5,"query_index":0},{"group_tags":["host:n4"],"query_index":0},5],
		"times":[%d000,%d000],"values":[["NaN",10],7,[20,20],[{},40],[50]]}}}`, minute-60, minute))
	s := newSource(t, hosted.Config{Address: server.URL, MemoryQuery: "q"}, clocktesting.NewFakePassiveClock(now), nodes(5)...)
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
	batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, sample := range batch.Samples {
		got = append(got, fmt.Sprint(sample.Node, " ", sample.Stats[load.CPU].Mean))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"n1 0.1", "n4 0.4"}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "1 series have unreadable values: n2") ||
		!strings.Contains(lines[1], "series 2 without a host") || strings.Contains(lines[0], "partial") { // an empty list is no error
		t.Errorf("log %q", lines)
	}
}

// Points of a host whose clock is ahead neither hide those of the present nor stay fresh.
func TestFetch_PointsOfTheFuture(t *testing.T) {
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = sourcetest.Respond(200, "", "", fmt.Sprintf(`{"data":{"attributes":{
		"series":[{"group_tags":["host:n1"],"query_index":0},{"group_tags":["host:n2"],"query_index":0}],
		"times":[%d000,%d000],"values":[[10,50],[null,50]]}}}`, minute, minute+3600))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(3)...)
	got, err := sourcetest.Fetch(t, s, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{
		load.CPU: {Mean: 0.1, StdDev: math.NaN(), Span: time.Minute, Known: true}}}})
}

// A point of five minutes is complete only five minutes after its time.
func TestFetch_LongWindow(t *testing.T) {
	server := newStub(t, cpu("n1", 10, 20, math.NaN()), cpu("n2", 10, math.NaN(), math.NaN(), math.NaN()))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	got, err := sourcetest.Fetch(t, s, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 2 * time.Hour, End: time.Unix(minute-300, 0), Stats: load.Stats{
		load.CPU: {Mean: 0.15, StdDev: 0.05, Span: 10 * time.Minute, Known: true}}}})
}

func TestFetch_LargeCluster(t *testing.T) {
	const count = 5000
	hour := make([]float64, 65)
	for i := range hour {
		hour[i] = 84.64246793530153
	}
	var all []metric
	for i := range count {
		all = append(all, cpu(fmt.Sprint("n", i), hour...), memory(fmt.Sprint("n", i), hour...))
	}
	server := newStub(t, all...)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(count)...)
	got, err := sourcetest.Fetch(t, s, 5*time.Minute, time.Hour)
	if err != nil || len(got) != 2*count {
		t.Errorf("%d samples, want %d; error %v", len(got), 2*count, err)
	}
}

func TestFetch_Hosts(t *testing.T) {
	for name, tt := range map[string]struct {
		suffix  string
		metrics []metric
		nodes   []*corev1.Node
		// want are the means by node.
		want      map[string]float64
		unmatched int
	}{
		"names with dots are not cut": {"", []metric{cpu("n1.a", 10), cpu("n1.b", 20)}, []*corev1.Node{node("n1.a"), node("n1.b")},
			map[string]float64{"n1.a": 0.1, "n1.b": 0.2}, 0},
		"a host of another cluster does not stand for a node": {"", []metric{cpu("n1", 10), cpu("n1.other", 90)},
			[]*corev1.Node{node("n1")},
			map[string]float64{"n1": 0.1}, 1},
		"the suffix that the agent adds is dropped": {"-prod", []metric{cpu("n1.eu-prod", 10)}, []*corev1.Node{node("n1.eu")},
			map[string]float64{"n1.eu": 0.1}, 0},
		"the node's own name wins": {"", []metric{cpu("N1", 90), cpu("n1", 10)}, []*corev1.Node{node("n1")},
			map[string]float64{"n1": 0.1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, tt.metrics...)
			s := newSource(
				t,
				hosted.Config{Address: server.URL, HostNameSuffix: tt.suffix},
				clocktesting.NewFakePassiveClock(now),
				tt.nodes...)
			batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, sample := range batch.Samples {
				got[sample.Node] = sample.Stats[load.CPU].Mean
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("means (-want +got):\n%s", diff)
			}
			if batch.UnmatchedCount != tt.unmatched {
				t.Errorf("%d unmatched, want %d", batch.UnmatchedCount, tt.unmatched)
			}
		})
	}
}

func TestFetch_NoHostIsANode(t *testing.T) {
	server := newStub(t, cpu("n1-prod", 10), memory("n1-prod", 10))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "cpu: query max:cpu.utilization{host:*} by {host}.rollup(max, 60) at "+server.URL,
		"none of 1 series belongs to a Node: n1-prod: set hostNameSuffix")
	if got := server.sent(); len(got) != 1 {
		t.Errorf("requests %v: the metric is there, and need not be looked up", got)
	}
	server.metrics = []metric{cpu("n1", 10, math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN())}
	_, err = sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "none of the 1 series of Nodes has a recent point: check the Nodes' agent and clocks")
}

func TestFetch_Errors(t *testing.T) {
	attributes := func(text string) string { return `{"data":{"attributes":{` + text + `}}}` }
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		want    []string
	}{
		"401": {sourcetest.Respond(401, "", "", `{"errors":["Unauthorized"]}`), []string{"status 401", "Unauthorized",
			"the API key (token, tokenFile) is missing, wrong, revoked", "https://api.<site>"}},
		"403": {sourcetest.Respond(403, "", "", `{"errors":["Forbidden"]}`), []string{"status 403", "Forbidden",
			"application key (applicationKey, applicationKeyFile)", "lacks the scope timeseries_query"}},
		"404": {sourcetest.Respond(404, "", "", ""), []string{"status 404", "set address to https://api.<site>"}},
		"400": {sourcetest.Respond(400, "", "", `{"errors":["Query parse error"]}`), []string{"status 400",
			"Query parse error", "if queries, clusterName or hostNameSuffix are set, check them"}},
		"500": {sourcetest.Respond(500, "", "", ""), []string{"status 500"}},
		"no JSON": {sourcetest.Respond(200, "", "", "<html>"), []string{"the response is not complete JSON", "invalid character",
			"check that address is the API's"}},
		"no data": {sourcetest.Respond(200, "", "", "{}"), []string{"not a response of the Datadog API: no \"data\" field"}},
		"an error in the response": {sourcetest.Respond(200, "", "", `{"errors":"query timed out"}`),
			[]string{"the response is partial: query timed out"}},
		"errors in a list": {sourcetest.Respond(200, "", "", `{"errors":["query timed out"]}`),
			[]string{`the response is partial: ["query timed out"]`}},
		"fewer values than series": {sourcetest.Respond(200, "", "", attributes(`"series":[{},{}],"times":[1],"values":[[1]]`)),
			[]string{"2 series and values of 1"}},
		"fewer times than values": {sourcetest.Respond(200, "", "", attributes(`"series":[{}],"times":[1],"values":[[1,2]]`)),
			[]string{"1 times and a series of 2 values"}},
		"more values than asked for": {sourcetest.Respond(200, "", "", attributes(`"values":[[1,2,3,4,5,6,7,8,9,10,11,12,13,14]]`)),
			[]string{"14 points, more than the requested 13", "$interval"}},
		"a time that is none": {sourcetest.Respond(200, "", "", attributes(`"times":[null]`)), []string{"NaN is no time"}},
		"a row that is no list": {sourcetest.Respond(200, "", "", attributes(`"series":[{"group_tags":["host:n1"]}],"values":[5]`)),
			[]string{"1 series have unreadable values: n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond["/api/v2/query/timeseries"] = tt.respond
			s := newSource(t, hosted.Config{Address: server.URL, Dialect: Auto}, clocktesting.NewFakePassiveClock(now), node("n1"))
			_, err := sourcetest.Fetch(t, s, 5*time.Minute)
			wantError(t, err, append(tt.want, "POST "+server.URL+"/api/v2/query/timeseries: ")...)
			if got := server.sent(); len(got) != 1 {
				t.Errorf("requests %v after an error, want one", got)
			}
		})
	}
}

func TestFetch_PartialResponse(t *testing.T) {
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, _ *http.Request) {
		response := responseOf([]any{map[string]any{"group_tags": []string{"host:n1"}, "query_index": 0}}, []any{minute * 1000},
			[]any{[]any{10}})
		response["errors"] = "memory timed out"
		write(w, response)
	}
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	for range 2 {
		batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
		if err != nil || len(batch.Samples) != 1 {
			t.Fatalf("samples %v, error %v", batch.Samples, err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "memory timed out") {
		t.Errorf("log %q", lines)
	}
}

func TestFetch_UnknownMetric(t *testing.T) {
	server := newStub(t, cpu("n1", 10))
	c := clocktesting.NewFakePassiveClock(now)
	s := newSource(t, hosted.Config{Address: server.URL}, c, node("n1"))
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	refresh := func(want ...string) {
		t.Helper()
		if _, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, server.sent()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	refresh(post, lookup+"mem")
	refresh(post) // names are looked up every five minutes, not at each refresh
	c.SetTime(now.Add(5 * time.Minute))
	refresh(post, lookup+"mem")
	if len(lines) != 1 || !strings.Contains(lines[0], "memory: query max:memory.utilization{host:*} by {host}.rollup(max, 60)") ||
		!strings.Contains(lines[0], `the account has system.cpu.idle, docker.cpu.usage: set queries.memory`) {
		t.Errorf("log %q", lines)
	}
}

// If the lookup of names is refused, the query before it was accepted, so the keys are valid.
func TestFetch_LookupRefused(t *testing.T) {
	server := newStub(t)
	server.respond["/api/v1/search"] = sourcetest.Respond(http.StatusForbidden, "", "", "")
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "status 403", "the application key lacks the scope metrics_read")
	if strings.Contains(err.Error(), "timeseries_query") {
		t.Errorf("error %q", err)
	}
}

func TestFetch_RateLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		path          string
		header, value string
		wait          time.Duration
	}{
		"seconds until the reset": {"/api/v2/query/timeseries", "X-RateLimit-Reset", "42", 42 * time.Second},
		"seconds to wait":         {"/api/v2/query/timeseries", "Retry-After", "17", 17 * time.Second},
		"nothing":                 {"/api/v2/query/timeseries", "", "", time.Minute},
		"of the lookup of names":  {"/api/v1/search", "X-RateLimit-Reset", "30", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond[tt.path] = sourcetest.Respond(http.StatusTooManyRequests, tt.header, tt.value, `{"errors":["Too many requests"]}`)
			c := clocktesting.NewFakePassiveClock(now)
			s := newSource(t, hosted.Config{Address: server.URL, Dialect: Auto}, c, node("n1"))
			reset := now.Add(tt.wait).UTC().Format("15:04:05 UTC")
			_, err := sourcetest.Fetch(t, s, 5*time.Minute, 24*time.Hour)
			wantError(t, err, "status 429", "Too many requests", "no query is sent before "+reset)
			if got := server.sent(); tt.path != "/api/v1/search" && len(got) != 1 {
				t.Errorf("requests %v, want none after the refusal", got)
			}
			delete(server.respond, tt.path)
			server.metrics = []metric{cpu("n1", 10, 10, 10), memory("n1", 10, 10, 10)}

			c.SetTime(now.Add(tt.wait - time.Millisecond))
			_, err = sourcetest.Fetch(t, s, 5*time.Minute)
			wantError(t, err, "no query is sent before "+reset)
			if got := server.sent(); len(got) != 0 {
				t.Errorf("requests %v before the reset", got)
			}

			c.SetTime(now.Add(tt.wait))
			if got, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil || len(got) != 1 {
				t.Errorf("after the reset: samples %v, error %v", got, err)
			}
		})
	}
}

func TestFetch_KeyFilesRotate(t *testing.T) {
	server := newStub(t, cpu("n1", 10), memory("n1", 10))
	files := [2]string{filepath.Join(t.TempDir(), "api"), filepath.Join(t.TempDir(), "application")}
	writeKeys := func(keys ...string) {
		for i, key := range keys {
			if err := os.WriteFile(files[i], []byte(key+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newSource(t, hosted.Config{Address: server.URL, Config: httpclient.Config{BearerTokenFile: files[0], KeyFile: files[1]}},
		clocktesting.NewFakePassiveClock(now), node("n1"))
	for _, keys := range [][]string{{apiKey, "old"}, {"old", applicationKey}} {
		writeKeys(keys...)
		_, err := sourcetest.Fetch(t, s, 5*time.Minute)
		wantError(t, err, "status 403")
	}
	writeKeys(apiKey, applicationKey)
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil {
		t.Error(err)
	}
}

func TestFetch_Refused(t *testing.T) {
	server := newStub(t)
	c := clocktesting.NewFakePassiveClock(now)
	_, err := sourcetest.Fetch(t, newSource(t, hosted.Config{Address: server.URL}, c), 5*time.Minute)
	wantError(t, err, "no Node is known")
	_, err = sourcetest.Fetch(t, newSource(t, hosted.Config{Address: server.URL}, c, node("n1")))
	wantError(t, err, "need at least one")
	_, err = sourcetest.Fetch(t, newSource(t, hosted.Config{Address: server.URL}, c, node("n1")), 0)
	wantError(t, err, "positive windows")
	if got := server.sent(); len(got) != 0 {
		t.Errorf("requests %v", got)
	}
}
