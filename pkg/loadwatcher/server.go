package loadwatcher

import (
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

// serverConfig configures a server.
type serverConfig struct {
	// source is the name of the metrics source in responses.
	source string
	// publisher publishes the load; nodes are served.
	publisher *load.Publisher
	nodes     interface{ Names() []string }
	// window is served unless a request asks for one of windows. The publisher has all of them.
	window  time.Duration
	windows []time.Duration
	// trust limits how long a measurement is served.
	trust load.Trust
	// telemetry serves /metrics; the server's own metrics are registered with it.
	telemetry Telemetry
	clock     clock.PassiveClock
}

// server serves the API. It encodes a response once a snapshot, or once a second while load expires.
type server struct {
	serverConfig
	responses map[time.Duration]*cachedResponse
	requests  *metrics.CounterVec
	handler   http.Handler
}

// newServer returns the handler. The load of a node is known while it is fresh by its trust.
//
//	GET /watcher[?host=NAME][&window=5m]   the load as JSON; 500 without a body before the first load, 404 for an unknown host
//	GET /watcher/health                    200 while load is known, else 503
//	GET /healthz                           200
//	GET /metrics
func newServer(config serverConfig) *server {
	s := &server{
		serverConfig: config, responses: map[time.Duration]*cachedResponse{},
		requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "plimsoll_watcher_requests_total", Help: "Requests by path (other: unknown) and status code.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"path", "code"}),
	}
	s.windows = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(config.windows), config.window))))
	for _, window := range s.windows {
		s.responses[window] = &cachedResponse{}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathWatcher, s.watcher)
	mux.HandleFunc("GET "+pathHealth, s.health)
	mux.Handle("GET "+pathMetrics, config.telemetry.Handler)
	mux.HandleFunc("GET "+pathHealthz, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	s.handler = s.counted(mux)
	config.telemetry.MustRegister(s.requests)
	return s
}

func (s *server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		captured := httpsnoop.CaptureMetrics(next, w, r)
		_, path, found := strings.Cut(r.Pattern, " ") // the pattern of the route
		if !found {
			path = "other"
		}
		s.requests.WithLabelValues(path, strconv.Itoa(captured.Code)).Inc()
	})
}

func (s *server) health(w http.ResponseWriter, r *http.Request) {
	if s.responseOver(klog.FromContext(r.Context()), s.window) != nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (s *server) watcher(w http.ResponseWriter, r *http.Request) {
	logger := klog.FromContext(r.Context())
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, "the query cannot be parsed: "+err.Error(), http.StatusBadRequest)
		return
	}
	window, err := s.windowOf(query.Get("window"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := s.responseOver(logger, window)
	if body == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if host := query.Get("host"); host != "" {
		now := s.clock.Now()
		fresh := s.freshLoad(s.publisher.Latest().Over(window), []string{host}, now)
		if body = s.encode(logger, window, now, fresh.samples); body == nil {
			http.Error(w, "No metrics found for host "+host, http.StatusNotFound)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // it fails only if the client is gone
}

func (s *server) windowOf(requested string) (time.Duration, error) {
	if requested == "" {
		return s.window, nil
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
