// Package run is the rebalancer program: it follows a cluster, plans moves off hot nodes, and makes them.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

const (
	// stepInterval is how often pauses, replacements and plans are looked at.
	stepInterval = 5 * time.Second
	// stuckAfter is the time without a step after which the process is not healthy.
	stuckAfter = 10 * time.Minute
	component  = "plimsoll-rebalancer"
)

// server is one process of the rebalancer.
type server struct {
	connection *cluster.Connection
	// client evicts pods, and writes the state, the lease and events. connection only reads.
	client        kubernetes.Interface
	scheduler     *schedulerconfig.KubeSchedulerConfiguration
	workload      *cluster.Workload
	file          string
	configuration *api.Configuration
	content       []byte
	// namespace and name are those of the state's ConfigMap and the Lease, and identity that of this process.
	namespace, name, identity string
	clock                     clock.WithTicker
	observer                  *observer
	metrics                   http.Handler

	// stepped is when the leader's last step ended, in seconds since 1970. Before the first, it is when this process began to lead;
	// 0 if it does not.
	stepped atomic.Int64
}

// run serves, and leads if it is elected, until ctx is done or the lease is lost.
func (s *server) run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return webserver.Server{}.Serve(ctx, listener, s.handler()) })
	group.Go(func() error { return s.elect(ctx, s.lead) })
	return group.Wait()
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if at := s.stepped.Load(); at != 0 && s.clock.Since(time.Unix(at, 0)) > stuckAfter {
			http.Error(w, "no step has ended for "+stuckAfter.String(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// elect calls lead while this process holds the lease. It returns an error once the lease is lost: the process must end.
func (s *server) elect(ctx context.Context, lead func(context.Context) error) error {
	parent := ctx
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, s.namespace, s.name, s.client.CoreV1(), s.client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: s.identity})
	if err != nil {
		return err
	}
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Name: component,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leading <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	led := make(chan error, 1)
	go func() {
		defer cancel()
		select {
		case ctx := <-leading:
			s.stepped.Store(s.clock.Now().Unix()) // the first step may never come
			led <- lead(ctx)
		case <-ctx.Done():
			led <- nil
		}
	}()
	elector.Run(ctx)
	cancel()
	if err = <-led; err == nil && parent.Err() == nil { // the end of lead has canceled ctx
		err = errors.New("the lease is lost")
	}
	return err
}

func (s *server) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return err
	}
	s.observer.events = broadcaster.NewRecorder(scheme.Scheme, component)
	world, err := command.Follow(ctx, s.connection, cluster.Options{
		Configuration: s.scheduler, Workload: s.workload, Clock: s.clock, FilesAreHere: true,
	})
	if err != nil {
		cancel()
		return err
	}
	defer world.Close()
	defer cancel()
	logger := klog.FromContext(ctx)
	logger.Info("Looking for hot nodes", "profile", world.Profile, "plugin", world.Plugin, "mode", s.configuration.Mode)
	executor := &plan.Executor{
		World: world, Evictor: kube.Evictor{Client: s.client}, Observer: s.observer, Clock: s.clock, Config: s.configuration,
		Store: &kube.Store{Client: s.client, Namespace: s.namespace, Name: s.name},
	}
	s.repeat(ctx, world.Interval, func(due bool) error { return s.step(ctx, world, executor, due) })
	return nil
}

// repeat makes steps until ctx is done, one in each stepInterval. A late one begins at once. The load is due after its interval.
func (s *server) repeat(ctx context.Context, interval func() time.Duration, step func(due bool) error) {
	ticker := s.clock.NewTicker(stepInterval)
	defer ticker.Stop()
	refreshed := time.Time{}
	for ctx.Err() == nil { // the ticker may fire together with a signal
		now := s.clock.Now()
		due := now.Sub(refreshed) >= interval()
		result := succeeded
		if err := step(due); err != nil && ctx.Err() == nil {
			result = failed
			klog.FromContext(ctx).Error(err, "A step failed; no pod is moved until one succeeds")
		}
		s.observer.steps.WithLabelValues(result).Inc()
		if due {
			refreshed = now
		}
		s.stepped.Store(s.clock.Now().Unix())
		select {
		case <-ctx.Done():
		case <-ticker.C():
		}
	}
}

func (s *server) step(ctx context.Context, world *command.World, executor *plan.Executor, due bool) error {
	logger := klog.FromContext(ctx)
	s.reload(ctx)
	executor.Config = s.configuration
	if due {
		notes, err := world.Refresh(ctx)
		if err != nil {
			return err
		}
		for _, note := range notes {
			logger.V(2).Info(note)
		}
	}
	status, err := executor.Step(ctx, due)
	if err != nil {
		return err
	}
	s.observer.show(status, s.configuration.Mode == api.Plan)
	if p := status.Plan; p != nil && p.Problem != "" {
		logger.V(2).Info("A simulated decision failed", "problem", p.Problem)
	}
	if m := status.Began; m != nil {
		logger.Info("Moved a pod", "namespace", m.Namespace, "pod", m.Pod, "from", m.From, "expectedOn", m.To)
	}
	if status.Stop != "" {
		logger.V(4).Info("Nothing moves", "reason", status.Stop, "why", status.Why)
	}
	return nil
}

// reload reads the configuration again. It keeps the last valid one.
func (s *server) reload(ctx context.Context) {
	content, err := boundedfile.ReadConfiguration(s.file)
	if err == nil && bytes.Equal(content, s.content) {
		return
	}
	var read *api.Configuration
	if err == nil {
		s.content = content
		read, err = plan.DecodeConfiguration(content)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The new configuration cannot be used; the last one holds")
		return
	}
	s.configuration = read
	klog.FromContext(ctx).Info("Read the configuration", "mode", read.Mode, "paused", read.Paused)
}

func newStateError(namespace, name string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		const create = "--state: there is no ConfigMap %[1]s/%[2]s; create it: kubectl -n %[1]s create configmap %[2]s"
		return fmt.Errorf(create, namespace, name)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("--state: %w; grant get and update on the ConfigMap, as the chart's Role does", err)
	}
	return fmt.Errorf("read the state, ConfigMap %s/%s: %w", namespace, name, err)
}
