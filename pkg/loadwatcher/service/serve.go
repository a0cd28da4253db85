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
	"time"

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

// serve serves requests until ctx is done. Then it waits for accepted requests, at most 20 seconds.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, tlsConfig *tls.Config) error {
	background := context.WithoutCancel(ctx)
	logger := klog.FromContext(ctx)
	httpServer := &http.Server{
		Handler: handler, TLSConfig: tlsConfig, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return background }, ErrorLog: log.New(errorLog{logger}, "", 0),
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
