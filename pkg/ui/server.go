// Package ui serves a read-only page of a cluster's load to one user's browser.
//
// The page gets one JSON snapshot and then its changes. All figures are those of kubectl plimsoll top.
package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// Source is the load of a cluster. One goroutine uses it at a time. *top.Session implements it.
type Source interface {
	// Update reads what has changed.
	Update(ctx context.Context) error
	Nodes(ctx context.Context, selected top.Selection) (*top.Nodes, error)
	Pods(ctx context.Context, node string) (*top.Pods, error)
	// Waiting returns the pods without a node, the longest waiting first.
	Waiting() []top.WaitingPod
	// Lend lends the simulation of the cluster to use, if it has the configuration.
	Lend(of *cluster.Configuration, use func(*cluster.Cluster) error) (lent bool, err error)
}

// Options configure a Server.
type Options struct {
	Source Source
	// Context is the context of the kubeconfig, which the page shows.
	Context string
	// Chosen says how the user chose the cluster, for commands that the page shows.
	Chosen cluster.Chosen
	// Flags say how the user chose the configuration, and how sources are reached.
	Flags []string
	// Check runs doctor's checks, which may borrow the simulation of Source.
	Check func(ctx context.Context, lend cluster.Lender) (*doctor.Report, error)
	// Questions are answered anew each time.
	Questions Questions
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
	// streams and asked bound the numbers of streams and of questions at a time.
	streams, asked chan struct{}

	// endTimeout bounds the wait for streams at the end. A connection that a browser holds ready may use all of it.
	endTimeout time.Duration

	mu     sync.Mutex
	health *Health
	state  *state
	// changed is closed at the next state.
	changed chan struct{}
}

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
		options: o, listener: listener, access: newAccess(listener.Addr()), page: page,
		turn: make(chan struct{}, 1), streams: make(chan struct{}, maxStreams), asked: make(chan struct{}, maxAsked),
		changed: make(chan struct{}), endTimeout: time.Second,
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
	group.Go(func() error { // within the grace, streams end whole
		return webserver.Server{Grace: s.endTimeout}.Serve(ctx, s.listener, s.handler())
	})
	group.Go(func() error { return s.follow(ctx) })
	group.Go(func() error {
		s.checkHealth(ctx)
		return nil
	})
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
	var waiting []top.WaitingPod
	err := s.withSource(ctx, func(source Source) (err error) {
		if err := source.Update(ctx); err != nil {
			return err
		}
		waiting = source.Waiting()
		nodes, err = source.Nodes(ctx, top.Selection{Order: top.ByName})
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	health := s.health
	s.mu.Unlock()
	snapshot := newState(nodes, waiting, s.options.Context, health)
	snapshot.IntervalSeconds = top.ShowInterval.Seconds()
	return s.publish(snapshot)
}

// withSource waits for its turn and calls use.
func (s *Server) withSource(ctx context.Context, use func(Source) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	return use(s.options.Source)
}

// lend lends the source's simulation in its turn. It is a live.Lender.
func (s *Server) lend(ctx context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (lent bool, err error) {
	err = s.withSource(ctx, func(source Source) (err error) {
		lent, err = source.Lend(of, use)
		return err
	})
	return lent, err
}

func (s *Server) publish(snapshot *State) error {
	before, changed := s.current()
	next, err := before.next(snapshot)
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
	mux.HandleFunc("GET /snapshot.json", s.access.loggedIn(func(w http.ResponseWriter, _ *http.Request) {
		state, _ := s.current()
		writeJSON(w, state.full())
	}))
	mux.HandleFunc("GET /events", s.access.loggedIn(s.serveEvents))
	mux.HandleFunc("GET /pods.json", s.access.loggedIn(s.servePods))
	mux.HandleFunc("GET /explain.json", s.access.loggedIn(answer(s, s.explain)))
	mux.HandleFunc("GET /what-if.json", s.access.loggedIn(answer(s, s.options.Questions.whatIf)))
	mux.HandleFunc("GET /moves.json", s.access.loggedIn(answer(s, s.options.Questions.moves)))
	return s.access.guard(s.page.policy, mux)
}

func writeJSON(w http.ResponseWriter, content []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content) // the browser has gone
}

// sourceTimeout bounds the wait for a source that hangs. It is below webserver.WriteTimeout.
const sourceTimeout = 20 * time.Second

// servePods serves the pods of the node of the query.
func (s *Server) servePods(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), sourceTimeout)
	defer cancel()
	var content []byte
	err := s.withSource(ctx, func(source Source) error {
		pods, err := source.Pods(ctx, r.URL.Query().Get("node"))
		if err == nil {
			content, err = output.Marshal(pods)
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

// send writes one server-sent event, whose data has no line break.
func send(w http.ResponseWriter, event string, data []byte) error {
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// maxStreams bounds streams. A browser has up to six connections to a server, of which its tabs need some for questions.
const maxStreams = 4

// serveEvents sends the snapshot, and then what changes. A browser that missed a change gets the snapshot again.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	select {
	case s.streams <- struct{}{}:
	default:
		_ = send(w, "refused", fmt.Appendf(nil, `"%d other tabs show this page. Close or hide one."`, maxStreams))
		return
	}
	defer func() { <-s.streams }()
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Time{}) // nothing is read any more
	for sent := -1; ; {
		state, changed := s.current()
		event, data := "delta", state.delta
		if sent < 0 || state.sequence != sent+1 {
			event, data = "snapshot", state.full()
		}
		_ = controller.SetWriteDeadline(time.Now().Add(webserver.WriteTimeout)) // else that of the server
		if send(w, event, data) != nil {
			return
		}
		sent = state.sequence
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// The checks list all pods and ask the source of load. So they rest for at least checkInterval, and for restFactor times as long
// as they took.
const (
	checkInterval = time.Minute
	checkTimeout  = time.Minute
	restFactor    = 9
)

// checkHealth runs the checks now and then, until ctx is done.
func (s *Server) checkHealth(ctx context.Context) {
	for {
		began := s.options.Clock.Now()
		health := check(ctx, s.options.Check, s.lend, s.options.Clock)
		s.mu.Lock()
		s.health = health
		s.mu.Unlock()
		rest := s.options.Clock.NewTimer(max(checkInterval, restFactor*s.options.Clock.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C():
		}
	}
}

func check(
	ctx context.Context, run func(context.Context, cluster.Lender) (*doctor.Report, error), lend cluster.Lender, c clock.PassiveClock,
) *Health {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	report, err := run(ctx, lend)
	if err != nil {
		return &Health{Time: c.Now().UTC(), Problem: text.Excerpt(err.Error())}
	}
	return &Health{Time: c.Now().UTC(), Report: report}
}
