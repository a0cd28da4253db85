package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// Clients on this machine. Linux has all addresses of 127.0.0.0/8, other systems the first.
const clientA, clientB = "127.0.0.1", "127.0.0.2"

// blocked are requests of /metrics that have been entered and wait for release.
type blocked struct{ entered, release chan struct{} }

// newBlocked returns a fixture whose /metrics blocks. It takes 4 requests at a time.
func newBlocked(t *testing.T) (*fixture, blocked) {
	t.Helper()
	f, b := newFixture(t, "", "n1"), blocked{make(chan struct{}, 100), make(chan struct{})}
	f.config.Registry, f.config.Metrics = metrics.NewKubeRegistry(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b.entered <- struct{}{}
		select {
		case <-b.release:
		case <-r.Context().Done():
		}
	})
	server, err := New(t.Context(), f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.server = server
	return f, b
}

// getFrom requests the target as the client.
func (f *fixture) getFrom(t *testing.T, client, target string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	r.RemoteAddr = net.JoinHostPort(client, "40000")
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	return w.Result()
}

func TestRequestsInFlight(t *testing.T) {
	f, b := newBlocked(t)
	answered := make(chan int)
	for range f.config.MaxRequests {
		go func() { answered <- f.getFrom(t, clientA, "/metrics").StatusCode }()
		<-b.entered
	}
	for _, target := range []string{"/metrics", "/watcher", "/watcher/health", "/absent"} {
		resp := f.getFrom(t, clientA, target)
		if header := resp.Header; resp.StatusCode != 503 || header.Get("Retry-After") != "1" || header.Get("Connection") != "close" {
			t.Errorf("%s beyond the limit: %d %v, want 503 with Retry-After: 1 and Connection: close", target, resp.StatusCode, header)
		}
	}
	for _, client := range []string{clientA, clientB} {
		if code := f.getFrom(t, client, "/healthz").StatusCode; code != 200 {
			t.Errorf("healthz for %s: %d, want 200", client, code)
		}
	}
	if code := f.getFrom(t, clientB, "/absent").StatusCode; code != 404 {
		t.Errorf("another client: %d, want 404: it has no request in flight, the first has all", code)
	}
	if len(b.entered) != 0 {
		t.Errorf("%d requests beyond the limit were worked on", len(b.entered))
	}
	close(b.release)
	for range f.config.MaxRequests {
		if code := <-answered; code != 200 {
			t.Errorf("a request within the limit: %d, want 200", code)
		}
	}
	if code := f.getFrom(t, clientA, "/metrics").StatusCode; code != 200 {
		t.Errorf("after all have finished: %d, want 200", code)
	}
}

func TestRequestsWithoutTokenAreNotInFlight(t *testing.T) {
	file := t.TempDir() + "/token"
	if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, file, "n1")
	f.server.inFlight.limit = 0
	if code := f.getFrom(t, clientA, "/watcher").StatusCode; code != 401 {
		t.Errorf("without a token: %d, want 401", code)
	}
}

// serve serves the fixture on the address that it returns.
func (f *fixture) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", clientA+":0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: f.server, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(f.server.Limit(listener))
	}()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return listener.Addr().String()
}

// dial connects the client and sends the request, if there is one.
func dial(t *testing.T, client, address, request string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}

// get requests the target as the client, on a new connection.
func get(t *testing.T, client, address, target string) (*http.Response, error) {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}).DialContext,
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// readUntilClosed returns what the server sends until it closes the connection.
func readUntilClosed(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	received, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("still open after %q", received)
	}
	return string(received)
}

func onlyLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("one client address here")
	}
}

func TestConnections_ReplaceTheOldestOfTheAddressWithMost(t *testing.T) {
	onlyLinux(t)
	f := newFixture(t, "", "n1")
	address := f.serve(t)
	// Connections that send nothing.
	open := make([]net.Conn, f.config.MaxConnections)
	for i := range open {
		open[i] = dial(t, clientA, address, "")
	}
	if resp, err := get(t, clientB, address, "/healthz"); err != nil || resp.StatusCode != 200 {
		t.Fatalf("another client: %v", err)
	}
	readUntilClosed(t, open[0])
	// The connection of the other client is closed soon, and may count until then.
	for range 3 {
		if resp, err := get(t, clientA, address, "/healthz"); err != nil || resp.StatusCode != 200 {
			t.Fatalf("the client with most connections: %v", err)
		}
	}
	if got, err := testutil.GetCounterMetricValue(f.server.replaced); err != nil || got < 1 || got > 4 {
		t.Errorf("%v connections replaced, %v, want 1 to 4", got, err)
	}
	request := "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	last := open[len(open)-1]
	if _, err := io.WriteString(last, request); err != nil {
		t.Fatal(err)
	}
	if got := readUntilClosed(t, last); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("the newest connection got %q, want the response", got)
	}
}

func TestConnections_KeptAliveUntilHalfAreOpen(t *testing.T) {
	f := newFixture(t, "", "n1")
	address := f.serve(t)
	request := "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	for i := range f.config.MaxConnections/2 - 1 {
		conn := dial(t, clientA, address, request)
		resp := make([]byte, 1024)
		n, err := conn.Read(resp)
		if err != nil || strings.Contains(string(resp[:n]), "Connection: close") {
			t.Fatalf("connection %d: %q, %v, want one that is kept alive", i, resp[:n], err)
		}
	}
	// Two requests are pipelined; only the first is served.
	got := readUntilClosed(t, dial(t, clientA, address, request+request))
	if strings.Count(got, "HTTP/1.1 200") != 1 || !strings.Contains(got, "Connection: close") {
		t.Errorf("with half of the connections open: %q, want one response and the end of the connection", got)
	}
}

func TestSlowReaders(t *testing.T) {
	onlyLinux(t)
	f := newFixture(t, "", "n1")
	entered, unsent := make(chan struct{}, 100), make(chan int, 100)
	f.config.Registry, f.config.Metrics = metrics.NewKubeRegistry(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		const part = 16 << 10
		sent := 0
		for sent < 16<<20 {
			if _, err := w.Write(make([]byte, part)); err != nil {
				break
			}
			sent += part
		}
		unsent <- sent
	})
	server, err := New(t.Context(), f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.server = server
	address := f.serve(t)
	for range f.config.MaxRequests {
		conn := dial(t, clientA, address, "")
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for range f.config.MaxRequests {
		select {
		case <-entered:
		case <-time.After(time.Minute):
			t.Fatal("clients that do not read do not fill the limit")
		}
	}
	if resp, err := get(t, clientA, address, "/absent"); err != nil || resp.StatusCode != 503 {
		t.Errorf("one more request of the client: %v, %v, want 503", resp, err)
	}
	if resp, err := get(t, clientB, address, "/absent"); err != nil || resp.StatusCode != 404 {
		t.Errorf("another client: %v, %v, want 404", resp, err)
	}
	select {
	case sent := <-unsent: // of the request that was aborted
		if sent > 1<<20 {
			t.Errorf("%d bytes wait in the kernel for a client that does not read, want at most 1 MiB", sent)
		}
	case <-time.After(time.Minute):
		t.Error("no request of a client that does not read was aborted")
	}
}

func TestClientOf(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3":           "10.1.2.3",
		"::ffff:10.1.2.3":    "10.1.2.3",
		"fd00:1:2:3::4":      "fd00:1:2:3::",
		"fd00:1:2:3:ffff::4": "fd00:1:2:3::",
		"fd00:1:2:4::4":      "fd00:1:2:4::",
		"fe80::1:2:3:4%eth0": "fe80::",
		"::1":                "::",
	} {
		if got := clientOf(netip.AddrPortFrom(netip.MustParseAddr(address), 1234).String()).String(); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
	if got := clientOf(""); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}

// TestRequestsInFlight_OneNetwork has a client use another address of its IPv6 network for each request.
func TestRequestsInFlight_OneNetwork(t *testing.T) {
	f, b := newBlocked(t)
	defer close(b.release)
	for i := range f.config.MaxRequests {
		go f.getFrom(t, fmt.Sprintf("fd00::%d", i+1), "/metrics")
		<-b.entered
	}
	if code := f.getFrom(t, "fd00::ffff", "/absent").StatusCode; code != 503 {
		t.Errorf("one more request of the network: %d, want 503", code)
	}
	if code := f.getFrom(t, "fd00:0:0:1::1", "/absent").StatusCode; code != 404 {
		t.Errorf("a request of another network: %d, want 404", code)
	}
}
