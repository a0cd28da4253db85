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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

// The request of POST /api/v2/query/timeseries. From, To and Interval are in milliseconds.
type (
	requestBody struct {
		Data requestData `json:"data"`
	}
	requestData struct {
		Type       string            `json:"type"`
		Attributes requestAttributes `json:"attributes"`
	}
	requestAttributes struct {
		From     int64          `json:"from"`
		To       int64          `json:"to"`
		Interval int64          `json:"interval"`
		Queries  []requestQuery `json:"queries"`
	}
	requestQuery struct {
		DataSource string `json:"data_source"`
		Name       string `json:"name"`
		Query      string `json:"query"`
	}
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
	return map[string]any{"data": map[string]any{"id": "0", "type": "timeseries_response", "attributes": map[string]any{"series": series, "times": times, "values": values}}}
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
	s := check.Value(New(cfg, sourcetest.Lister(t, nodes...), c))(t)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	return s
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Error(t, err, parts...)
	check.Lacks(t, err.Error(), apiKey, applicationKey)
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
	got := check.Value(sourcetest.Fetch(t, s, 10*time.Minute, 5*time.Minute))(t)
	end := time.Unix(minute, 0)
	sourcetest.WantSamples(t, got, []load.Sample{
		// 5m: (10+20+30+40+50)/5 = 30, √((400+100+0+100+400)/5) = √200
		{Node: "n1", Window: 5 * time.Minute, End: end, Stats: load.Stats{load.CPU: {Mean: 0.3, StdDev: math.Sqrt(200) / 100, Known: true}}},
		{Node: "n1", Window: 5 * time.Minute, End: end.Add(-time.Minute), Stats: load.Stats{load.Memory: {Mean: 0.6, StdDev: 0, Known: true}}},
		// 10m: (5·99+150)/10 = 64.5; (5·34.5² + 54.5²+44.5²+34.5²+24.5²+14.5²)/10 = 1290.25
		{Node: "n1", Window: 10 * time.Minute, End: end, Stats: load.Stats{load.CPU: {Mean: 0.645, StdDev: math.Sqrt(1290.25) / 100, Known: true}}},
		// Nine points are nine minutes.
		{Node: "n1", Window: 10 * time.Minute, End: end.Add(-time.Minute), Stats: load.Stats{load.Memory: {Mean: 0.6, StdDev: 0, Span: 9 * time.Minute, Known: true}}},
		// 5m: (20+40)/2 = 30 ± 10: nulls are not zeros
		{Node: "n2.example.com", Window: 5 * time.Minute, End: end, Stats: load.Stats{{Mean: 0.3, StdDev: 0.1, Known: true}}},
		// 10m: (5·90+20+40)/7 = 510/7; (5·(120/7)² + (370/7)² + (230/7)²)/7 = 261800/343
		{Node: "n2.example.com", Window: 10 * time.Minute, End: end, Stats: load.Stats{{Mean: 5.1 / 7, StdDev: math.Sqrt(261800.0/343) / 100, Known: true}}},
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
				{DataSource: "metrics", Name: "cpu", Query: fmt.Sprintf("max:cpu.utilization{host:*.example.com,cluster_name:prod} by {host}.rollup(max, %d)", seconds)},
				{DataSource: "metrics", Name: "memory", Query: fmt.Sprintf("max:memory.utilization{host:*.example.com,cluster_name:prod} by {host}.rollup(max, %d)", seconds)},
			},
		}}}
	}
	// Points arrive late, so each request begins five minutes and a point before its longest window.
	check.Equal(t, "requests",
		[]requestBody{want(15, 325*time.Second), want(60, 21*time.Minute), want(300, 24*time.Hour+10*time.Minute)}, server.bodies)
}

// The body is what version 2.67 of datadog-api-client-go sends for the same request, apart from the order of keys.
func TestFetch_BodyOfRequest(t *testing.T) {
	server := newStub(t)
	var got map[string]any
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			panic(err)
		}
		check.Equal(t, "content type", "application/json", r.Header.Get("Content-Type"))
		// And this is how it writes a response.
		_, _ = fmt.Fprintf(w,
			`{"data":{"attributes":{"series":[{"group_tags":["host:n1"],"query_index":0}],"times":[%d000],"values":[[5.5]]}}}`, minute)
	}
	s := newSource(
		t, hosted.Config{Address: server.URL, CPUQuery: "q", MemoryQuery: "r"}, clocktesting.NewFakePassiveClock(now), node("n1"),
	)
	check.Value(sourcetest.Fetch(t, s, 5*time.Minute))(t)
	var want map[string]any
	check.OK(t, json.Unmarshal([]byte(`{"data":{"attributes":{"from":1699999340000,"interval":60000,"queries":[
		{"data_source":"metrics","name":"cpu","query":"q"},{"data_source":"metrics","name":"memory","query":"r"}],
		"to":1700000000000},"type":"timeseries_request"}}`), &want))
	check.Equal(t, "body", want, got)
}

func TestFetch_AgentDialect(t *testing.T) {
	server := newStub(t, metric{name: "system.cpu.idle", host: "n1", values: []float64{80, 60}},
		metric{name: "system.mem.pct_usable", host: "n1", values: []float64{0.25, 0.75}})
	s := newSource(t, hosted.Config{Address: server.URL, Dialect: Agent}, clocktesting.NewFakePassiveClock(now), node("n1"))
	got := check.Value(sourcetest.Fetch(t, s, 2*time.Minute))(t)
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
		batch := check.Value(s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}}))(t)
		check.Equal(t, "cpu", wantCPU, batch.Samples[0].Stats[load.CPU].Mean, cmpopts.EquateApprox(0, 1e-9))
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
		"no series: set queries.cpu to a metric of the account", "check clusterName and hostNameSuffix")
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
				[]any{map[string]any{"group_tags": []string{"zone:n2", "kube_node:n1"}, "query_index": 0}, map[string]any{"group_tags": []string{"kube_node:n1"}, "query_index": 0}},
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
	got := check.Value(sourcetest.Fetch(t, s, 5*time.Minute))(t)
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{
		load.CPU: {Mean: 0.1, StdDev: math.NaN(), Span: time.Minute, Known: true}}}})
	queries := server.bodies[0].Data.Attributes.Queries
	if queries[0].Query != "avg:my.cpu{host:*,cluster_name:prod} by {kube_node}.rollup(avg, 60)" ||
		queries[1].Query != "avg:my.mem{*} by {kube_node}" {
		t.Errorf("queries %v", queries)
	}
	check.Equal(t, "requests, although no resource is left to a dialect", 1, len(server.bodies))
}

// A skipped series must not shift the values of later ones.
func TestFetch_SeriesThatAreSkipped(t *testing.T) {
	one := func(index any, tags ...any) map[string]any {
		return map[string]any{"group_tags": tags, "query_index": index}
	}
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, _ *http.Request) {
		write(w, responseOf([]any{
			one(nil, "host:n1"), one(0), one(0, "host:n1", "host:n9"), one(7, "host:n1"), one(-1, "host:n1"), one(0, "n2"), one(0, "host:n2"),
			one(1, "host:n1"), one(1, "env:x", "host:n2"),
		}, []any{minute * 1000}, []any{[]any{91}, []any{92}, []any{10}, []any{93}, []any{94}, []any{95}, []any{20}, []any{30}, []any{40}}))
	}
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{time.Minute}}))(t)
	// A window of a minute has points of 15 s, of which there is one.
	stat := func(mean float64) load.Stat {
		return load.Stat{Mean: mean, StdDev: math.NaN(), Span: 15 * time.Second, Known: true}
	}
	sourcetest.WantSamples(t, batch.Samples, []load.Sample{
		{Node: "n1", Window: time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{stat(0.1), stat(0.3)}},
		{Node: "n2", Window: time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{stat(0.2), stat(0.4)}},
	})
	if batch.UnmatchedCount != 1 { // "a series without a host", as the second and the sixth
		t.Errorf("%d unmatched, want 1", batch.UnmatchedCount)
	}
}

// A point of five minutes is complete only five minutes after its time.
func TestFetch_LongWindow(t *testing.T) {
	server := newStub(t, cpu("n1", 10, 20, math.NaN()), cpu("n2", 10, math.NaN(), math.NaN(), math.NaN()))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	got := check.Value(sourcetest.Fetch(t, s, 2*time.Hour))(t)
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 2 * time.Hour, End: time.Unix(minute-300, 0), Stats: load.Stats{
		load.CPU: {Mean: 0.15, StdDev: 0.05, Span: 10 * time.Minute, Known: true}}}})
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
		"500":                      {sourcetest.Respond(500, "", "", ""), []string{"status 500"}},
		"no JSON":                  {sourcetest.Respond(200, "", "", "<html>"), []string{"the response is not complete JSON", "invalid character", "check that address is the API's"}},
		"no data":                  {sourcetest.Respond(200, "", "", "{}"), []string{"not a response of the Datadog API: no \"data\" field"}},
		"an error in the response": {sourcetest.Respond(200, "", "", `{"errors":"query timed out"}`), []string{"the response is partial: query timed out"}},
		"errors in a list":         {sourcetest.Respond(200, "", "", `{"errors":["query timed out"]}`), []string{`the response is partial: ["query timed out"]`}},
		"fewer values than series": {sourcetest.Respond(200, "", "", attributes(`"series":[{},{}],"times":[1],"values":[[1]]`)), []string{"2 series and values of 1"}},
		"fewer times than values":  {sourcetest.Respond(200, "", "", attributes(`"series":[{}],"times":[1],"values":[[1,2]]`)), []string{"1 times and a series of 2 values"}},
		"more values than asked for": {sourcetest.Respond(200, "", "", attributes(`"values":[[1,2,3,4,5,6,7,8,9,10,11,12,13,14]]`)),
			[]string{"14 points, more than the requested 13", "$interval"}},
		"a time that is none":     {sourcetest.Respond(200, "", "", attributes(`"times":[null]`)), []string{"NaN is no time"}},
		"a row that is no list":   {sourcetest.Respond(200, "", "", attributes(`"values":[5]`)), []string{"cannot unmarshal number"}},
		"tags that are no list":   {sourcetest.Respond(200, "", "", attributes(`"series":[{"group_tags":5}]`)), []string{"cannot unmarshal number"}},
		"a tag that is no string": {sourcetest.Respond(200, "", "", attributes(`"series":[{"group_tags":[5]}]`)), []string{"cannot unmarshal number"}},
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

func TestFetch_RateLimit(t *testing.T) {
	const wait = 42 * time.Second
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] =
		sourcetest.Respond(http.StatusTooManyRequests, "X-RateLimit-Reset", "42", `{"errors":["Too many requests"]}`)
	c := clocktesting.NewFakePassiveClock(now)
	s := newSource(t, hosted.Config{Address: server.URL, Dialect: Auto}, c, node("n1"))
	reset := now.Add(wait).UTC().Format("15:04:05 UTC")
	_, err := sourcetest.Fetch(t, s, 5*time.Minute, 24*time.Hour)
	wantError(t, err, "status 429", "Too many requests", "no query is sent before "+reset)
	if got := server.sent(); len(got) != 1 {
		t.Errorf("requests %v, want none after the refusal", got)
	}
	delete(server.respond, "/api/v2/query/timeseries")
	server.metrics = []metric{cpu("n1", 10, 10, 10), memory("n1", 10, 10, 10)}
	for after, sends := range map[time.Duration]bool{wait - time.Millisecond: false, wait: true, -24 * time.Hour: true /* the clock went back */} {
		c.SetTime(now.Add(after))
		if _, err := sourcetest.Fetch(t, s, 5*time.Minute); !sends {
			wantError(t, err, "no query is sent before "+reset)
		}
		if got := server.sent(); (len(got) > 0) != sends {
			t.Errorf("requests %v after %v", got, after)
		}
	}
}

func TestFetch_KeyFilesRotate(t *testing.T) {
	server := newStub(t, cpu("n1", 10), memory("n1", 10))
	files := [2]string{filepath.Join(t.TempDir(), "api"), filepath.Join(t.TempDir(), "application")}
	writeKeys := func(keys ...string) {
		for i, key := range keys {
			check.OK(t, os.WriteFile(files[i], []byte(key+"\n"), 0o600))
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
	check.Value(sourcetest.Fetch(t, s, 5*time.Minute))(t)
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

func TestMain(m *testing.M) { leak.Main(m) }

// FuzzDecodeResponse expects that each series is of one of the queries, and that a mean is a number.
func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"id":"0","attributes":{"series":[{"group_tags":["host:n0"],"query_index":0,"unit":null}],"times":[1728623040000,` +
			`1728623100000],"values":[[5.8,null]]}}}`,
		`{"data":{"attributes":{"values":[[1],[]],"times":[1],"series":[{"query_index":1,"group_tags":["a","b:c"]},{"query_index":9}` +
			`]}},"errors":"x"}`,
		`{"errors":["Forbidden"]}`, `{"data":null}`, `{"data":{"attributes":{"series":[null],"times":null,"values":[null]}}}`,
		`{"data":{"attributes":{"series":[{"group_tags":["host:n0"],"query_index":0}],"times":[1,2],"values":[[1e308,1e308]]}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rng := hosted.Range{Step: time.Minute, Windows: []time.Duration{5 * time.Minute, 15 * time.Minute}}
		response, err := decodeResponse(jsonstream.NewDecoder(strings.NewReader(body), 1000), rng)
		if err != nil {
			return
		}
		table := hosted.NewTable(nodes(1), "", func(text string) string { return text })
		queries := (&Source{}).queries(Agent, time.Minute)
		visited := 0
		response.each(queries, rng, now, func(host string, r load.Resource, one hosted.Series) {
			visited++
			if r < 0 || r >= load.ResourceCount {
				t.Errorf("host %q has resource %d", host, r)
			}
			table.Offer("n0", r, rng, time.Time{}, one)
		})
		if visited > len(response.series) {
			t.Errorf("%d series of %d", visited, len(response.series))
		}
		for _, sample := range table.Samples(rng.Windows) {
			for _, stat := range sample.Stats {
				if stat.Known && math.IsNaN(stat.Mean) || stat.Span < 0 || sample.End.IsZero() {
					t.Errorf("sample %+v", sample)
				}
			}
		}
	})
}

const attributesHead = `{"data":{"attributes":{`

func TestFetch_HostileServer(t *testing.T) {
	const (
		count = 200
		// budget is the accepted size of ten minutes of cpu and memory.
		budget  = 2 * (1<<20 + count*(4<<10+13*40))
		tooMany = "the bound for 200 nodes"
		tooLong = "a value is larger than 65536 bytes"
	)
	thirteen := strings.TrimSuffix(strings.Repeat("1,", 13), ",")
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		want    string
	}{
		"series":               {sourcetest.Endless(attributesHead+`"series":[`, `{},`), tooMany},
		"long series":          {sourcetest.Endless(attributesHead+`"series":[`, `{"group_tags":["host:`+strings.Repeat("x", 10_000)+`"]},`), tooMany},
		"tags":                 {sourcetest.Endless(attributesHead+`"series":[{"group_tags":[`, `"",`), tooLong},
		"rows":                 {sourcetest.Endless(attributesHead+`"values":[`, `[],`), tooMany},
		"rows of values":       {sourcetest.Endless(attributesHead+`"values":[`, `[`+thirteen+`],`), tooMany},
		"values of a row":      {sourcetest.Endless(attributesHead+`"values":[[`, `1,`), tooLong},
		"a long row":           {sourcetest.Endless(attributesHead+`"values":[`, `[`+thirteen+`,1],`), "14 points, more than the requested 13"},
		"times":                {sourcetest.Endless(attributesHead+`"times":[`, `1,`), tooLong},
		"many times":           {sourcetest.Endless(attributesHead, `"times":[`+thirteen+`],`), tooMany},
		"a long list of times": {sourcetest.Endless(attributesHead, `"times":[`+thirteen+`,1],`), "14 points, more than the requested 13"},
		"deep nesting":         {sourcetest.Endless(attributesHead+`"values":[`, "["), "exceeded max depth"},
		"errors":               {sourcetest.Endless(`{"errors":"`, "x"), tooLong},
		"unknown keys":         {sourcetest.Endless(`{`, `"a":1,`), tooMany},
		"white space":          {sourcetest.Endless(`{`, " "), tooLong},
		"what is not JSON":     {sourcetest.Endless("<html>", "x"), "invalid character"},
		"an error":             {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); sourcetest.Endless("no ", "x")(w, r) }, "status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond["/api/v2/query/timeseries"] = tt.respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(count)...)
			wantError(t, sourcetest.FetchHostile(t, s, 5*time.Minute, 3*budget), tt.want)
		})
	}
}

func TestFetch_SlowServer(t *testing.T) {
	server := newStub(t)
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, attributesHead)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	s := newSource(
		t, hosted.Config{Address: server.URL, Config: httpclient.Config{BearerToken: apiKey, Timeout: 200 * time.Millisecond}},
		clocktesting.NewFakePassiveClock(now), node("n1"),
	)
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "no complete response within the timeout of 200ms")
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := apiKey + applicationKey + "\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	escaped := apiKey + applicationKey + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	const path = "/api/v2/query/timeseries"
	series := func(host string) string { return `{"group_tags":["host:` + host + `"],"query_index":0}` }
	for name, respond := range map[string]map[string]http.HandlerFunc{
		"errors and names": {path: sourcetest.Respond(200, "", "",
			fmt.Sprintf(`%s"series":[%s,%s],"times":[%d000],"values":[[1],[1]]}},"errors":"%s"}`,
				attributesHead, series("n1"), series(escaped), minute, escaped))},
		"hosts":        {path: sourcetest.Respond(200, "", "", attributesHead+`"series":[`+series(escaped)+`],"values":[[]]}}}`)},
		"an error":     {path: sourcetest.Respond(400, "", "", evil)},
		"no JSON":      {path: sourcetest.Respond(200, "", "", "<html>"+evil)},
		"a number":     {path: sourcetest.Respond(200, "", "", attributesHead+`"values":[["`+escaped+`"]]}}}`)},
		"a rate limit": {path: sourcetest.Respond(429, "X-RateLimit-Reset", strings.Repeat("9", 1000)+apiKey, evil)},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond = respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
			sourcetest.CheckTextOfServer(t, s, apiKey, applicationKey)
		})
	}
}
