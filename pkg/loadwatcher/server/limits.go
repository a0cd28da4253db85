package server

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/component-base/metrics"
)

// sendBufferBytes bounds the kernel's part of a response to a slow client; Linux doubles it.
// The default is up to 4 MiB, for minutes after the connection is closed.
const sendBufferBytes = 64 << 10

// limited passes on at most Config.MaxRequests requests at a time, and those of probes. It sheds further ones.
// But it aborts the oldest request of an address with more requests in flight: slow clients keep no others out.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathHealthz {
			next.ServeHTTP(w, r)
			return
		}
		address, response := clientOf(r.RemoteAddr), http.NewResponseController(w)
		aborted, full, added := s.inFlight.add(address, response, true)
		if !added {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			http.Error(w, "too many requests are in flight: retry in a second", http.StatusServiceUnavailable)
			return
		}
		defer s.inFlight.remove(address, response)
		if full {
			_ = aborted.SetWriteDeadline(time.Unix(1, 0)) // its writes fail at once
		}
		next.ServeHTTP(w, r)
	})
}

// Limit returns a listener with at most Config.MaxConnections connections at a time. A further connection replaces the oldest one
// of the address with most, so that no client waits for others. netutil.LimitListener would let it wait.
func (s *Server) Limit(listener net.Listener) net.Listener {
	return &limitListener{Listener: listener, connections: s.connections, replaced: s.replaced}
}

type limitListener struct {
	net.Listener
	connections *fairSet[*limitedConn]
	replaced    *metrics.Counter
}

func (l *limitListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBufferBytes)
	}
	accepted := &limitedConn{Conn: conn, connections: l.connections, address: clientOf(conn.RemoteAddr().String())}
	if other, full, _ := l.connections.add(accepted.address, accepted, false); full {
		l.replaced.Inc()
		other.reset()
	}
	return accepted, nil
}

type limitedConn struct {
	net.Conn
	connections *fairSet[*limitedConn]
	address     netip.Addr
}

func (c *limitedConn) Close() error {
	c.connections.remove(c.address, c)
	return c.Conn.Close()
}

func (c *limitedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// clientOf returns a client's address without its port. For IPv6 it is the network of 64 bits: one machine can take all of its
// addresses. Clients without an address share the zero address.
func clientOf(client string) netip.Addr {
	addressAndPort, _ := netip.ParseAddrPort(client)
	address := addressAndPort.Addr().Unmap()
	if !address.Is6() {
		return address
	}
	network, err := address.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return network.Addr()
}
