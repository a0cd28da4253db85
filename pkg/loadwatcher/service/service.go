package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/informer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher/server"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// Telemetry registers metrics, and its Handler serves them.
type Telemetry struct {
	refresh.Registry
	Handler http.Handler
}

// service is the program with its settings, before any goroutine runs.
type service struct {
	options   *options
	informers informers.SharedInformerFactory
	watcher   *refresh.Watcher
	server    *server.Server
}

func newService(ctx context.Context, o *options, spec config.LoadSpec, cluster *rest.Config, t Telemetry) (*service, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster: %w", err)
	}
	// Nodes without managed fields take much less memory.
	s := &service{
		options:   o,
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(informer.WithoutManagedFields)),
	}
	all := s.informers.Core().V1().Nodes()
	nodes := reading.Cluster{Nodes: all.Lister(), NodesSynced: all.Informer().HasSynced, KubeConfig: cluster}
	source, err := provider.OpenSource(ctx, nodes, spec, o.account, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	request := reading.Request{Spec: spec}
	trust := request.Trust()
	s.watcher = refresh.NewWatcher(source, source.Name(), nodes, clock.RealClock{}, refresh.NewMetrics(t))
	s.watcher.Register(load.Requirements{
		Windows:         append([]time.Duration{spec.Window.Duration}, o.windows...),
		RefreshInterval: spec.RefreshInterval.Duration,
	}, trust)
	s.server, err = server.New(ctx, server.Config{
		Source:         source.Name(),
		Publisher:      s.watcher.Publisher(),
		Nodes:          nodes,
		Window:         spec.Window.Duration,
		Windows:        o.windows,
		Trust:          trust,
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
	return s, nil
}

// run reads the load and serves it on the listener, which it closes. When ctx is done, it finishes accepted requests and returns
// when all its goroutines have ended. Load is read until the last request is finished.
func (s *service) run(ctx context.Context, listener net.Listener) error {
	logger := klog.FromContext(ctx)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer func() {
		stop()
		running.Wait()
		s.informers.Shutdown()
	}()

	var tlsConfig *tls.Config
	if s.options.tlsCertFile != "" {
		certificates, err := newCertificates(s.options.tlsCertFile, s.options.tlsPrivateKeyFile)
		if err != nil {
			_ = listener.Close()
			return fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
		}
		running.Go(func() { certificates.run(background) })
		tlsConfig = certificates.config()
	} else if s.options.bearerTokenFile != "" {
		logger.Info("Requests carry the bearer token over plain HTTP: set --tls-cert-file and --tls-private-key-file")
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() && s.options.bearerTokenFile == "" {
		logger.Info("Every client of the port can read the load of the nodes: set --bearer-token-file, or restrict access to the port")
	}
	s.informers.Start(background.Done())
	running.Go(func() { s.watcher.Run(background) })
	running.Go(func() { s.server.Run(background) })
	logger.Info("Serving load", "address", listener.Addr().String(), "tls", tlsConfig != nil, "token", s.options.bearerTokenFile != "")
	return serve(ctx, s.server.Limit(listener), s.server, tlsConfig)
}
