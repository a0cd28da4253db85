// Package webserver serves HTTP within bounds, so that no client can use up the program's memory or keep other clients out. It also
// has the theme, scripts and charts of all pages.
package webserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// Bounds of a connection. A response of load for 15,000 nodes has 6 MiB.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	// WriteTimeout bounds a response unless its handler sets another deadline.
	WriteTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// MaxConnections is the number of connections unless Server has another.
const MaxConnections = 64

// Server has the settings of a server. Its zero value serves plain HTTP to MaxConnections.
type Server struct {
	// MaxConnections bounds open connections, and so the responses at a time: a connection has one. 0 is the default.
	MaxConnections int
	// TLS is nil for plain HTTP.
	TLS *tls.Config
	// Grace is the time that requests have to finish after the context is done.
	Grace time.Duration
}

// Serve serves at the listener, which it closes, until ctx is done. The requests' context ends with ctx, and has its logger.
func (s Server) Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	logger := klog.FromContext(ctx)
	limited := &connections{
		limit: cmp.Or(s.MaxConnections, MaxConnections), logger: logger, logged: rate.Sometimes{Interval: time.Minute},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a connection of HTTP/2 has many requests at a time
	server := &http.Server{
		Handler: handler, TLSConfig: s.TLS, Protocols: protocols, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: WriteTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ConnState: limited.track,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: log.New(errorLog{logger}, "", 0),
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
		defer cancel()
		if err := server.Shutdown(grace); err != nil && s.Grace > 0 {
			logger.V(2).Info("Cutting requests short", "grace", s.Grace)
		}
		ended <- server.Close()
	})
	var err error
	if s.TLS != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, server.Close())
	}
	return <-ended
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

// sendBufferBytes bounds the kernel's part of a response to a slow client; Linux doubles it. The default is up to 4 MiB.
const sendBufferBytes = 64 << 10

// connections keeps at most limit connections of a server. A further connection replaces the oldest one without a request, or, if
// all have one, the oldest. With netutil.LimitListener, new clients and probes would wait for a client to leave.
type connections struct {
	limit  int
	logger klog.Logger
	logged rate.Sometimes

	mu sync.Mutex
	// open are the connections, the oldest first.
	open []connection
}

type connection struct {
	*net.TCPConn
	// busy reports whether a request is read or answered.
	busy bool
}

// track is an http.Server's ConnState, which is called with http.StateNew before a connection is read.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.open, func(open connection) bool { return open.TCPConn == tcp })
	switch {
	case state == http.StateNew:
		_ = tcp.SetWriteBuffer(sendBufferBytes)
		if len(c.open) == c.limit {
			c.logged.Do(func() { c.logger.Info("Closing old connections to accept new ones", "limit", c.limit) })
			c.closeOldest()
		}
		c.open = append(c.open, connection{TCPConn: tcp})
	case i < 0: // it was replaced
	case state == http.StateClosed:
		c.open = slices.Delete(c.open, i, i+1)
	default:
		c.open[i].busy = state == http.StateActive
	}
}

func (c *connections) closeOldest() {
	i := max(0, slices.IndexFunc(c.open, func(open connection) bool { return !open.busy }))
	_ = c.open[i].SetLinger(0) // drop what the kernel has still to send
	_ = c.open[i].Close()
	c.open = slices.Delete(c.open, i, i+1)
}
