package loadwatcherclient

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

const token = "s3cr3t-t0ken"

var windows = []time.Duration{5 * time.Minute}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	return check.Serve(t, handler)
}

func node(name string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, address := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return n
}

// document returns a document of hosts with the given mean CPU in percent.
func document(percentByHost map[string]float64) string {
	d := &wire.Document{
		Timestamp: 1700000010, Window: wire.Window{Duration: "15m", Start: 1699999100, End: 1700000000},
		Data: wire.Data{NodeMetricsMap: map[string]wire.NodeMetrics{}},
	}
	for host, percent := range percentByHost {
		d.Data.NodeMetricsMap[host] = wire.NodeMetrics{Metrics: []wire.Metric{{Type: wire.CPU, Operator: wire.Average, Rollup: "15m", Value: &percent}}}
	}
	content, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// newSource returns a source with a timeout of ten seconds unless cfg has another.
func newSource(t *testing.T, cfg Config, nodes ...*corev1.Node) *Source {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	s := check.Value(New(cfg, sourcetest.Lister(t, nodes...)))(t)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	return s
}

func sample(name string, mean float64) load.Sample {
	return load.Sample{Node: name, Window: 15 * time.Minute, End: time.Unix(1700000000, 0), Stats: load.Stats{load.CPU: load.Stat{Mean: mean, StdDev: math.NaN(), Known: true}}}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Error(t, err, parts...)
	check.Lacks(t, err.Error(), token)
}

func TestFetch(t *testing.T) {
	tests := []struct {
		name  string
		nodes []*corev1.Node
		hosts map[string]float64
		want  source.Batch
		// log is a part of the log line that names what is unmatched; empty for none.
		log string
	}{
		{
			name:  "percent become fractions, over the window that was measured and not the requested one",
			nodes: []*corev1.Node{node("n1"), node("n2"), node("not measured")}, hosts: map[string]float64{"n1": 25, "n2": 50},
			want: source.Batch{Samples: []load.Sample{sample("n1", 0.25), sample("n2", 0.5)}},
		},
		{
			name: "impossible values are left out and counted", nodes: []*corev1.Node{node("n1"), node("n2")}, hosts: map[string]float64{"n1": 25, "n2": -1},
			want: source.Batch{Samples: []load.Sample{sample("n1", 0.25)}, Rejected: source.Rejected{load.RejectedNegative: 1}},
		},
		{
			name: "a host is found by the node's address, port or not", nodes: []*corev1.Node{node("n1", "10.0.0.1"), node("n2", "10.0.0.2")},
			hosts: map[string]float64{"10.0.0.1": 25, "10.0.0.2:9100": 50}, want: source.Batch{Samples: []load.Sample{sample("n1", 0.25), sample("n2", 0.5)}},
		},
		{
			name: "hosts without a node are counted, and a few named", nodes: []*corev1.Node{node("n1")},
			hosts: map[string]float64{"n1": 25, "x6": 1, "x5": 1, "x4": 1, "x3": 1, "x2": 1, "x1": 1}, want: source.Batch{Samples: []load.Sample{sample("n1", 0.25)}, UnmatchedCount: 6},
			log: `"count"=6 "examples"="x1, x2, x3, x4, x5, …"`,
		},
		{
			name: "of two hosts of one node the one that is its name is taken", nodes: []*corev1.Node{node("n1", "10.0.0.1")}, hosts: map[string]float64{"10.0.0.1": 99, "n1": 25},
			want: source.Batch{Samples: []load.Sample{sample("n1", 0.25)}, UnmatchedCount: 1}, log: `"examples"="10.0.0.1"`,
		},
		{
			name: "of two addresses of one node the first is taken", nodes: []*corev1.Node{node("n1", "10.0.0.1", "10.0.0.2")}, hosts: map[string]float64{"10.0.0.2": 99, "10.0.0.1": 25},
			want: source.Batch{Samples: []load.Sample{sample("n1", 0.25)}, UnmatchedCount: 1}, log: `"examples"="10.0.0.2"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, document(tt.hosts)) })
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
			ctx := klog.NewContext(t.Context(), logger)
			got := check.Value(newSource(t, Config{Address: server.URL}, tt.nodes...).Fetch(ctx, source.Request{Windows: windows}))(t)
			check.Equal(t, "Fetch()", tt.want, got, cmpopts.EquateNaNs())
			if logged := strings.Join(lines, "\n"); !strings.Contains(logged, tt.log) || (tt.log == "") != (logged == "") {
				t.Errorf("logged %q, want %q", logged, tt.log)
			}
		})
	}
}

func TestFetch_OneRequest(t *testing.T) {
	tests := map[string]string{
		"":            "/watcher",
		"/":           "/watcher",
		"/a/prefix":   "/a/prefix/watcher",
		"/a/prefix//": "/a/prefix/watcher",
		"/a%2Fb/":     "/a%2Fb/watcher",
	}
	for suffix, want := range tests {
		t.Run(suffix, func(t *testing.T) {
			var got []string
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Method+" "+r.URL.String())
				_, _ = fmt.Fprint(w, document(map[string]float64{"n1": 25}))
			})
			several := []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute}
			check.Value(newSource(
				t, Config{Address: server.URL + suffix}, node("n1"),
			).Fetch(t.Context(), source.Request{Windows: several}))(t)
			check.Equal(t, "requests", []string{"GET " + want}, got)
		})
	}
}

func TestFetch_Token(t *testing.T) {
	file := check.File(t, "token", token+"\n")
	for name, cfg := range map[string]httpclient.Config{"inline": {BearerToken: token}, "file": {BearerTokenFile: file}} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				check.Equal(t, "the server saw", "Bearer "+token, r.Header.Get("Authorization"))
				_, _ = fmt.Fprint(w, document(map[string]float64{"n1": 25}))
			})
			check.Value(newSource(
				t, Config{Address: server.URL, Config: cfg}, node("n1"),
			).Fetch(t.Context(), source.Request{Windows: windows}))(t)
		})
	}
}

func TestFetch_Errors(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   []string
	}{
		{"has no load yet", 500, "", []string{"status 500", "has no load yet"}},
		{"another internal error", 500, "panic", []string{"status 500", `saying "panic"`}},
		{"another path", 404, "404 page not found\n", []string{"status 404", "check the address and its path prefix"}},
		{"no token", 401, "", []string{"status 401", "token", "tokenFile"}},
		{"a token without the right, repeated in the response", 403, "Bearer " + token, []string{"status 403", "token", "tokenFile"}},
		{"an unready gateway", 503, "no endpoints", []string{"status 503", `saying "no endpoints"`}},
		{"no content", 204, "", []string{"status 204"}},
		{"a page", 200, "<html>Please log in</html>", []string{"not load-watcher's JSON", "invalid character '<'"}},
		{"an empty body", 200, "", []string{"empty"}},
		{"half a response", 200, `{"timestamp":1,"data":{"NodeMetricsMap":{`, []string{"unexpected EOF"}},
		{"JSON of something else", 200, `{"status":"success","data":{"resultType":"vector"}}`, []string{"neither window.end nor timestamp is set"}},
		{"no host", 200, document(nil), []string{"no host's CPU or memory"}},
		{"no known host", 200, document(map[string]float64{"x1": 1, "x2": 2}), []string{"none of its 2 hosts is one of the 1 nodes of this cluster: x1, x2"}},
		{"a huge response", 200, "{" + strings.Repeat(`"pad":"`+strings.Repeat("x", 60_000)+`",`, 600), []string{"larger than 1052672 bytes, the bound for 1 nodes"}},
		{"a huge value", 200, `{"source":"` + strings.Repeat("x", wire.MaxBytes), []string{"a value is larger than 65536 bytes"}},
		{
			"more metrics than a node has", 200,
			`{"data":{"NodeMetricsMap":{` + strings.Repeat(`"n1":{"metrics":[{},{},{},{},{},{},{},{}]},`, 1000),
			[]string{"too many hosts or metrics, the bound for 1 nodes"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			batch, err := newSource(t, Config{Address: server.URL, Config: httpclient.Config{BearerToken: token}},
				node("n1")).Fetch(t.Context(), source.Request{Windows: windows})
			wantError(t, err, append(tt.want, "GET "+server.URL+"/watcher: ")...)
			check.Equal(t, "samples beside an error", 0, len(batch.Samples))
		})
	}
}

func TestFetch_Timeout(t *testing.T) {
	release := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/stall") {
			_, _ = fmt.Fprint(w, `{"timestamp":`)
			w.(http.Flusher).Flush()
		}
		<-release
	})
	defer close(release)
	for _, prefix := range []string{"/hang", "/stall"} {
		t.Run("its own timeout "+prefix, func(t *testing.T) {
			s := newSource(t, Config{Address: server.URL + prefix, Config: httpclient.Config{Timeout: 20 * time.Millisecond}}, node("n1"))
			_, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			wantError(t, err, "GET "+server.URL+prefix+"/watcher", "no complete response within the timeout")
		})
		t.Run("the caller's context "+prefix, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := newSource(t, Config{Address: server.URL + prefix}, node("n1")).Fetch(ctx, source.Request{Windows: windows})
			wantError(t, err, "GET "+server.URL+prefix+"/watcher")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v does not wrap context.DeadlineExceeded", err)
			}
		})
	}
}

func TestFetch_TLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, document(map[string]float64{"n1": 25}))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	check.OK(t, os.WriteFile(
		ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600,
	))
	_, err := newSource(t, Config{Address: server.URL}, node("n1")).Fetch(t.Context(), source.Request{Windows: windows})
	wantError(t, err, server.URL+"/watcher", "x509", "caFile", "insecureSkipVerify")
	for _, cfg := range []httpclient.Config{{CAFile: ca}, {InsecureSkipVerify: true}} {
		if _, err := newSource(
			t, Config{Address: server.URL, Config: cfg}, node("n1"),
		).Fetch(t.Context(), source.Request{Windows: windows}); err != nil {
			t.Errorf("caFile %q, insecureSkipVerify %v: %v", cfg.CAFile, cfg.InsecureSkipVerify, err)
		}
	}
}

func TestFetch_ServiceDown(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	_, err := newSource(t, Config{Address: server.URL, Config: httpclient.Config{BearerToken: token}},
		node("n1")).Fetch(t.Context(), source.Request{Windows: windows})
	wantError(t, err, "GET "+server.URL+"/watcher: ", "connection refused")
}

func TestClose(t *testing.T) {
	opened, closed := make(chan struct{}, 2), make(chan struct{}, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, document(map[string]float64{"n1": 25}))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := newSource(t, Config{Address: server.URL}, node("n1"))
	for range 2 {
		check.Value(s.Fetch(t.Context(), source.Request{Windows: windows}))(t)
	}
	check.Equal(t, "two refreshes took connections", 1, len(opened))
	check.OK(t, s.Close())
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("Close left the connection open")
	}
}

func TestNew_UnreadableCAFile(t *testing.T) {
	_, err := New(Config{Address: "https://lw", Config: httpclient.Config{CAFile: "/absent/ca.crt", Timeout: time.Second}}, sourcetest.Lister(t))
	wantError(t, err, "load-watcher: ", "caFile: ")
}

func TestMain(m *testing.M) { leak.Main(m) }

func TestFetch_HostileServer(t *testing.T) {
	const nodes = 1000
	const budget = 1<<20 + nodes*4<<10
	const head = `{"timestamp":1,"data":{"NodeMetricsMap":{`
	for name, tt := range map[string]struct{ head, text, want string }{
		"hosts":       {head, `"x":{},`, "too many hosts or metrics, the bound for 1000 nodes"},
		"metrics":     {head, `"x":{"metrics":[` + strings.Repeat("{},", 20_000) + `{}]},`, "too many hosts or metrics, the bound for 1000 nodes"},
		"long names":  {head, `"` + strings.Repeat("x", 10_000) + `":{},`, "larger than 5144576 bytes, the bound for 1000 nodes"},
		"unknown":     {`{`, `"x":1,`, "more than 20160 elements, the bound for 1000 nodes"},
		"a value":     {`{"source":"`, "x", "a value is larger than 65536 bytes"},
		"a host":      {head + `"x":{"metrics":[`, "{},", "a value is larger than 65536 bytes"},
		"white space": {"", " ", "a value is larger than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			piece := []byte(strings.Repeat(tt.text, 1+(64<<10)/len(tt.text)))
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, tt.head)
				for r.Context().Err() == nil {
					if _, err := w.Write(piece); err != nil {
						return
					}
				}
			})
			all := make([]*corev1.Node, nodes)
			for i := range all {
				all[i] = node(fmt.Sprintf("n%d", i))
			}
			s := newSource(t, Config{Address: server.URL}, all...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			runtime.ReadMemStats(&after)
			wantError(t, err, tt.want, "GET "+server.URL+"/watcher: ")
			// What is allocated bounds what is in use. Lists grow by doubling.
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8*budget {
				t.Errorf("%d MiB allocated, want at most 8 times the budget of %d MiB", allocated>>20, budget>>20)
			}
		})
	}
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := token + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	host := func(name string) string {
		return `"` + name + `":{"metrics":[{"type":"CPU","operator":"AVG","value":1}]}`
	}
	var hosts []string
	for i := range 6 {
		hosts = append(hosts, host(fmt.Sprint(i)+evil))
	}
	documentOf := func(hosts ...string) string {
		return `{"timestamp":1,"data":{"NodeMetricsMap":{` + strings.Join(hosts, ",") + `}}}`
	}
	for name, body := range map[string]string{
		"hosts":             documentOf(append(hosts, host("n1"))...),
		"no host of a node": documentOf(hosts...),
		"a value":           `{"timestamp":"` + evil + `"}`,
		"a number":          `{"timestamp":1,"data":{"NodeMetricsMap":{"x":{"metrics":[{"value":"` + evil + `"}]}}}}`,
		"a page":            "<html>" + evil,
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			var lines []string
			sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 4})
			s := newSource(t, Config{Address: server.URL, Config: httpclient.Config{BearerToken: token}}, node("n1"))
			for range 2 {
				if _, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: windows}); err != nil {
					lines = append(lines, err.Error())
				}
			}
			if len(lines) == 0 {
				t.Error("nothing is said")
			}
			for _, line := range lines {
				if len(line) > 4<<10 || strings.Contains(line, token) || strings.ContainsAny(line, "\x1b\u202e") {
					t.Errorf("a line of %d bytes: %.5000q", len(line), line)
				}
			}
		})
	}
}
