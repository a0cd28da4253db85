package service

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

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

// Bounds of one connection. A response for 15,000 nodes has 6 MiB.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	// shutdownGrace is the time in which requests must finish; a pod has 30 s by default.
	shutdownGrace = 20 * time.Second
)

// serve serves requests until ctx is done and all accepted requests are finished.
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

// errorLog writes the log of net/http. Failed TLS handshakes are at verbosity 4: any client can cause many of them.
type errorLog struct{ logger klog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		l.logger.V(4).Info("TLS handshake failed", "error", string(bytes.TrimSpace(line)))
	} else {
		l.logger.Error(nil, "HTTP server", "error", string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}

// newCertificates returns a configuration with the certificate in the files, which run follows until its context is done.
func newCertificates(certFile, keyFile string) (_ *tls.Config, run func(context.Context), err error) {
	content, err := dynamiccertificates.NewDynamicServingContentFromFiles("load-watcher", certFile, keyFile)
	if err != nil {
		return nil, nil, err
	}
	// Without HTTP/2 a connection has one request at a time.
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	controller := dynamiccertificates.NewDynamicServingCertificateController(base, nil, content, nil, nil)
	content.AddListener(controller)
	run = func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { content.Run(ctx, 1) })
		running.Go(func() { controller.Run(1, ctx.Done()) })
		running.Wait()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: controller.GetConfigForClient}, run, controller.RunOnce()
}
