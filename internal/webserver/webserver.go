// Package webserver serves HTTP within bounds.
package webserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Bounds of a connection.
const (
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// Serve serves at the listener, which it closes, until ctx is done. Requests that are not complete then are cut short.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- server.Close() })
	if err := server.Serve(listener); stop() || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}
