package provider

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxWaiting bounds the requests that wait for their turn, and the answers in memory: one is made at a time.
	maxWaiting = 8
	// writeTimeout bounds the time for which a slow client holds an answer. Commands wait less.
	writeTimeout = 10 * time.Second
)

// Handler serves what a provider decides by at ServedPath. It does not ask who the client is. Use NewHandler.
type Handler struct {
	provider *Provider
	version  string
	turn     chan struct{}
	waiting  chan struct{}
}

// NewHandler returns a handler of the provider of a scheduler of that version.
func NewHandler(p *Provider, version string) *Handler {
	return &Handler{provider: p, version: version, turn: make(chan struct{}, 1), waiting: make(chan struct{}, maxWaiting)}
}

// ServeHTTP implements http.Handler.
func (s *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != ServedPath || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests wait", http.StatusTooManyRequests)
		return
	}
	zips := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	body, err := s.body(r.Context(), !r.URL.Query().Has(WithoutStatistics), zips)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if zips {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // every server of net/http can
	_, _ = w.Write(body)                                                             // the client has gone if it fails
}

// body returns the answer to a request. It waits for its turn, but not for slow clients.
func (s *Handler) body(ctx context.Context, withStatistics, zips bool) ([]byte, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	served, err := s.provider.Serve(withStatistics)
	if err != nil {
		return nil, err
	}
	served.TypeMeta = metav1.TypeMeta{APIVersion: ServedVersion, Kind: ServedKind}
	served.Version = s.version
	var body bytes.Buffer
	if !zips {
		err = json.NewEncoder(&body).Encode(served)
		return body.Bytes(), err
	}
	zip := gzip.NewWriter(&body)
	err = errors.Join(json.NewEncoder(zip).Encode(served), zip.Close())
	return body.Bytes(), err
}
