package ui

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	testcheck "github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

func TestMain(m *testing.M) {
	leak.Main(m)
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fakeCluster is a source whose nodes a test changes.
type fakeCluster struct {
	mu      sync.Mutex
	rows    map[string]top.Row
	err     error
	updates int
}

// row is a node of 8 cores with 30.24 % measured, 5 % pending and a line at 80 %.
func row(name string) top.Row {
	r := top.Resource{
		State: "Fresh", MeasuredPercent: new(30.24), PendingPercent: 5, UtilizationPercent: 35.24, LinePercent: new(80.0),
		AgeSeconds: new(5.0), MeasuredAt: new(now.Add(-5 * time.Second)), Requested: resource.MustParse("4"),
		Allocatable: resource.MustParse("8"), Capacity: resource.MustParse("8"), RequestedPercent: 50, AllocatablePercent: 100,
	}
	return top.Row{Name: name, Pods: 3, CPU: r, Memory: r, Labels: map[string]string{"zone": "a"}}
}

func newCluster(names ...string) *fakeCluster {
	c := &fakeCluster{rows: map[string]top.Row{}}
	for _, name := range names {
		c.rows[name] = row(name)
	}
	return c
}

func (c *fakeCluster) change(change func(map[string]top.Row)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.rows)
}

func (c *fakeCluster) Update(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updates++
	return c.err
}

func (c *fakeCluster) Nodes(context.Context, top.Selection) (*top.Nodes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := now.Add(time.Duration(max(c.updates-1, 0)) * top.ShowInterval)
	n := &top.Nodes{View: top.View{SchedulerName: "plimsoll", Plugin: "LoadThreshold", Time: at}}
	for name := range c.rows {
		r := c.rows[name]
		for _, of := range r.Resources() {
			if of.MeasuredPercent != nil {
				of.MeasuredPercent = new(*of.MeasuredPercent)
			}
		}
		n.Nodes = append(n.Nodes, &r)
	}
	return n, nil
}

func (c *fakeCluster) Pods(_ context.Context, node string) (*top.Pods, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.rows[node]; !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), node)
	}
	web := top.Pod{Namespace: "shop", Name: "web-0", Replaces: moved}
	web.CPU.UsagePercent = c.rows[node].CPU.UtilizationPercent
	return &top.Pods{Pods: []top.Pod{web}}, nil
}

// Lend has no simulation.
func (c *fakeCluster) Lend(*cluster.Configuration, func(*cluster.Cluster) error) (bool, error) {
	return false, nil
}

// Waiting returns two pods, one of which no scheduler has looked at.
func (c *fakeCluster) Waiting() []top.WaitingPod {
	return []top.WaitingPod{
		{
			Namespace: "shop", Name: "huge-0", SchedulerName: "plimsoll", Since: now.Add(-10 * time.Minute), Reason: "Unschedulable",
			Message: "0/3 nodes are available: 3 Insufficient cpu.",
		},
		{Namespace: "batch", Name: "new-0", SchedulerName: "other", Since: now.Add(-5 * time.Second)},
	}
}

// running is a server that runs, its clock, and a function that ends it.
type running struct {
	*Server
	clock *clocktesting.FakeClock
	end   func() error
	// ended is closed when Serve has returned.
	ended <-chan struct{}
}

func start(t *testing.T, source Source) *running {
	t.Helper()
	return startWith(t, Options{
		Source: source, Context: "production", Check: checks, Questions: questions(),
	})
}

func startWith(t *testing.T, o Options) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := clocktesting.NewFakeClock(now)
	// A browser of the test ends before the server. Otherwise it reports that the stream of events broke off.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	o.Clock = c
	s, err := NewServer(ctx, listener, o)
	must(t, err)
	s.endTimeout = time.Minute
	var served error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		served = s.Serve(ctx)
	}()
	end := func() error {
		cancel()
		testcheck.Receive(t, "the end of the server", ended)
		return served
	}
	t.Cleanup(func() { _ = end() })
	return &running{s, c, end, ended}
}

// checks are those of a cluster with one error.
func checks(context.Context, cluster.Lender) (*doctor.Report, error) {
	return &doctor.Report{Checks: []doctor.Result{
		{Group: "nodes", ID: "nodes.measured", Status: doctor.OK, Message: "all nodes have load"},
		{
			Group: "source", ID: "source.tls", Status: doctor.Error, Message: "the certificate has expired",
			Advice: []doctor.Advice{{Text: "Renew it.", Command: "kubectl get secret"}},
		},
	}}, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request is one request, by default a GET of a browser on its own page that has the cookie.
type request struct {
	method, path, host, body string
	header                   map[string]string
	anonymous                bool
}

func (s *running) do(t *testing.T, o request) *http.Response {
	t.Helper()
	if o.method == "" {
		o.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), o.method, s.Address()+o.path, strings.NewReader(o.body))
	must(t, err)
	if o.host != "" {
		req.Host = o.host
	}
	for name, value := range o.header {
		req.Header.Set(name, value)
	}
	if !o.anonymous {
		req.AddCookie(&http.Cookie{Name: s.access.cookie, Value: s.access.session})
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	resp, err := client.Do(req)
	must(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	content, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(content)
}

// Each row is an attack that must end without data.
func TestServer_Attacks(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	_, port, _ := net.SplitHostPort(s.access.hosts[0])
	from := func(site string) map[string]string { return map[string]string{"Sec-Fetch-Site": site} }
	for name, tt := range map[string]struct {
		request
		want int
	}{
		"DNS rebinding":             {request{path: "snapshot.json", host: "evil.example:" + port}, http.StatusMisdirectedRequest},
		"DNS rebinding of the page": {request{host: "evil.example"}, http.StatusMisdirectedRequest},
		"another port of localhost": {request{path: "snapshot.json", host: "localhost:1"}, http.StatusMisdirectedRequest},
		"suffix of the host":        {request{path: "snapshot.json", host: "127.0.0.1:" + port + ".evil.example"}, http.StatusMisdirectedRequest},
		"no cookie":                 {request{path: "snapshot.json", anonymous: true}, http.StatusUnauthorized},
		"no cookie for events":      {request{path: "events", anonymous: true}, http.StatusUnauthorized},
		"no cookie for pods":        {request{path: "pods.json?node=worker-1", anonymous: true}, http.StatusUnauthorized},
		"another cookie": {
			request{path: "snapshot.json", anonymous: true, header: map[string]string{"Cookie": s.access.cookie + "=" + s.access.token}},
			http.StatusUnauthorized,
		},
		"another site's request":  {request{path: "snapshot.json", header: from("cross-site")}, http.StatusForbidden},
		"a page at another port":  {request{path: "events", header: from("same-site")}, http.StatusForbidden},
		"wrong token":             {request{method: "POST", path: "session", body: "guess"}, http.StatusUnauthorized},
		"no token":                {request{method: "POST", path: "session"}, http.StatusUnauthorized},
		"start of the token":      {request{method: "POST", path: "session", body: s.access.token[:25]}, http.StatusUnauthorized},
		"endless token":           {request{method: "POST", path: "session", body: s.access.token + strings.Repeat("x", 1<<20)}, http.StatusUnauthorized},
		"token in the query":      {request{path: "snapshot.json?token=" + s.access.token, anonymous: true}, http.StatusUnauthorized},
		"login of another site":   {request{method: "POST", path: "session", body: s.access.token, header: from("cross-site")}, http.StatusForbidden},
		"login of another origin": {request{method: "POST", path: "session", body: s.access.token, header: map[string]string{"Origin": "http://evil.example"}}, http.StatusForbidden},
		"writing":                 {request{method: "POST", path: "snapshot.json"}, http.StatusMethodNotAllowed},
		"deleting":                {request{method: "DELETE", path: "pods.json?node=worker-1"}, http.StatusMethodNotAllowed},
		"file of this machine":    {request{path: "..%2f..%2fetc/passwd"}, http.StatusNotFound},
		"preflight": {
			request{method: "OPTIONS", path: "snapshot.json", header: map[string]string{"Origin": "http://evil.example"}}, http.StatusMethodNotAllowed,
		},
		"overwriting a page":       {request{method: "PUT", path: "session", body: "x"}, http.StatusMethodNotAllowed},
		"profile of the program":   {request{path: "debug/pprof/"}, http.StatusNotFound},
		"node that does not exist": {request{path: "pods.json?node=%3Cscript%3E"}, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.do(t, tt.request)
			body := bodyOf(t, resp)
			if resp.StatusCode != tt.want || strings.Contains(body, "measuredPercent") || resp.Header.Get("Set-Cookie") != "" {
				t.Errorf("HTTP status %d with body %q, want %d and no data", resp.StatusCode, body, tt.want)
			}
			if strings.Contains(resp.Header.Get("Access-Control-Allow-Origin"), "*") {
				t.Error("any origin may read it")
			}
		})
	}
}

// Requests that no browser sends end without data, too.
func TestServer_MalformedRequests(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	host := s.access.hosts[0]
	cookie := "Cookie: " + s.access.cookie + "=" + s.access.session + "\r\n\r\n"
	for name, tt := range map[string]struct{ request, status string }{
		"URL of another host": {"GET http://evil.example/snapshot.json HTTP/1.1\r\nHost: " + host + "\r\n" + cookie, "421"},
		"endless query": {
			"GET /pods.json?node=" + strings.Repeat("x", 2*(16<<10)) + " HTTP/1.1\r\nHost: " + host + "\r\n" + cookie, "431",
		},
		"two hosts": {"GET /snapshot.json HTTP/1.1\r\nHost: " + host + "\r\nHost: evil.example\r\n" + cookie, "400"},
		"no host":   {"GET /snapshot.json HTTP/1.0\r\n" + cookie, "421"},
		"a tunnel":  {"CONNECT evil.example:80 HTTP/1.1\r\nHost: " + host + "\r\n" + cookie, "421"},
	} {
		conn, err := net.Dial("tcp", host)
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, tt.request)
		must(t, err)
		answer := make([]byte, 4<<10)
		n, err := conn.Read(answer)
		if tt.status != "431" { // whose connection may end before its answer arrives
			must(t, err)
		}
		must(t, conn.Close())
		if got := string(answer[:n]); n > 0 && !strings.HasPrefix(got[len("HTTP/1.1 "):], tt.status) || strings.Contains(got, "worker-1") {
			t.Errorf("%s: %q, want HTTP status %s and no data", name, got, tt.status)
		}
	}
}

// Clients of this machine that hold all connections, silent or with half a header, keep the page from nobody.
// On a busy machine, the page may need more than one try.
func TestServer_HalfOpenConnections(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	var err error
	for range 20 {
		if err = s.floodAndRead(t); err == nil {
			return
		}
	}
	t.Fatalf("the page: %v", err)
}

// floodAndRead takes all connections, and then reads the page within five seconds.
func (s *running) floodAndRead(t *testing.T) error {
	t.Helper()
	host := s.access.hosts[0]
	for i := range 2 * webserver.MaxConnections {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host) // the server may have closed it
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Address(), http.NoBody)
	must(t, err)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return nil
}

// The token becomes a cookie that scripts cannot read and other sites cannot send.
func TestServer_Session(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	if !strings.HasSuffix(s.URL(), "/#token="+s.access.token) || len(s.access.token) < 26 {
		t.Errorf("URL %s, want a random token in the fragment", s.URL())
	}
	resp := s.do(t, request{method: "POST", path: "session", body: s.access.token, anonymous: true})
	cookies := resp.Cookies()
	if resp.StatusCode != http.StatusNoContent || len(cookies) != 1 {
		t.Fatalf("HTTP status %d with cookies %v", resp.StatusCode, cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" || c.Value == s.access.token {
		t.Errorf("cookie %+v", c)
	}
	resp = s.do(t, request{path: "snapshot.json", anonymous: true, header: map[string]string{
		"Cookie": c.Name + "=" + c.Value, "Sec-Fetch-Site": "same-origin",
	}})
	if resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP status %d with the cookie", resp.StatusCode)
	}
	_, port, _ := net.SplitHostPort(s.access.hosts[0])
	if resp := s.do(t, request{path: "snapshot.json", host: "LOCALHOST:" + port}); resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP status %d at localhost", resp.StatusCode)
	}
}

// Two servers on one machine share cookies of localhost, but not sessions or tokens.
func TestServer_Others(t *testing.T) {
	a, b := start(t, newCluster()), start(t, newCluster())
	if a.access.cookie == b.access.cookie || a.access.session == b.access.session || a.access.token == b.access.token {
		t.Errorf("%+v and %+v are alike", a.access, b.access)
	}
}

// Every answer forbids storing, framing and foreign scripts, also errors.
func TestServer_Headers(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	for _, path := range []string{"", "snapshot.json", "nothing", "pods.json?node=worker-1"} {
		h := s.do(t, request{path: path}).Header
		for name, part := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; script-src 'sha256-",
		} {
			if !strings.Contains(h.Get(name), part) {
				t.Errorf("/%s: %s is %q, want %q", path, name, h.Get(name), part)
			}
		}
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{
			"; style-src 'sha256-", "; connect-src 'self'", "; frame-ancestors 'none'", "; base-uri 'none'", "; form-action 'none'",
			"; require-trusted-types-for 'script'", "; trusted-types 'none'",
		} {
			if !strings.Contains(policy, part) {
				t.Errorf("/%s: the policy %s lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("/%s: the policy allows %s", path, policy)
		}
	}
	if page := bodyOf(t, s.do(t, request{anonymous: true})); strings.Contains(page, "worker-1") || strings.Contains(page, s.access.token) {
		t.Error("the page without a session has data or the token")
	}
}

// When the server ends, each stream ends whole: a browser reports one that breaks off as an error.
func TestServer_StreamsEndWhole(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	resp := s.do(t, request{path: "events"})
	must(t, s.end())
	if got, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(got), "event: snapshot\n") {
		t.Errorf("%q, error %v; want a snapshot and an end", got, err)
	}
}

// events reads server-sent events.
func events(t *testing.T, resp *http.Response) func() (name string, data map[string]any) {
	t.Helper()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("HTTP status %d: %s", resp.StatusCode, bodyOf(t, resp))
	}
	lines := bufio.NewReader(resp.Body)
	line := func() string {
		text, err := lines.ReadString('\n')
		must(t, err)
		return strings.TrimSuffix(text, "\n")
	}
	return func() (string, map[string]any) {
		name, data := strings.TrimPrefix(line(), "event: "), map[string]any{}
		must(t, json.Unmarshal([]byte(strings.TrimPrefix(line(), "data: ")), &data))
		line()
		return name, data
	}
}

func (s *running) tick() {
	for s.clock.Waiters() < 2 { // of the source and the checks
		time.Sleep(time.Millisecond)
	}
	s.clock.Step(top.ShowInterval)
}

// A stream begins with all nodes, and goes on with what changed.
func TestServer_Events(t *testing.T) {
	c := newCluster("worker-1", "worker-2", "worker-3")
	s := start(t, c)
	for range 2 {
		next := events(t, s.do(t, request{path: "events"}))
		name, data := next()
		cpu := data["nodes"].(map[string]any)["worker-1"].(map[string]any)["cpu"].(map[string]any)
		// 30.24 % is rounded, and the age would change in every event.
		if name != "snapshot" || data["context"] != "production" || data["intervalSeconds"] != 2.0 || cpu["measuredPercent"] != 30.2 || cpu["ageSeconds"] != nil ||
			cpu["measuredAt"] != "2026-01-02T03:04:00Z" {
			t.Errorf("%s: %v", name, data)
		}
		c.change(func(rows map[string]top.Row) {
			hot := rows["worker-1"]
			hot.CPU.MeasuredPercent, hot.CPU.UtilizationPercent, hot.CPU.AboveLine = new(80.0), 85, true
			rows["worker-1"], rows["worker-4"] = hot, row("worker-4")
			delete(rows, "worker-2")
		})
		s.tick()
		name, data = next()
		nodes := data["nodes"].(map[string]any)
		want := map[string]any{"cpu": map[string]any{"measuredPercent": 80.0, "utilizationPercent": 85.0, "aboveLine": true}}
		if diff := cmp.Diff(want, nodes["worker-1"]); name != "delta" || diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if gone, ok := nodes["worker-2"]; !ok || gone != nil || nodes["worker-4"] == nil || len(nodes) != 3 {
			t.Errorf("%v, want worker-2 gone, worker-4 new and worker-3 as it was", nodes)
		}
		c.change(func(rows map[string]top.Row) {
			delete(rows, "worker-4")
			rows["worker-1"], rows["worker-2"] = row("worker-1"), row("worker-2")
		})
		s.tick()
		next()
	}
}

// blockedWriter is a browser that reads an event when the test does.
type blockedWriter struct {
	http.ResponseWriter
	events chan string
}

func (w blockedWriter) Header() http.Header { return http.Header{} }
func (w blockedWriter) FlushError() error   { return nil }

func (w blockedWriter) Write(b []byte) (int, error) {
	w.events <- "" // it has an event
	w.events <- string(b)
	return len(b), nil
}

// A browser that is too slow for a change gets the snapshot again, and then changes of that.
func TestServer_MissedDelta(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, listener.Close()) }()
	s, err := NewServer(t.Context(), listener, Options{Source: newCluster("worker-1")})
	must(t, err)
	publish := func(pods int) {
		t.Helper()
		r := row("worker-1")
		r.Pods = pods
		must(t, s.publish(newState(&top.Nodes{Nodes: []*top.Row{&r}}, nil, "", nil)))
	}
	ctx, leave := context.WithCancel(t.Context())
	w, left := blockedWriter{events: make(chan string)}, make(chan struct{})
	go func() {
		defer close(left)
		s.serveEvents(w, (&http.Request{RemoteAddr: "127.0.0.1:1"}).WithContext(ctx))
	}()
	comes := func() { testcheck.Receive(t, "an event", w.events) }
	reads := func(event, part string) {
		t.Helper()
		if got := testcheck.Receive(t, "its data", w.events); !strings.HasPrefix(got, "event: "+event+"\n") || !strings.Contains(got, part) {
			t.Errorf("%s, want a %s with %s", got, event, part)
		}
	}
	comes()
	publish(4)
	publish(5)
	reads("snapshot", `"pods":3,`)
	comes()
	reads("snapshot", `"pods":5,`)
	publish(6)
	comes()
	reads("delta", `"nodes":{"worker-1":{"pods":6}}`)
	leave()
	testcheck.Receive(t, "the end of the stream", left)
}

// A stream does not outlive its browser or the server.
func TestServer_Ends(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	next := events(t, s.do(t, request{path: "events"}))
	next()
	must(t, s.end())
	if _, err := net.Dial("tcp", s.access.hosts[0]); err == nil {
		t.Error("the server still listens")
	}
}

// A browser keeps connections for questions: the tab that is one too many is told so.
func TestServer_Streams(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	var first *http.Response
	for range maxStreams {
		first = s.do(t, request{path: "events"})
		events(t, first)()
	}
	const refused = "event: refused\ndata: \"4 other tabs show this page. Close or hide one.\"\n\n"
	if body := bodyOf(t, s.do(t, request{path: "events"})); body != refused {
		t.Errorf("one tab more gets %q, want %q", body, refused)
	}
	must(t, first.Body.Close())
	for len(s.streams) == maxStreams { // until the server knows
		time.Sleep(time.Millisecond)
	}
	if name, _ := events(t, s.do(t, request{path: "events"}))(); name != "snapshot" {
		t.Errorf("%s, want a snapshot in place of the tab that was closed", name)
	}
}

// Browsers leave the port 80 out of Host.
func TestNewAccess_Port80(t *testing.T) {
	for port, want := range map[int][]string{
		8080: {"127.0.0.1:8080", "localhost:8080"}, 80: {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"},
	} {
		if got := newAccess(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).hosts; !slices.Equal(got, want) {
			t.Errorf("port %d: %q, want %q", port, got, want)
		}
	}
}

// A source that fails ends the server.
func TestServer_SourceFails(t *testing.T) {
	c := newCluster("worker-1")
	s := start(t, c)
	failure := errors.New("no node")
	c.change(func(map[string]top.Row) { c.err = failure })
	s.tick()
	testcheck.Receive(t, "the end of the server", s.ended)
	if err := s.end(); !errors.Is(err, failure) {
		t.Errorf("error %v, want %v", err, failure)
	}
}

func TestServer_Pods(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	var pods top.Pods
	must(t, json.Unmarshal([]byte(bodyOf(t, s.do(t, request{path: "pods.json?node=worker-1"}))), &pods))
	if len(pods.Pods) != 1 || pods.Pods[0].Name != "web-0" {
		t.Errorf("%+v", pods)
	}
}

// Pods need a session.
func TestServer_PodsRefused(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	const path = "pods.json?node=worker-1"
	if resp := s.do(t, request{path: path, anonymous: true}); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("HTTP status %d without a session", resp.StatusCode)
	}
}

// No text of a cluster ends the page's script, or begins another.
func TestSnapshot_WriteHTMLFile(t *testing.T) {
	page := func(text string) string {
		t.Helper()
		n := row("worker-1")
		n.Labels = map[string]string{text: text}
		s := newState(&top.Nodes{Nodes: []*top.Row{&n}, View: top.View{Problems: []string{text}}}, []top.WaitingPod{{Name: text, Message: text}}, text, nil)
		file := filepath.Join(t.TempDir(), "page.html")
		must(t, s.WriteHTMLFile(file))
		content, err := os.ReadFile(file)
		must(t, err)
		return string(content)
	}
	plain := page("plain")
	for _, hostile := range []string{"</script><script>", "</SCRIPT >", "<!--<script>", "-->", "\u2028", "\u2029", "]]>", "&quot;"} {
		got := page(hostile)
		for _, part := range []string{"<script", "</script", "</SCRIPT", "<!--", "-->", "\u2028", "\u2029", "]]>"} {
			if strings.Count(got, part) != strings.Count(plain, part) {
				t.Errorf("%q puts %q into the page", hostile, part)
			}
		}
	}
}

// loads are 5,000 nodes. In each round, all loads have moved by up to a point.
func loads(round int) *State {
	const nodes = 5000
	random, moved := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, uint64(round)))
	list := &top.Nodes{}
	for i := range nodes {
		r := row(fmt.Sprintf("ip-10-%d-%d-%d.eu-west-1.compute.internal", i/2500, i/50%50, i%50))
		for _, of := range r.Resources() {
			measured, pending := 90*random.Float64()+moved.Float64(), 5*random.Float64()
			of.MeasuredPercent, of.UtilizationPercent, of.PendingPercent = new(measured), measured+pending, pending
			of.MeasuredAt = new(now.Add(time.Duration(round) * 30 * time.Second))
		}
		list.Nodes = append(list.Nodes, &r)
	}
	return newState(list, nil, "production", nil)
}

// zipped is the size in KiB as ssh -C sends it.
func zipped(content []byte) float64 {
	count := &counter{}
	z := gzip.NewWriter(count)
	_, _ = z.Write(content)
	_ = z.Close()
	return float64(count.n) / (1 << 10)
}

// A refresh in which all loads of 5,000 nodes change sends at most 100 KiB.
func TestState_DeltaIsSmall(t *testing.T) {
	first, err := (*state)(nil).next(loads(0))
	must(t, err)
	second, err := first.next(loads(1))
	must(t, err)
	if size := zipped(second.delta); size > 100 || size < 10 {
		t.Errorf("a change of all loads has %.0f KiB, want at most 100", size)
	}
}

// BenchmarkState_5000Nodes measures what a refresh costs when no load, or all loads, have changed.
func BenchmarkState_5000Nodes(b *testing.B) {
	for name, round := range map[string]int{"no load changed": 0, "all loads changed": 1} {
		b.Run(name, func(b *testing.B) {
			first, err := (*state)(nil).next(loads(0))
			if err != nil {
				b.Fatal(err)
			}
			second := loads(round)
			b.ReportAllocs()
			var next *state
			for b.Loop() {
				if next, err = first.next(second); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(zipped(next.full()), "KiB/snapshot")
			b.ReportMetric(zipped(next.delta), "KiB/delta")
			b.ReportMetric(float64(len(next.full()))/(1<<10), "KiB/plain")
		})
	}
}

type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return len(b), nil
}
