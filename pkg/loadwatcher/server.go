package loadwatcher

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/felixge/httpsnoop"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
)

const (
	pathWatcher = "/watcher"
	pathHealth  = "/watcher/health"
	pathMetrics = "/metrics"
	pathHealthz = "/healthz"
)

type serverConfig struct {
	source    string
	publisher *load.Publisher
	nodes     interface{ Names() []string }
	window    time.Duration
	trust     load.Trust
	telemetry Telemetry
	clock     clock.PassiveClock
}

// server serves the API. It encodes a response once a snapshot, or once a second while load expires.
type server struct {
	serverConfig
	response cachedResponse
	requests *metrics.CounterVec
	handler  http.Handler
}

// newServer returns the handler. The load of a node is known while it is fresh by its trust.
//
//	GET /watcher[?host=NAME]   the load as JSON; 500 without a body before the first load, 404 for an unknown host
//	GET /watcher/health        200 while load is known, else 503
//	GET /healthz               200
//	GET /metrics
func newServer(config serverConfig) *server {
	s := &server{
		serverConfig: config,
		requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "plimsoll_watcher_requests_total", Help: "Requests by path (other: unknown) and status code.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"path", "code"}),
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
	if s.cached(klog.FromContext(r.Context())) != nil {
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
	body := s.cached(logger)
	if body == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if host := query.Get("host"); host != "" {
		now := s.clock.Now()
		fresh := s.freshLoad(s.publisher.Latest().Over(s.window), []string{host}, now)
		if body = s.encode(logger, now, fresh.samples); body == nil {
			http.Error(w, "No metrics found for host "+host, http.StatusNotFound)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // it fails only if the client is gone
}

const (
	// Windows of one response may end minSpread apart, however often the source is read.
	// They end at each node's last scrape, often once a minute, and a scrape may be late.
	minSpread = 90 * time.Second
	// minValidity bounds how often a response is encoded while the source is down and nodes expire one by one.
	minValidity = time.Second
)

type cachedResponse struct {
	mu         sync.Mutex
	snapshot   *load.Snapshot
	validUntil time.Time
	body       []byte
}

// cached returns the load of all nodes as JSON; nil if no load is known. Concurrent calls wait for one to encode it.
func (s *server) cached(logger klog.Logger) []byte {
	c, snapshot, now := &s.response, s.publisher.Latest(), s.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snapshot == snapshot && (c.body == nil || !now.After(c.validUntil)) {
		return c.body // one without load stays true until there is another snapshot
	}
	fresh := s.freshLoad(snapshot.Over(s.window), s.nodes.Names(), now)
	c.snapshot, c.body = snapshot, s.encode(logger, now, fresh.within(max(2*s.trust.RefreshInterval, minSpread)))
	c.validUntil = fresh.until
	if earliest := now.Add(minValidity); earliest.After(c.validUntil) {
		c.validUntil = earliest
	}
	return c.body
}

type freshLoad struct {
	samples []load.Sample
	newest  time.Time
	until   time.Time
}

func (s *server) freshLoad(table *load.Table, names []string, now time.Time) freshLoad {
	fresh := freshLoad{samples: make([]load.Sample, 0, int(load.ResourceCount)*len(names))}
	for _, name := range names {
		for r, m := range table.Node(name) {
			if m.State(now, s.trust) != load.Fresh {
				continue
			}
			sample := load.Sample{Node: name, Window: m.Window, End: m.End}
			sample.Stats[r] = m.Stat
			fresh.samples = append(fresh.samples, sample)
			if until := m.FreshUntil(s.trust); fresh.until.IsZero() || until.Before(fresh.until) {
				fresh.until = until
			}
			if m.End.After(fresh.newest) {
				fresh.newest = m.End
			}
		}
	}
	return fresh
}

// within returns the samples that end within spread of the newest. A response has one end for all nodes, the earliest.
// So a node that is no longer measured would make the load of all others look as old.
// Clients have its last sample, and its age, from an earlier response.
func (f freshLoad) within(spread time.Duration) []load.Sample {
	earliest := f.newest.Add(-spread)
	return slices.DeleteFunc(f.samples, func(s load.Sample) bool { return s.End.Before(earliest) })
}

// encode returns the samples as a response; nil without samples. Momentary samples keep their window of 0. All others get the
// server's, even if the source has been read for less time.
// The format has one window for all nodes. Too long a window makes pods count as uncovered, which is safer than as covered.
func (s *server) encode(logger klog.Logger, now time.Time, samples []load.Sample) []byte {
	if len(samples) == 0 {
		return nil
	}
	for i := range samples {
		if samples[i].Window != 0 {
			samples[i].Window = s.window
		}
	}
	body, err := json.Marshal(wire.FromSamples(s.source, now, s.window, samples))
	if err != nil {
		logger.Error(err, "Load cannot be encoded") // no load that passed load.Stat.Checked does this
		return nil
	}
	return body
}
