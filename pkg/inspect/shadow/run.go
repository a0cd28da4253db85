package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Path is where the Report is served, with the number of hours as the query parameter "hours".
const Path = "/shadow"

// Server evaluates the decisions in one cluster, and serves the counts. It makes the Scheduler of its Options.
type Server struct {
	Options
	Connection    *cluster.Connection
	Configuration *schedulerconfig.KubeSchedulerConfiguration
	// Plugins are the factories of plugins beside the stock ones.
	Plugins frameworkruntime.Registry
	// Metrics serves the metrics of Tally and Plugins.
	Metrics http.Handler

	ready atomic.Bool
}

// Run serves at the listener until ctx is done.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return webserver.Server{}.Serve(ctx, listener, s.Handler()) })
	group.Go(func() error { return s.watch(ctx) })
	return group.Wait()
}

// Handler serves Path, /metrics, /healthz and /readyz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.Metrics)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "the cluster's objects are not known yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		hours := MaxHours
		if given := r.URL.Query().Get("hours"); given != "" {
			var err error
			if hours, err = strconv.Atoi(given); err != nil || hours < 1 || hours > MaxHours {
				http.Error(w, fmt.Sprintf("hours: write a number from 1 to %d", MaxHours), http.StatusBadRequest)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Tally.Report(hours)) // the client is gone
	})
	return mux
}

// event is a new state of an object, or that it is gone.
type event struct {
	object runtime.Object
	gone   bool
}

// watch evaluates decisions until ctx is done.
func (s *Server) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	followed, err := s.Connection.Follow(ctx)
	if followed != nil {
		defer followed.Shutdown()
	}
	defer cancel()
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	s.Scheduler, err = sim.New(ctx, sim.Options{
		Configuration: s.Configuration, Plugins: s.Plugins, Objects: followed.Objects(), Clock: s.Clock,
		KubeConfig: s.Connection.KubeConfig,
	})
	if err != nil {
		return err
	}
	shadow, err := New(s.Options)
	if err != nil {
		return err
	}
	events := make(chan event)
	if err := followed.OnChange(func(object runtime.Object, gone bool) {
		select {
		case events <- event{object, gone}:
		case <-ctx.Done():
		}
	}); err != nil {
		return err
	}
	s.ready.Store(true)
	klog.FromContext(ctx).Info("Evaluating pods", "schedulerNames", s.SchedulerNames, "profile", s.Profile)
	return shadow.run(ctx, events)
}

// run applies events, and samples, until ctx is done.
func (s *Shadow) run(ctx context.Context, events <-chan event) error {
	ticker := s.Clock.NewTicker(SampleInterval)
	defer ticker.Stop()
	logger := klog.FromContext(ctx)
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			err = s.Sample(ctx)
		case e := <-events:
			if e.gone {
				err = s.Drop(e.object)
			} else {
				err = s.Put(ctx, e.object)
			}
		}
		if err != nil {
			logger.Error(err, "The simulation refused a change of the cluster")
		}
	}
}
