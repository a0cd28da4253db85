// Package loadwatcher is the load-watcher program: it reads the load of nodes and serves it by load-watcher's HTTP API, which
// plugins of other schedulers read too.
package loadwatcher

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Telemetry registers metrics, and its Handler serves them.
type Telemetry struct {
	refresh.Registry
	Handler http.Handler
}

const (
	// maxConnections bounds connections, most of which wait for the next refresh of a scheduler.
	maxConnections = 256
	// shutdownGrace is the time in which requests must finish; a pod has 30 s by default.
	shutdownGrace = 20 * time.Second
)

type service struct {
	server  *server
	tls     *tls.Config // nil for plain HTTP
	stop    context.CancelFunc
	running sync.WaitGroup
}

// start reads the load until close. It fails if the options name a file that cannot be read.
func start(ctx context.Context, o *options, spec config.LoadSpec, cluster *rest.Config, t Telemetry) (_ *service, err error) {
	informer, err := newNodeInformer(cluster)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &service{stop: stop}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	nodes := source.Cluster{
		Nodes: corelisters.NewNodeLister(informer.GetIndexer()), NodesSynced: informer.HasSynced, KubeConfig: cluster,
	}
	// As pkg/provider does it. Importing that would link the scheduler's framework, twice as many packages.
	src, err := sources.Open(ctx, nodes, spec, o.account, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	trust := load.Trust{
		RefreshInterval: spec.RefreshInterval.Duration, MaxAge: spec.MaxAge.Duration, DriftTolerance: spec.DriftTolerance,
	}
	watcher := refresh.NewWatcher(src, src.Name(), nodes, clock.RealClock{}, refresh.NewMetrics(t))
	watcher.Register(load.Requirements{RefreshInterval: trust.RefreshInterval, Windows: []time.Duration{spec.Window.Duration}}, trust)
	s.running.Go(func() { watcher.Run(ctx) })
	s.server = newServer(serverConfig{
		source: src.Name(), publisher: watcher.Publisher(), nodes: nodes, window: spec.Window.Duration,
		trust: trust, telemetry: t, clock: clock.RealClock{},
	})
	if o.tlsCertFile != "" {
		if s.tls, err = followCertificate(ctx, o.tlsCertFile, o.tlsPrivateKeyFile); err != nil {
			return nil, err
		}
	}
	s.running.Go(func() { informer.RunWithContext(ctx) })
	return s, nil
}

func (s *service) close() {
	s.stop()
	s.running.Wait()
}

// run serves the load on the listener, which it closes. When ctx is done, it finishes accepted requests, and then closes the
// service.
func (s *service) run(ctx context.Context, listener net.Listener) error {
	defer s.close()
	logger := klog.FromContext(ctx)
	if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		logger.Info("Every client of the port can read the load of the nodes: restrict access to the port by a NetworkPolicy")
	}
	logger.Info("Serving load", "address", listener.Addr().String(), "tls", s.tls != nil)
	return webserver.Server{MaxConnections: maxConnections, TLS: s.tls, Grace: shutdownGrace}.Serve(ctx, listener, s.server.handler)
}

// newNodeInformer avoids Kubernetes' clientset, which links the clients of all APIs.
func newNodeInformer(cluster *rest.Config) (cache.SharedIndexInformer, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(cluster)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	list := cache.NewListWatchFromClient(client, "nodes", corev1.NamespaceAll, fields.Everything())
	nodes := cache.NewSharedIndexInformer(list, &corev1.Node{}, 0, cache.Indexers{})
	// Nodes without managed fields take much less memory.
	return nodes, nodes.SetTransform(program.WithoutManagedFields)
}

// followCertificate returns the settings of a server that reads the files at each handshake. While they have no certificate, as
// during a rotation, the server keeps the last one.
func followCertificate(ctx context.Context, certFile, keyFile string) (*tls.Config, error) {
	var last atomic.Pointer[tls.Certificate]
	read := func() error {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err == nil {
			last.Store(&pair)
		}
		return err
	}
	failures := rate.Sometimes{Interval: time.Minute}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if err := read(); err != nil {
			failures.Do(func() { klog.FromContext(ctx).Error(err, "The last TLS certificate is kept") })
		}
		return last.Load(), nil
	}}, read()
}

// NewCommand returns the command of the program in a version.
func NewCommand(version string, t Telemetry) *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "load-watcher",
		Short: "Serves the load of nodes to several schedulers",
		Long: `Reads the load of the cluster's nodes from Prometheus, metrics-server, SignalFx or Datadog. It serves the load to any
number of schedulers by load-watcher's HTTP API: GET /watcher[?host=NAME], GET /watcher/health, /metrics and /healthz.

Flags override the environment variables that they name. Pass a token for the metrics provider in a file or in
METRICS_PROVIDER_TOKEN. Pass Datadog's application key in a file or in METRICS_PROVIDER_APP_KEY. Without a token,
ENABLE_OPENSHIFT_AUTH=true sends the token of the pod's service account to an https Prometheus with a verified certificate.`,
		Args:         cobra.NoArgs,
		Version:      version,
		SilenceUsage: true, // an error has one line
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := o.complete(cmd.Flags())
			if err != nil {
				return err
			}
			cluster, err := o.cluster()
			if err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(o.logging, nil); err != nil {
				return err
			}
			finding.Warn(o.checkQueries(&spec.MetricProvider), o.logging.Format)
			s, err := start(cmd.Context(), o, spec, cluster, t)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the program at once
			listener, err := net.Listen("tcp", o.listenAddress)
			if err != nil {
				s.close()
				return fmt.Errorf("--listen-address: %w", err)
			}
			return s.run(ctx, listener)
		},
	}
	command.SetVersionTemplate("Plimsoll {{.Version}}\n")
	o.addFlags(command.Flags())
	return command
}
