package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/informer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher/server"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// Telemetry registers metrics, and its Handler serves them.
type Telemetry struct {
	refresh.Registry
	Handler http.Handler
}

// service is the program, which reads load from its start on.
type service struct {
	options *options
	server  *server.Server
	// tls is nil for plain HTTP.
	tls       *tls.Config
	informers informers.SharedInformerFactory
	sources   *provider.Provider
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// start reads the load until close. It fails if the options name a file that cannot be read.
func start(ctx context.Context, o *options, spec config.LoadSpec, cluster *rest.Config, t Telemetry) (_ *service, err error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &service{
		options: o,
		stop:    stop,
		sources: provider.New(clock.RealClock{}, t, o.account),
		// Nodes without managed fields take much less memory.
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(informer.WithoutManagedFields)),
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	all := s.informers.Core().V1().Nodes()
	nodes := reading.Cluster{Nodes: all.Lister(), NodesSynced: all.Informer().HasSynced, KubeConfig: cluster}
	var reader *reading.Reader
	for _, window := range append(o.windows, spec.Window.Duration) {
		of := spec
		of.Window.Duration = window
		if reader, err = s.sources.Open(ctx, reading.ForLoad(of, nil).In(nodes)); err != nil {
			return nil, err
		}
	}
	s.server, err = server.New(ctx, server.Config{
		Source:         s.sources.Sources()[0].Label,
		Publisher:      reader.Snapshots().Publisher(),
		Nodes:          nodes,
		Window:         spec.Window.Duration,
		Windows:        o.windows,
		Trust:          reader.Request().Trust(),
		TokenFile:      o.bearerTokenFile,
		MaxConnections: o.maxConnections,
		MaxRequests:    o.maxConnections / connectionsPerRequest,
		Metrics:        t.Handler,
		Registry:       t,
		Clock:          clock.RealClock{},
	})
	if err != nil {
		return nil, fmt.Errorf("--bearer-token-file: %w", err)
	}
	if o.tlsCertFile != "" {
		config, run, err := newCertificates(o.tlsCertFile, o.tlsPrivateKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
		}
		s.tls = config
		s.running.Go(func() { run(ctx) })
	}
	s.running.Go(func() { s.server.Run(ctx) })
	s.informers.Start(ctx.Done())
	return s, nil
}

// close returns when all goroutines of the service have ended.
func (s *service) close() {
	s.stop()
	s.running.Wait()
	s.sources.Wait()
	s.informers.Shutdown()
}

// run serves the load on the listener, which it closes. When ctx is done, it finishes accepted requests, and then closes the
// service.
func (s *service) run(ctx context.Context, listener net.Listener) error {
	defer s.close()
	logger, hasToken := klog.FromContext(ctx), s.options.bearerTokenFile != ""
	if s.tls == nil && hasToken {
		logger.Info("Requests carry the bearer token over plain HTTP: set --tls-cert-file and --tls-private-key-file")
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() && !hasToken {
		logger.Info("Every client of the port can read the load of the nodes: set --bearer-token-file, or restrict access to the port")
	}
	logger.Info("Serving load", "address", listener.Addr().String(), "tls", s.tls != nil, "token", hasToken)
	return serve(ctx, s.server.Limit(listener), s.server, s.tls)
}
