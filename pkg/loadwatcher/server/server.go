// Package server serves load by load-watcher's HTTP API, which plugins of other schedulers read too.
package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/felixge/httpsnoop"
	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// The paths of the API.
const (
	pathWatcher = "/watcher"
	pathHealth  = "/watcher/health"
	pathMetrics = "/metrics"
	pathHealthz = "/healthz"
)

// Config configures a Server.
type Config struct {
	// Source is the name of the metrics source in responses.
	Source string
	// Publisher publishes the load; Nodes are served.
	Publisher *load.Publisher
	Nodes     interface{ Names() []string }
	// Window is served unless a request asks for one of Windows. The publisher has all of them.
	Window  time.Duration
	Windows []time.Duration
	// Trust limits how long a measurement is served.
	Trust load.Trust
	// TokenFile, if not empty, holds the bearer token for all requests except /healthz. Run reads it every second.
	TokenFile string
	// MaxConnections bounds open connections, MaxRequests the requests in flight except /healthz. Client addresses share both.
	MaxConnections, MaxRequests int
	// Metrics serves /metrics; the server's own metrics are registered with Registry.
	Metrics  http.Handler
	Registry interface {
		MustRegister(...metrics.Registerable)
	}
	Clock clock.WithTicker
}

// Server serves the API. It encodes a response once a snapshot, or once a second while load expires.
type Server struct {
	config    Config
	windows   []time.Duration
	responses map[time.Duration]*cachedResponse
	handler   http.Handler
	// guard is nil if no token is needed.
	guard       *guard
	connections *fairSet[*limitedConn]
	inFlight    *fairSet[*http.ResponseController]
	requests    *metrics.CounterVec
	replaced    *metrics.Counter
}

// New returns the handler. The load of a node is known while it is fresh by Config.Trust.
//
//	GET /watcher[?host=NAME][&window=5m]   the load as JSON; 500 without a body before the first load, 404 for an unknown host
//	GET /watcher/health                    200 while load is known, else 503
//	GET /healthz                           200
//	GET /metrics
//
// New fails if the token file has no token.
func New(ctx context.Context, config Config) (*Server, error) {
	s := &Server{
		config:      config,
		windows:     slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(config.Windows), config.Window)))),
		responses:   map[time.Duration]*cachedResponse{},
		connections: newFairSet[*limitedConn](config.MaxConnections),
		inFlight:    newFairSet[*http.ResponseController](config.MaxRequests),
		replaced: metrics.NewCounter(&metrics.CounterOpts{
			Name: "plimsoll_watcher_replaced_connections_total", Help: "Connections that the service closed to make room for others.",
			StabilityLevel: metrics.ALPHA,
		}),
		requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "plimsoll_watcher_requests_total", Help: "Requests by path (other: unknown or refused) and status code.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"path", "code"}),
	}
	for _, window := range s.windows {
		s.responses[window] = &cachedResponse{}
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathWatcher, s.watcher)
	mux.HandleFunc("GET "+pathHealth, s.health)
	mux.Handle("GET "+pathMetrics, config.Metrics)
	mux.HandleFunc("GET "+pathHealthz, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	handler := s.limited(mux)
	if config.TokenFile != "" {
		var err error
		if s.guard, err = newGuard(ctx, config.TokenFile, handler); err != nil {
			return nil, fmt.Errorf("read the bearer token: %w", err)
		}
		handler = s.guard
	}
	s.handler = s.counted(handler)
	config.Registry.MustRegister(s.requests, s.replaced)
	return s, nil
}

// Run follows the token file until ctx is done.
func (s *Server) Run(ctx context.Context) {
	if s.guard != nil {
		s.guard.run(ctx, s.config.Clock)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.connections.halfFull() {
		w.Header().Set("Connection", "close") // idle connections would keep others out
	}
	s.handler.ServeHTTP(w, r)
}

func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		captured := httpsnoop.CaptureMetrics(next, w, r)
		_, path, found := strings.Cut(r.Pattern, " ") // the pattern of the route
		if !found {
			path = "other"
		}
		s.requests.WithLabelValues(path, strconv.Itoa(captured.Code)).Inc()
	})
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if s.responseOver(klog.FromContext(r.Context()), s.config.Window).known() {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (s *Server) watcher(w http.ResponseWriter, r *http.Request) {
	logger := klog.FromContext(r.Context())
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, "the query cannot be parsed: "+err.Error(), http.StatusBadRequest)
		return
	}
	window, err := s.window(query.Get("window"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp := s.responseOver(logger, window)
	if !resp.known() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if host := query.Get("host"); host != "" {
		resp = s.responseFor(logger, host, window)
		if !resp.known() {
			http.Error(w, "No metrics found for host "+host, http.StatusNotFound)
			return
		}
	}
	resp.write(w, r)
}

func (s *Server) window(requested string) (time.Duration, error) {
	if requested == "" {
		return s.config.Window, nil
	}
	window, err := time.ParseDuration(requested)
	if err == nil && slices.Contains(s.windows, window) {
		return window, nil
	}
	served := make([]string, len(s.windows))
	for i, window := range s.windows {
		served[i] = model.Duration(window).String()
	}
	return 0, fmt.Errorf("window %q is not served: request one of %s", requested, strings.Join(served, ", "))
}
