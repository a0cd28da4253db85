package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher/server"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// Bounds of one connection. A response for 15,000 nodes has 6 MiB.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	// connectionsPerRequest is the number of connections for each request that may be in flight. Most connections wait for their
	// client's next refresh.
	connectionsPerRequest = 8
	// shutdownGrace is the time in which requests must finish; a pod has 30 s by default.
	shutdownGrace = 20 * time.Second
)

// service is the program with its settings applied, before any goroutine runs.
type service struct {
	options   *options
	informers informers.SharedInformerFactory
	watcher   *refresh.Watcher
	server    *server.Server
}

func newService(ctx context.Context, o *options, spec config.LoadSpec, cluster *rest.Config, t telemetry) (*service, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster: %w", err)
	}
	s := &service{
		options:   o,
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields)),
	}
	informer := s.informers.Core().V1().Nodes()
	nodes := provider.Cluster{Nodes: informer.Lister(), NodesSynced: informer.Informer().HasSynced, KubeConfig: cluster}
	source, err := provider.Open(ctx, nodes, spec, o.account, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	trust := provider.TrustOf(spec)
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
		Metrics:        t.handler,
		Registry:       t,
		Clock:          clock.RealClock{},
	})
	if err != nil {
		return nil, fmt.Errorf("--bearer-token-file: %w", err)
	}
	return s, nil
}

// withoutManagedFields drops the managed fields: they take much of a Node's memory, and nothing reads them.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// run serves on the listener, which it closes, and reads the load meanwhile. When ctx is done it accepts no more requests,
// finishes those it has accepted, and returns when all its goroutines have ended.
func (s *service) run(ctx context.Context, listener net.Listener) error {
	logger := klog.FromContext(ctx)
	// Load is read until the last request is finished.
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
		logger.Info("Requests carry the bearer token over plain HTTP, where others can read it: set --tls-cert-file and --tls-private-key-file")
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() && s.options.bearerTokenFile == "" {
		logger.Info("Every client that reaches the port can read the load of the nodes: set --bearer-token-file, or restrict access to the port")
	}
	s.informers.Start(background.Done())
	running.Go(func() { s.watcher.Run(background) })
	running.Go(func() { s.server.Run(background) })
	logger.Info("Serving load", "address", listener.Addr().String(), "tls", tlsConfig != nil, "token", s.options.bearerTokenFile != "")
	return serve(ctx, s.server.Limit(listener), s.server, tlsConfig)
}

// serve serves requests until ctx is done and the requests accepted by then are finished.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, tlsConfig *tls.Config) error {
	background := context.WithoutCancel(ctx)
	logger := klog.FromContext(ctx)
	httpServer := &http.Server{
		Handler:           handler,
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return background },
		ErrorLog:          log.New(errorLog{logger}, "", 0),
	}
	defer func() { _ = httpServer.Close() }()
	stopped := make(chan error, 1)
	keepOn := context.AfterFunc(ctx, func() {
		logger.Info("Stopping")
		grace, cancel := context.WithTimeout(background, shutdownGrace)
		defer cancel()
		stopped <- httpServer.Shutdown(grace)
	})
	var err error
	if tlsConfig != nil {
		err = httpServer.ServeTLS(listener, "", "")
	} else {
		err = httpServer.Serve(listener)
	}
	if keepOn() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("requests have not finished within %s: %w", shutdownGrace, err)
	}
	return nil
}

// errorLog writes what net/http logs. Any client can fail TLS handshakes as often as it likes.
type errorLog struct{ logger klog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		l.logger.V(4).Info("TLS handshake failed", "error", string(bytes.TrimSpace(line)))
	} else {
		l.logger.Error(nil, "HTTP server", "error", string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}

// certificates are a key pair that is read again when its files change.
type certificates struct {
	content    *dynamiccertificates.DynamicCertKeyPairContent
	controller *dynamiccertificates.DynamicServingCertificateController
}

func newCertificates(certFile, keyFile string) (*certificates, error) {
	content, err := dynamiccertificates.NewDynamicServingContentFromFiles("load-watcher", certFile, keyFile)
	if err != nil {
		return nil, err
	}
	// Without HTTP/2 a connection has one request at a time.
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	controller := dynamiccertificates.NewDynamicServingCertificateController(base, nil, content, nil, nil)
	content.AddListener(controller)
	if err := controller.RunOnce(); err != nil {
		return nil, err
	}
	return &certificates{content: content, controller: controller}, nil
}

// config returns the configuration of a server that presents the latest certificate.
func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: c.controller.GetConfigForClient}
}

// run follows the files until ctx is done.
func (c *certificates) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.content.Run(ctx, 1) })
	running.Go(func() { c.controller.Run(1, ctx.Done()) })
	running.Wait()
}
