package server

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// end is 1,700,000,000 seconds after the epoch, as in compatibility.md.
var end = time.Date(2023, time.November, 14, 22, 13, 20, 0, time.UTC)

// nodes are the nodes of a cluster. Each encoded response counts as one call.
type nodes struct {
	names []string
	mu    sync.Mutex
	asked int
}

func (n *nodes) HasSynced() bool { return true }
func (n *nodes) Names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return n.names
}

// measurement is one over the window. Its mean moves by drift, a fraction of capacity, a minute.
func measurement(mean, deviation float64, window time.Duration, end time.Time, drift float64) load.Measurement {
	return load.Measurement{Stat: load.Stat{Mean: mean, StdDev: deviation, Known: true}, Window: window, End: end, Drift: drift}
}

type fixture struct {
	config  Config
	nodes   *nodes
	clock   *clocktesting.FakeClock
	server  *Server
	metrics metrics.KubeRegistry
}

// newFixture serves a window of 5 minutes and, on request, of 15. It trusts steady nodes for 5 minutes.
// Nodes that move by 10 points in t are trusted for t, but at least one minute.
func newFixture(t *testing.T, tokenFile string, names ...string) *fixture {
	t.Helper()
	f := &fixture{nodes: &nodes{names: names}, clock: clocktesting.NewFakeClock(end), metrics: metrics.NewKubeRegistry()}
	f.config = Config{
		Source: "Prometheus", Publisher: load.NewPublisher(), Nodes: f.nodes, Window: 5 * time.Minute,
		Windows: []time.Duration{15 * time.Minute, 5 * time.Minute},
		Trust:   load.Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}, TokenFile: tokenFile,
		MaxConnections: 8, MaxRequests: 4,
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the metrics") }),
		Registry: f.metrics, Clock: f.clock,
	}
	server, err := New(t.Context(), f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.server = server
	return f
}

func (f *fixture) publish(loads map[time.Duration]map[string]load.NodeLoad) {
	f.config.Publisher.Publish(loadtest.Snapshot(loads, nil))
}

// publishTwo publishes n1, at a quarter of its cpu and half of its memory, and n2 with unknown memory.
// Windows ended 10 s ago. Over 15 minutes there is n1 alone.
func (f *fixture) publishTwo() {
	at := end.Add(-10 * time.Second)
	five, fifteen := 5*time.Minute, 15*time.Minute
	f.publish(map[time.Duration]map[string]load.NodeLoad{
		five: {
			"n1": {load.CPU: measurement(0.25, 0.125, five, at, 0), load.Memory: measurement(0.5, 0, five, at, 0)},
			"n2": {load.CPU: measurement(1, 0.0625, five, at, 0)},
		},
		fifteen: {"n1": {load.CPU: measurement(0.375, 0.25, fifteen, at, 0)}},
	})
}

func (f *fixture) get(t *testing.T, method, target string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// What is served of publishTwo. The window ends 10 s before 1,700,000,000 and starts 300 s, or 900 s, earlier.
const (
	headOf5m = `{"timestamp":1700000000,"window":{"duration":"5m","start":1699999690,"end":1699999990},"source":"Prometheus",` +
		`"data":{"NodeMetricsMap":{`
	headOf15m = `{"timestamp":1700000000,"window":{"duration":"15m","start":1699999090,"end":1699999990},"source":"Prometheus",` +
		`"data":{"NodeMetricsMap":{`
	n1Of5m = `"n1":{"metrics":[` +
		`{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"5m","value":25},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"5m","value":12.5},` +
		`{"name":"memory_utilization","type":"Memory","operator":"AVG","rollup":"5m","value":50},` +
		`{"name":"memory_utilization","type":"Memory","operator":"STD","rollup":"5m","value":0}],"tags":{},"metadata":{"dataCenter":""}}`
	n2Of5m = `"n2":{"metrics":[` +
		`{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"5m","value":100},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"5m","value":6.25}],"tags":{},"metadata":{"dataCenter":""}}`
	n1Of15m = `"n1":{"metrics":[` +
		`{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"15m","value":37.5},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"15m","value":25}],"tags":{},"metadata":{"dataCenter":""}}`
	tail = `}}}`
)

func TestResponses(t *testing.T) {
	f := newFixture(t, "", "n1", "n2")
	f.publishTwo()
	const json, plain = "application/json", "text/plain; charset=utf-8"
	for _, tc := range []struct {
		name, method, target string
		code                 int
		contentType, body    string
	}{
		{"all nodes, over the window that is configured", "GET", "/watcher", 200, json, headOf5m + n1Of5m + "," + n2Of5m + tail},
		{"a host", "GET", "/watcher?host=n2", 200, json, headOf5m + n2Of5m + tail},
		{"an empty host is none", "GET", "/watcher?host=", 200, json, headOf5m + n1Of5m + "," + n2Of5m + tail},
		{"an unknown host", "GET", "/watcher?host=X", 404, plain, "No metrics found for host X\n"},
		{"hosts are not told by case", "GET", "/watcher?host=N1", 404, plain, "No metrics found for host N1\n"},
		{"the window that is configured", "GET", "/watcher?window=5m", 200, json, headOf5m + n1Of5m + "," + n2Of5m + tail},
		{"another window", "GET", "/watcher?window=15m", 200, json, headOf15m + n1Of15m + tail},
		{"a host over another window", "GET", "/watcher?host=n1&window=15m", 200, json, headOf15m + n1Of15m + tail},
		{"a host that is not known over that window", "GET", "/watcher?host=n2&window=15m", 404, plain, "No metrics found for host n2\n"},
		{"a window that is not served", "GET", "/watcher?window=7m", 400, plain, "window \"7m\" is not served: request one of 5m, 15m\n"},
		{"a window that is none", "GET", "/watcher?window=long", 400, plain, "window \"long\" is not served: request one of 5m, 15m\n"},
		{"a query that is none", "GET", "/watcher?host=%zz", 400, plain, "the query cannot be parsed: invalid URL escape \"%zz\"\n"},
		{"health", "GET", "/watcher/health", 200, "", ""},
		{"healthz", "GET", "/healthz", 200, "", "ok"},
		{"metrics", "GET", "/metrics", 200, "", "the metrics"},
		{"another method", "POST", "/watcher", 405, plain, "Method Not Allowed\n"},
		{"another method of health", "PUT", "/watcher/health", 405, plain, "Method Not Allowed\n"},
		{"a path below", "GET", "/watcher/", 404, plain, "404 page not found\n"},
		{"the root", "GET", "/", 404, plain, "404 page not found\n"},
		{"no profiles", "GET", "/debug/pprof/", 404, plain, "404 page not found\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := f.get(t, tc.method, tc.target)
			contentType := resp.Header.Get("Content-Type")
			if resp.StatusCode != tc.code || tc.contentType != "" && contentType != tc.contentType {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, contentType, tc.code, tc.contentType)
			}
			if diff := cmp.Diff(tc.body, bodyOf(t, resp)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServesFreshLoadOnly(t *testing.T) {
	five := 5 * time.Minute
	for _, tc := range []struct {
		name string
		node *load.NodeLoad
		// passed is the time since the end of the node's window.
		passed time.Duration
		known  bool
	}{
		{"nothing was published", nil, 0, false},
		{"the load of a steady node is 5 min old", &load.NodeLoad{load.CPU: measurement(0.25, 0, five, end, 0)}, five, true},
		{"the load of a steady node is older than 5 min", &load.NodeLoad{load.CPU: measurement(0.25, 0, five, end, 0)}, five +
			time.Second, false},
		// 10 points at 5 points a minute make 2 minutes.
		{"a node that moves is trusted for 2 min", &load.NodeLoad{load.CPU: measurement(0.25, 0, five, end, 0.05)}, 2 * time.Minute,
			true},
		{"and no longer", &load.NodeLoad{load.CPU: measurement(0.25, 0, five, end, 0.05)}, 2*time.Minute + time.Second, false},
		{"memory alone is known", &load.NodeLoad{load.Memory: measurement(0.25, 0, five, end, 0)}, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, "", "n1")
			if tc.node != nil {
				f.publish(map[time.Duration]map[string]load.NodeLoad{five: {"n1": *tc.node}})
				if got := f.get(t, "GET", "/watcher/health").StatusCode; got != 200 {
					t.Fatalf("at first: health %d, want 200", got)
				}
			}
			f.clock.Step(tc.passed)
			health, code := 503, 500
			if tc.known {
				health, code = 200, 200
			}
			if got := f.get(t, "GET", "/watcher/health"); got.StatusCode != health || bodyOf(t, got) != "" {
				t.Errorf("health %d, want %d and no body", got.StatusCode, health)
			}
			for _, target := range []string{"/watcher", "/watcher?host=n1"} {
				got := f.get(t, "GET", target)
				if got.StatusCode != code || !tc.known && bodyOf(t, got) != "" {
					t.Errorf("%s: %d, want %d, and no body if that is 500", target, got.StatusCode, code)
				}
			}
			if got := f.get(t, "GET", "/healthz").StatusCode; got != 200 {
				t.Errorf("healthz %d, want 200: a restart brings no load", got)
			}
		})
	}
}

func TestOldMeasurementDoesNotAgeTheOthers(t *testing.T) {
	five := 5 * time.Minute
	f := newFixture(t, "", "n1", "n2", "n3", "n4")
	f.publish(map[time.Duration]map[string]load.NodeLoad{five: {
		"n1": {load.CPU: measurement(0.25, 0, five, end, 0)},
		"n2": {load.CPU: measurement(0.25, 0, five, end.Add(-time.Minute), 0)}, // two refreshes: within the spread
		"n3": {load.CPU: measurement(0.25, 0, five, end.Add(-2*time.Minute), 0)},
		"n4": {load.CPU: measurement(0.25, 0, five, end, 0), load.Memory: measurement(0.25, 0, five, end.Add(-2*time.Minute), 0)},
		"n5": {load.CPU: measurement(0.25, 0, five, end, 0)}, // no node of the cluster any more
	}})
	for target, want := range map[string]map[string]int{
		"/watcher":         {"n1": 2, "n2": 2, "n4": 2},
		"/watcher?host=n3": {"n3": 2},
	} {
		document, err := wire.Decode(f.get(t, "GET", target).Body, wire.MaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for host, node := range document.Data.NodeMetricsMap {
			got[host] = len(node.Metrics)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: number of values by node (-want +got):\n%s", target, diff)
		}
		wantEnd := end.Add(-time.Minute).Unix()
		if target != "/watcher" {
			wantEnd = end.Add(-2 * time.Minute).Unix()
		}
		if document.Window.End != wantEnd {
			t.Errorf("%s: ends at %d, want %d", target, document.Window.End, wantEnd)
		}
	}
}

func TestWindowsOfSamples(t *testing.T) {
	five := 5 * time.Minute
	f := newFixture(t, "", "n1", "n2")
	f.publish(map[time.Duration]map[string]load.NodeLoad{five: {
		"n1": {load.CPU: measurement(0.25, 0, 0, end, 0)}, "n2": {load.CPU: measurement(0.5, 0.125, 30*time.Second, end, 0)},
	}})
	const want = `{"timestamp":1700000000,"window":{"duration":"5m","start":1699999700,"end":1700000000},"source":"Prometheus",` +
		`"data":{"NodeMetricsMap":{` +
		`"n1":{"metrics":[{"name":"cpu_utilization","type":"CPU","operator":"Latest","rollup":"0s","value":25}],"tags":{},` +
		`"metadata":{"dataCenter":""}},` +
		`"n2":{"metrics":[{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"5m","value":50},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"5m","value":12.5}],"tags":{},"metadata":{"dataCenter":""}}}}}`
	if diff := cmp.Diff(want, bodyOf(t, f.get(t, "GET", "/watcher"))); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestResponseIsEncodedOncePerSnapshot(t *testing.T) {
	f := newFixture(t, "", "n1", "n2")
	f.publishTwo()
	var wg sync.WaitGroup
	for range f.config.MaxRequests {
		wg.Go(func() {
			for _, target := range []string{"/watcher", "/watcher/health", "/watcher?window=5m"} {
				f.get(t, "GET", target)
			}
			f.get(t, "GET", "/watcher", "Accept-Encoding", "gzip")
		})
	}
	wg.Wait()
	asked := func(step string, want int) {
		t.Helper()
		if f.nodes.asked != want {
			t.Errorf("%s: %d answers were made, want %d", step, f.nodes.asked, want)
		}
	}
	asked("requests at a time", 1)
	f.get(t, "GET", "/watcher?window=15m")
	asked("another window", 2)
	f.publishTwo()
	f.get(t, "GET", "/watcher")
	f.get(t, "GET", "/watcher")
	asked("another snapshot", 3)
	f.clock.Step(4*time.Minute + 50*time.Second) // the measurements are 5 minutes old
	f.get(t, "GET", "/watcher")
	asked("nothing expired", 3)
	f.clock.Step(time.Millisecond)
	f.get(t, "GET", "/watcher")
	f.get(t, "GET", "/watcher")
	asked("all expired", 4)
}

func TestExpiringNodesEncodeOneResponseASecond(t *testing.T) {
	five := 5 * time.Minute
	f := newFixture(t, "", "n1", "n2", "n3")
	nodes := map[string]load.NodeLoad{}
	for i, name := range f.nodes.names {
		nodes[name] = load.NodeLoad{load.CPU: measurement(0.25, 0, five, end.Add(time.Duration(i)*time.Millisecond), 0)}
	}
	f.publish(map[time.Duration]map[string]load.NodeLoad{five: nodes})
	f.clock.Step(five) // the last moment of n1; n2 has a millisecond more, n3 two
	for range 1500 {
		f.get(t, "GET", "/watcher")
		f.clock.Step(time.Millisecond)
	}
	// At first of all three, a second later of none, which is known to stay so.
	if f.nodes.asked != 2 {
		t.Errorf("%d answers were made, want 2", f.nodes.asked)
	}
}

func TestGzip(t *testing.T) {
	f := newFixture(t, "", "n1", "n2")
	f.publishTwo()
	for accepted, packed := range map[string]bool{
		"gzip": true, "deflate, GZIP": true, "br;q=1.0, gzip;q=0.8": true,
		"": false, "identity": false, "gzip;q=0": false, "gzip; q=0.0": false, "xgzip": false, "gzip;q=x": false,
	} {
		t.Run(accepted, func(t *testing.T) {
			resp := f.get(t, "GET", "/watcher", "Accept-Encoding", accepted)
			if got := resp.Header.Get("Content-Encoding"); got == "gzip" != packed {
				t.Fatalf("Content-Encoding %q", got)
			}
			if packed {
				plain, err := gzip.NewReader(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body = plain
			}
			if diff := cmp.Diff(headOf5m+n1Of5m+","+n2Of5m+tail, bodyOf(t, resp)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		write := func(content string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first\n")
		f := newFixture(t, file, "n1", "n2")
		f.publishTwo()
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
		defer stop()
		go f.server.Run(ctx)
		synctest.Wait()
		expect := func(target, authorization string, code int) {
			t.Helper()
			resp := f.get(t, "GET", target, "Authorization", authorization)
			if resp.StatusCode != code {
				t.Errorf("%s with %q: %d, want %d", target, authorization, resp.StatusCode, code)
			}
			if body := bodyOf(t, resp); resp.StatusCode >= 400 && strings.Contains(body, "first") {
				t.Errorf("the refusal shows the token: %s", body)
			}
			if challenge := resp.Header.Get("WWW-Authenticate"); (code == 401) != (challenge == "Bearer") {
				t.Errorf("%d with challenge %q", code, challenge)
			}
		}
		readAgain := func() {
			f.clock.Step(tokenInterval)
			synctest.Wait()
		}

		for _, target := range []string{"/watcher", "/watcher?host=n1", "/watcher/health", "/metrics"} {
			expect(target, "Bearer first", 200)
			expect(target, "bearer first", 200)
			for _, wrong := range []string{"", "first", "Bearer", "Bearer ", "Bearer f", "Bearer firs", "Bearer first2", "Bearer second",
				"Basic first"} {
				expect(target, wrong, 401)
			}
		}
		expect("/absent", "", 401)
		expect("/absent", "Bearer first", 404)
		expect("/healthz", "", 200)
		expect("/healthz/../watcher", "", 401)

		write("second")
		expect("/watcher", "Bearer first", 200) // requests do not read the file
		readAgain()
		expect("/watcher", "Bearer first", 401)
		expect("/watcher", "Bearer second", 200)

		unreadable := func(why string) {
			t.Helper()
			readAgain()
			readAgain()
			for _, authorization := range []string{"", "Bearer ", "Bearer second"} {
				expect("/watcher", authorization, 503)
			}
			expect("/healthz", "", 200)
			if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Count(log, why) != 1 {
				t.Errorf("%q is logged %d times, want once:\n%s", why, strings.Count(log, why), log)
			}
			write("second")
			readAgain()
			expect("/watcher", "Bearer second", 200)
		}
		remove := func() {
			t.Helper()
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		write(" \n")
		unreadable("is empty")
		write(strings.Repeat("x", boundedfile.MaxTokenBytes+1))
		unreadable("has more than 65536 bytes")
		remove()
		unreadable("no such file")
		remove()
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		readAgain()
		expect("/watcher", "Bearer second", 503)
	})
}

func TestTokenFile_MustBeReadableAtStart(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(t.TempDir(), "absent")} {
		config := newFixture(t, "").config
		config.TokenFile, config.Registry = file, metrics.NewKubeRegistry()
		if _, err := New(t.Context(), config); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v, want one that names %s", err, file)
		}
	}
}

func TestRequestsTotal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, file, "n1", "n2")
	f.publishTwo()
	for _, target := range []string{"/watcher", "/watcher?host=n1", "/watcher?host=X", "/watcher/health", "/a", "/b"} {
		f.get(t, "GET", target, "Authorization", "Bearer t")
	}
	f.get(t, "GET", "/watcher")
	const want = `
# HELP plimsoll_watcher_requests_total [ALPHA] Requests by path (other: unknown or refused) and status code.
# TYPE plimsoll_watcher_requests_total counter
plimsoll_watcher_requests_total{code="200",path="/watcher"} 2
plimsoll_watcher_requests_total{code="200",path="/watcher/health"} 1
plimsoll_watcher_requests_total{code="401",path="other"} 1
plimsoll_watcher_requests_total{code="404",path="/watcher"} 1
plimsoll_watcher_requests_total{code="404",path="other"} 2
`
	if err := testutil.GatherAndCompare(f.metrics, strings.NewReader(want), "plimsoll_watcher_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestClientGone(t *testing.T) {
	f := newFixture(t, "", "n1", "n2")
	f.publishTwo()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/watcher", nil)
	f.server.ServeHTTP(brokenPipe{httptest.NewRecorder()}, r)
}

type brokenPipe struct{ http.ResponseWriter }

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func BenchmarkResponse15000Nodes(b *testing.B) {
	five := 5 * time.Minute
	nodesOf := map[string]load.NodeLoad{}
	var names []string
	for i := range 15_000 {
		name := fmt.Sprintf("node-%05d.example.com", i)
		names = append(names, name)
		nodesOf[name] = load.NodeLoad{
			load.CPU: measurement(0.25, 0.125, five, end, 0), load.Memory: measurement(0.5, 0.125, five, end, 0),
		}
	}
	publisher := load.NewPublisher()
	publisher.Publish(loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{five: nodesOf}, nil))
	handler, err := New(b.Context(), Config{
		Source: "Prometheus", Publisher: publisher, Nodes: &nodes{names: names}, MaxConnections: 8, MaxRequests: 4,
		Window: five, Trust: load.Trust{RefreshInterval: 30 * time.Second, MaxAge: five, DriftTolerance: 10},
		Metrics: http.NotFoundHandler(), Registry: metrics.NewKubeRegistry(), Clock: clocktesting.NewFakeClock(end),
	})
	if err != nil {
		b.Fatal(err)
	}
	request := func(b *testing.B) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), "GET", "/watcher", nil))
		b.SetBytes(int64(w.Body.Len()))
	}
	b.Run("cached response", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			request(b)
		}
	})
	b.Run("new snapshot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			publisher.Publish(
				load.NewSnapshot(publisher.Latest().Index(), map[time.Duration]*load.Table{five: publisher.Latest().Over(five)}, nil),
			)
			request(b)
		}
	})
}
