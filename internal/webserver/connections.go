package webserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// sendBufferBytes bounds the kernel's part of a response to a slow client; Linux doubles it. The default is up to 4 MiB.
const sendBufferBytes = 64 << 10

// limitedListener keeps at most limit connections. A further connection replaces the oldest one without a request, or, if all have
// one, the oldest. netutil.LimitListener would let new clients, and so probes, wait for those that hold a connection.
type limitedListener struct {
	net.Listener
	limit  int
	logger klog.Logger
	logged rate.Sometimes

	mu sync.Mutex
	// open are the connections, the oldest first.
	open []*limitedConn
}

type limitedConn struct {
	net.Conn
	listener *limitedListener
	// busy reports whether a request is read or answered; listener.mu guards it.
	busy bool
}

func newLimitedListener(listener net.Listener, limit int, logger klog.Logger) *limitedListener {
	return &limitedListener{Listener: listener, limit: limit, logger: logger, logged: rate.Sometimes{Interval: time.Minute}}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBufferBytes)
	}
	accepted := &limitedConn{Conn: conn, listener: l}
	if replaced := l.add(accepted); replaced != nil {
		l.logged.Do(func() { l.logger.Info("Closing old connections to accept new ones", "limit", l.limit) })
		replaced.reset()
	}
	return accepted, nil
}

// add adds the connection, and removes the one that it replaces, if any.
func (l *limitedListener) add(conn *limitedConn) (replaced *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == l.limit {
		i := max(0, slices.IndexFunc(l.open, func(c *limitedConn) bool { return !c.busy }))
		replaced = l.open[i]
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.open = append(l.open, conn)
	return replaced
}

// track is http.Server's ConnState.
func (l *limitedListener) track(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	conn.(*limitedConn).busy = state == http.StateActive
}

func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	l.open = slices.DeleteFunc(l.open, func(open *limitedConn) bool { return open == c })
	l.mu.Unlock()
	return c.Conn.Close()
}

// reset closes the connection, and drops what the kernel has still to send.
func (c *limitedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}
