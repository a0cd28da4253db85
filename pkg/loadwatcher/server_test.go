package loadwatcher

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	*server
	nodes   *nodes
	clock   *clocktesting.FakeClock
	metrics metrics.KubeRegistry
}

// newFixture serves a window of 5 minutes. It trusts steady nodes for 5 minutes.
// Nodes that move by 10 points in t are trusted for t, but at least one minute.
func newFixture(names ...string) *fixture {
	f := &fixture{nodes: &nodes{names: names}, clock: clocktesting.NewFakeClock(end), metrics: metrics.NewKubeRegistry()}
	telemetry := Telemetry{Registry: f.metrics, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the metrics")
	})}
	f.server = newServer(serverConfig{
		source: "Prometheus", publisher: load.NewPublisher(), nodes: f.nodes, window: 5 * time.Minute,
		trust: load.Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}, telemetry: telemetry,
		clock: f.clock,
	})
	return f
}

func (f *fixture) publish(loads map[time.Duration]map[string]load.NodeLoad) {
	f.publisher.Publish(loadtest.Snapshot(loads, nil))
}

// publishTwo publishes n1, at a quarter of its cpu and half of its memory, and n2 with unknown memory.
// Windows ended 10 s ago.
func (f *fixture) publishTwo() {
	at := end.Add(-10 * time.Second)
	five := 5 * time.Minute
	f.publish(map[time.Duration]map[string]load.NodeLoad{
		five: {
			"n1": {load.CPU: measurement(0.25, 0.125, five, at, 0), load.Memory: measurement(0.5, 0, five, at, 0)},
			"n2": {load.CPU: measurement(1, 0.0625, five, at, 0)},
		},
	})
}

func (f *fixture) get(t *testing.T, method, target string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	body := check.Value(io.ReadAll(resp.Body))(t)
	return string(body)
}

// What is served of publishTwo. The window ends 10 s before 1,700,000,000 and starts 300 s earlier.
const (
	head = `{"timestamp":1700000000,"window":{"duration":"5m","start":1699999690,"end":1699999990},"source":"Prometheus",` +
		`"data":{"NodeMetricsMap":{`
	n1 = `"n1":{"metrics":[` +
		`{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"5m","value":25},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"5m","value":12.5},` +
		`{"name":"memory_utilization","type":"Memory","operator":"AVG","rollup":"5m","value":50},` +
		`{"name":"memory_utilization","type":"Memory","operator":"STD","rollup":"5m","value":0}],"tags":{},"metadata":{"dataCenter":""}}`
	n2 = `"n2":{"metrics":[` +
		`{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"5m","value":100},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"5m","value":6.25}],"tags":{},"metadata":{"dataCenter":""}}`
	tail = `}}}`
)

func TestResponses(t *testing.T) {
	f := newFixture("n1", "n2")
	f.publishTwo()
	const json, plain = "application/json", "text/plain; charset=utf-8"
	for _, tc := range []struct {
		name, method, target string
		code                 int
		contentType, body    string
	}{
		{"all nodes, over the window that is configured", "GET", "/watcher", 200, json, head + n1 + "," + n2 + tail},
		{"a host", "GET", "/watcher?host=n2", 200, json, head + n2 + tail},
		{"an empty host is none", "GET", "/watcher?host=", 200, json, head + n1 + "," + n2 + tail},
		{"an unknown host", "GET", "/watcher?host=X", 404, plain, "No metrics found for host X\n"},
		{"hosts are not told by case", "GET", "/watcher?host=N1", 404, plain, "No metrics found for host N1\n"},
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
			check.Equal(t, "body", tc.body, bodyOf(t, resp))
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
			f := newFixture("n1")
			if tc.node != nil {
				f.publish(map[time.Duration]map[string]load.NodeLoad{five: {"n1": *tc.node}})
				check.Require(t, "at first: health", 200, f.get(t, "GET", "/watcher/health").StatusCode)
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
			check.Equal(t, "healthz: a restart brings no load", 200, f.get(t, "GET", "/healthz").StatusCode)
		})
	}
}

func TestOldMeasurementDoesNotAgeTheOthers(t *testing.T) {
	five := 5 * time.Minute
	f := newFixture("n1", "n2", "n3", "n4")
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
		document := check.Value(wire.Decode(f.get(t, "GET", target).Body, wire.MaxBytes))(t)
		got := map[string]int{}
		for host, node := range document.Data.NodeMetricsMap {
			got[host] = len(node.Metrics)
		}
		check.Equal(t, target+": number of values by node", want, got)
		wantEnd := end.Add(-time.Minute).Unix()
		if target != "/watcher" {
			wantEnd = end.Add(-2 * time.Minute).Unix()
		}
		check.Equal(t, target+": ends at", wantEnd, document.Window.End)
	}
}

func TestWindowsOfSamples(t *testing.T) {
	five := 5 * time.Minute
	f := newFixture("n1", "n2")
	f.publish(map[time.Duration]map[string]load.NodeLoad{five: {
		"n1": {load.CPU: measurement(0.25, 0, 0, end, 0)}, "n2": {load.CPU: measurement(0.5, 0.125, 30*time.Second, end, 0)},
	}})
	const want = `{"timestamp":1700000000,"window":{"duration":"5m","start":1699999700,"end":1700000000},"source":"Prometheus",` +
		`"data":{"NodeMetricsMap":{` +
		`"n1":{"metrics":[{"name":"cpu_utilization","type":"CPU","operator":"Latest","rollup":"0s","value":25}],"tags":{},` +
		`"metadata":{"dataCenter":""}},` +
		`"n2":{"metrics":[{"name":"cpu_utilization","type":"CPU","operator":"AVG","rollup":"5m","value":50},` +
		`{"name":"cpu_utilization","type":"CPU","operator":"STD","rollup":"5m","value":12.5}],"tags":{},"metadata":{"dataCenter":""}}}}}`
	check.Equal(t, "body", want, bodyOf(t, f.get(t, "GET", "/watcher")))
}

func TestResponseIsEncodedOncePerSnapshot(t *testing.T) {
	f := newFixture("n1", "n2")
	f.publishTwo()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, target := range []string{"/watcher", "/watcher/health"} {
				f.get(t, "GET", target)
			}
		})
	}
	wg.Wait()
	asked := func(step string, want int) {
		t.Helper()
		check.Equal(t, step+": answers were made", want, f.nodes.asked)
	}
	asked("requests at a time", 1)
	f.publishTwo()
	f.get(t, "GET", "/watcher")
	f.get(t, "GET", "/watcher")
	asked("another snapshot", 2)
	f.clock.Step(4*time.Minute + 50*time.Second) // the measurements are 5 minutes old
	f.get(t, "GET", "/watcher")
	asked("nothing expired", 2)
	f.clock.Step(time.Millisecond)
	f.get(t, "GET", "/watcher")
	f.get(t, "GET", "/watcher")
	asked("all expired", 3)
}

func TestExpiringNodesEncodeOneResponseASecond(t *testing.T) {
	five := 5 * time.Minute
	f := newFixture("n1", "n2", "n3")
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
	check.Equal(t, "answers were made", 2, f.nodes.asked)
}

func TestRequestsTotal(t *testing.T) {
	f := newFixture("n1", "n2")
	f.publishTwo()
	for _, target := range []string{"/watcher", "/watcher?host=n1", "/watcher?host=X", "/watcher/health", "/a", "/b"} {
		f.get(t, "GET", target)
	}
	const want = `
# HELP plimsoll_watcher_requests_total [ALPHA] Requests by path (other: unknown) and status code.
# TYPE plimsoll_watcher_requests_total counter
plimsoll_watcher_requests_total{code="200",path="/watcher"} 2
plimsoll_watcher_requests_total{code="200",path="/watcher/health"} 1
plimsoll_watcher_requests_total{code="404",path="/watcher"} 1
plimsoll_watcher_requests_total{code="404",path="other"} 2
`
	check.OK(t, testutil.GatherAndCompare(f.metrics, strings.NewReader(want), "plimsoll_watcher_requests_total"))
}

func TestClientGone(t *testing.T) {
	f := newFixture("n1", "n2")
	f.publishTwo()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/watcher", nil)
	f.handler.ServeHTTP(brokenPipe{httptest.NewRecorder()}, r)
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
	s := newServer(serverConfig{
		source: "Prometheus", publisher: publisher, nodes: &nodes{names: names}, window: five,
		trust:     load.Trust{RefreshInterval: 30 * time.Second, MaxAge: five, DriftTolerance: 10},
		telemetry: Telemetry{Registry: metrics.NewKubeRegistry(), Handler: http.NotFoundHandler()}, clock: clocktesting.NewFakeClock(end),
	})
	request := func(b *testing.B) {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), "GET", "/watcher", nil))
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
