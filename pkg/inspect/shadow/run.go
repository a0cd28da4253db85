package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // client metrics on /metrics
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
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

// options are the flags of the command.
type options struct {
	Options
	config, kubeconfig, listenAddress string
}

func runCommand() *cobra.Command {
	o := &options{}
	logging := logsapi.NewLoggingConfiguration()
	command := &cobra.Command{
		Use:   "run",
		Short: "Count what Plimsoll would decide for the pods of another scheduler",
		Long: `Decides for each pod that another scheduler places, with a profile of the configuration, and places none. It counts the
pods that would have gone elsewhere, and the minutes that pods are on hot nodes. Nothing is written to the cluster.

It serves /metrics, /healthz, /readyz and the report of kubectl plimsoll shadow.`,
		Example: `  # Evaluate the pods of the stock scheduler
  kubectl plimsoll shadow run --config scheduler.yaml --scheduler-name default-scheduler`,
		Args: kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			cfg, err := o.configuration()
			if err != nil {
				return err
			}
			connection, err := o.connect()
			if err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			return o.serve(cmd.Context(), connection, cfg)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.config, "config", "", "file with the KubeSchedulerConfiguration that decides; required")
	flags.StringVar(&o.Profile, "profile", "", "schedulerName of the profile that decides; by default the first")
	flags.StringSliceVar(&o.SchedulerNames, "scheduler-name", []string{corev1.DefaultSchedulerName},
		"schedulerName of the pods to evaluate; may be repeated")
	flags.Float64Var(&o.CPUShare, "cpu-share", 0.1,
		"share of one core to spend, from 0.001 to 1; pods beyond it are skipped and counted")
	flags.StringVar(&o.listenAddress, "listen-address", ":"+port, "host:port to serve on; without a host, all addresses")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; by default the pod's cluster")
	logsapi.AddFlags(logging, flags)
	return command
}

// gcPercent is Go's default: other commands end soon, and collect less often.
const gcPercent = 100

// serve runs a Server until ctx is done.
func (o *options) serve(
	ctx context.Context, connection *cluster.Connection, cfg *schedulerconfig.KubeSchedulerConfiguration,
) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	account, err := sources.ServiceAccountFromEnvironment()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listenAddress)
	if err != nil {
		return fmt.Errorf("--listen-address: %w", err)
	}
	c, registry := clock.RealClock{}, program.Registry{}
	server := &Server{
		Options: o.Options, Connection: connection, Configuration: cfg, Metrics: legacyregistry.Handler(),
		Plugins: plugins.NewRegistry(provider.New(c, registry, account), c, registry.MustRegister),
	}
	server.Clock, server.Tally = c, NewTally(c, registry.MustRegister)
	return server.Run(ctx, listener)
}

func (o *options) validate() error {
	switch {
	case o.config == "":
		return errors.New("--config: required; name the file with the KubeSchedulerConfiguration")
	case !(o.CPUShare >= 0.001 && o.CPUShare <= 1): // NaN too
		return fmt.Errorf("--cpu-share: %v; write a share of one core, from 0.001 to 1", o.CPUShare)
	case len(o.SchedulerNames) == 0:
		return errors.New("--scheduler-name: empty; write the schedulerName of the pods to evaluate")
	}
	return nil
}

// configuration returns the configuration with defaults, and completes profile.
func (o *options) configuration() (*schedulerconfig.KubeSchedulerConfiguration, error) {
	lint := plugins.LintOptions()
	lint.Getenv = os.Getenv
	cfg, err := configlint.ReadFile(o.config, lint)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var names []string
	for i := range cfg.Profiles {
		names = append(names, cfg.Profiles[i].SchedulerName)
	}
	if o.Profile == "" {
		o.Profile = names[0]
	}
	if !slices.Contains(names, o.Profile) {
		return nil, fmt.Errorf("--profile: %q, but %s has the profiles %s; write one of them", o.Profile, o.config,
			strings.Join(names, ", "))
	}
	return cfg, nil
}

// connect returns a connection that cannot change the cluster.
func (o *options) connect() (*cluster.Connection, error) {
	kubeConfig, err := program.ReadKubeconfig("--kubeconfig", o.kubeconfig, "plimsoll-shadow")
	if err != nil {
		return nil, err
	}
	return cluster.Connect(kubeConfig, corev1.NamespaceAll, o.kubeconfig == "")
}
