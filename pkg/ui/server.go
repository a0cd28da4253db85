// Package ui serves a read-only page of a cluster's load to one user's browser.
//
// The page gets one JSON snapshot and then its changes. All figures are those of kubectl plimsoll top.
package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// Source is the load of a cluster. One goroutine uses it at a time. *top.Session implements it.
type Source interface {
	// Update reads what has changed. It reports whether it read load.
	Update(ctx context.Context) (refreshed bool, err error)
	Nodes(ctx context.Context, selected top.Selection) (*top.Nodes, error)
	Pods(ctx context.Context, node string) (*top.Pods, error)
}

// Options configure a Server.
type Options struct {
	// Saved is shown in place of Source and Check, which are then not used; nil for none.
	Saved  *Snapshot
	Source Source
	// Context is the context of the kubeconfig, which the page shows.
	Context string
	// Check runs doctor's checks.
	Check func(ctx context.Context) (*doctor.Report, error)
	// Encode returns the JSON of a *Snapshot or *top.Pods, with apiVersion and kind.
	Encode func(any) ([]byte, error)
	// Token admits browsers; empty for a random one.
	Token string
	// Clock is the real one if nil.
	Clock clock.WithTicker
}

// Server serves the page. Use NewServer.
type Server struct {
	options  Options
	listener net.Listener
	access   *access
	page     *page
	// turn is held while the source is used.
	turn chan struct{}
	// streams bounds the number of browser tabs.
	streams chan struct{}

	mu     sync.Mutex
	health *Health
	state  *state
	// changed is closed at the next state.
	changed chan struct{}
}

// Bounds of what browsers can occupy. A browser has up to six connections to a server.
const (
	maxConnections = 64
	maxStreams     = 16
	maxHeaderBytes = 16 << 10
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = time.Minute
)

// NewServer returns a server at the listener. It reads the nodes once.
func NewServer(ctx context.Context, listener net.Listener, o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	page, err := newPage(nil)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o, listener: netutil.LimitListener(listener, maxConnections), access: newAccess(listener.Addr(), o.Token), page: page,
		turn: make(chan struct{}, 1), streams: make(chan struct{}, maxStreams), changed: make(chan struct{}),
	}
	if o.Saved != nil {
		return s, s.publish(o.Saved)
	}
	return s, s.read(ctx)
}

// URL is the address of the page. Its fragment has the token, which browsers send to no server.
func (s *Server) URL() string { return s.Address() + "#token=" + s.access.token }

// Address is the URL without the token.
func (s *Server) Address() string { return "http://" + s.access.hosts[0] + "/" }

// Serve serves the page and reads the source until ctx is done. It closes the listener.
func (s *Server) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler: s.handler(), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return ctx }, // ends streams
	}
	group.Go(func() error {
		if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	if s.options.Saved == nil {
		group.Go(func() error { return s.follow(ctx) })
		group.Go(func() error {
			s.checkHealth(ctx)
			return nil
		})
	}
	return group.Wait()
}

// follow reads the source again and again.
func (s *Server) follow(ctx context.Context) error {
	ticker := s.options.Clock.NewTicker(top.ShowInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if err := s.read(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// read updates the source and publishes its nodes.
func (s *Server) read(ctx context.Context) error {
	var nodes *top.Nodes
	err := s.withSource(ctx, func(source Source) (err error) {
		if _, err := source.Update(ctx); err != nil {
			return err
		}
		nodes, err = source.Nodes(ctx, top.Selection{Order: top.ByName})
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	health := s.health
	s.mu.Unlock()
	return s.publish(newSnapshot(nodes, s.options.Context, health))
}

// withSource calls use once no other goroutine uses the source.
func (s *Server) withSource(ctx context.Context, use func(Source) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	return use(s.options.Source)
}

func (s *Server) publish(snapshot *Snapshot) error {
	before, changed := s.current()
	next, err := before.next(snapshot, s.options.Encode)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.changed = next, make(chan struct{})
	close(changed)
	return nil
}

// current returns the state, and a channel that is closed at the next one.
func (s *Server) current() (*state, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page.serve)
	mux.HandleFunc("POST /session", s.access.logIn)
	mux.HandleFunc("GET /snapshot.json", s.access.loggedIn(s.serveSnapshot))
	mux.HandleFunc("GET /events", s.access.loggedIn(s.serveEvents))
	mux.HandleFunc("GET /pods.json", s.access.loggedIn(s.servePods))
	return s.access.guard(s.page.policy, mux)
}

func (s *Server) serveSnapshot(w http.ResponseWriter, _ *http.Request) {
	state, _ := s.current()
	writeJSON(w, state.full())
}

func writeJSON(w http.ResponseWriter, content []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content) // the browser has gone
}

// podsTimeout bounds the wait for a source that hangs. It is below writeTimeout.
const podsTimeout = 20 * time.Second

// servePods serves the pods of the node that the query names.
func (s *Server) servePods(w http.ResponseWriter, r *http.Request) {
	if s.options.Saved != nil {
		http.Error(w, "a saved snapshot has no pods", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), podsTimeout)
	defer cancel()
	var content []byte
	err := s.withSource(ctx, func(source Source) error {
		pods, err := source.Pods(ctx, r.URL.Query().Get("node"))
		if err == nil {
			content, err = s.options.Encode(pods)
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		http.Error(w, text.Excerpt(err.Error()), http.StatusNotFound)
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "the load is being read; try again", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, text.Excerpt(err.Error()), http.StatusInternalServerError)
	default:
		writeJSON(w, content)
	}
}
