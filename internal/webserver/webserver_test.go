package webserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start serves the handler, and returns the address and a function that ends the server and returns Serve's error.
func start(t *testing.T, server Server, handler http.HandlerFunc) (address string, end func() error) {
	t.Helper()
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	result := make(chan error, 1)
	go func() { result <- server.Serve(ctx, listener, handler) }()
	t.Cleanup(cancel)
	return listener.Addr().String(), func() error {
		cancel()
		return <-result
	}
}

// get requests the path on a new connection, and returns the status.
func get(t *testing.T, address, path string, header ...string) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody))(t)
	for _, value := range header {
		r.Header.Set("X-Padding", value)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	_ = resp.Body.Close() // a header that is too large resets the connection after the response
	return resp.StatusCode
}

// dial connects and sends the text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn := check.Value((&net.Dialer{}).DialContext(t.Context(), "tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = io.WriteString(conn, text) // the server may have closed it
	return conn
}

func wait(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("not within a minute: " + what)
	}
}

func TestServe_EndsWithContext(t *testing.T) {
	address, end := start(t, Server{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	check.Equal(t, "status, want the handler's", http.StatusTeapot, get(t, address, "/"))
	if code := get(t, address, "/", strings.Repeat("x", 2*maxHeaderBytes)); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d for a header of %d bytes, want 431", code, 2*maxHeaderBytes)
	}
	if err := end(); err != nil {
		t.Errorf("error %v at the end of the context", err)
	}
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = listener.Close()
	if err := (Server{}).Serve(t.Context(), listener, nil); err == nil {
		t.Error("a closed listener is no error")
	}
}

func TestServe_FinishesRequests(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grace time.Duration
		want  string
	}{
		{"within the grace", time.Minute, "done"},
		{"without grace, requests are cut short", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			address, end := start(t, Server{Grace: tc.grace}, func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				<-release
				_, _ = io.WriteString(w, "done")
			})
			conn := dial(t, address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			wait(t, "the request", entered)
			ended := make(chan error, 1)
			go func() { ended <- end() }()
			if tc.grace == 0 {
				if err := <-ended; err != nil {
					t.Errorf("error %v", err)
				}
			}
			close(release)
			got, _ := io.ReadAll(conn)
			if !strings.HasSuffix(string(got), tc.want) || (tc.want == "") != (len(got) == 0) {
				t.Errorf("received %q, want %q", got, tc.want)
			}
			if tc.grace > 0 {
				if err := <-ended; err != nil {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

// TestServe_BoundsConnections has many more clients than the limit ask, and read nothing.
func TestServe_BoundsConnections(t *testing.T) {
	const limit, clients = 8, 100
	var running atomic.Int32
	blocked := make(chan struct{}, clients)
	address, _ := start(t, Server{MaxConnections: limit}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			return
		}
		running.Add(1)
		defer running.Add(-1)
		blocked <- struct{}{}
		for range 16 << 20 / len(padding) { // more than the kernel holds
			if _, err := w.Write(padding); err != nil {
				return
			}
		}
	})
	for range clients {
		dial(t, address, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		wait(t, "a request is answered, though others are not read", blocked)
	}
	deadline := time.Now().Add(5 * time.Minute) // handlers of replaced connections may take a moment to end
	for running.Load() > limit && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := running.Load(); n > limit {
		t.Errorf("%d responses at a time, want at most %d", n, limit)
	}
	check.Equal(t, "status for a client that reads, want 200", http.StatusOK, get(t, address, "/healthz"))
}

var padding = bytes.Repeat([]byte("x"), 64<<10)

// TestServe_ReplacesConnectionsWithoutRequest has clients hold all connections, and expects that a request under way survives.
func TestServe_ReplacesConnectionsWithoutRequest(t *testing.T) {
	const limit = 4
	entered, release := make(chan struct{}), make(chan struct{})
	address, _ := start(t, Server{MaxConnections: limit}, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-release
		}
	})
	slow := dial(t, address, "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	wait(t, "the slow request", entered)
	for _, held := range []string{"", "GET / HTTP/1.1\r\nHost: "} { // silent, and half a header
		for range limit {
			dial(t, address, held)
		}
		check.Equal(t, "status while others hold all connections, want 200", http.StatusOK, get(t, address, "/"))
	}
	close(release)
	if got, err := io.ReadAll(slow); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200") {
		t.Errorf("the request under way got %q, %v, want its response", got, err)
	}
}

func TestErrorLog(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"handshakes that fail are not logged by default", "http: TLS handshake error from 192.0.2.1:40000: EOF\n", ""},
		{"panics are", "http: panic serving 192.0.2.1:40000: oops\ngoroutine 1\n", "oops"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
			if n, err := (errorLog{logger}).Write([]byte(tc.line)); n != len(tc.line) || err != nil {
				t.Errorf("wrote %d of %d bytes, error %v", n, len(tc.line), err)
			}
			got := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if strings.Contains(got, "oops") != (tc.want != "") || tc.want == "" && got != "" {
				t.Errorf("logged %q, want %q", got, tc.want)
			}
		})
	}
}
