package server

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/component-base/metrics"
)

// sendBufferBytes bounds what the kernel keeps of a response for a client that does not read it; Linux doubles it. By default the
// kernel keeps up to 4 MiB, for minutes after the connection is closed.
const sendBufferBytes = 64 << 10

// limited passes on at most Config.MaxRequests requests at a time, and those of probes. It sheds one more, unless another address
// has more requests in flight: then the oldest of these is aborted, so that clients that read slowly do not keep others out.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathHealthz {
			next.ServeHTTP(w, r)
			return
		}
		address, response := clientOf(r.RemoteAddr), http.NewResponseController(w)
		aborted, full, added := s.inFlight.tryAdd(address, response)
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

// Limit returns a listener with at most Config.MaxConnections connections at a time. When there are as many, the next one
// replaces another: the oldest from the address that has most of them. So no client waits until others close theirs.
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
	if other, full := l.connections.add(accepted.address, accepted); full {
		l.replaced.Inc()
		other.reset()
	}
	return accepted, nil
}

// limitedConn is one of the connections until it is closed.
type limitedConn struct {
	net.Conn
	connections *fairSet[*limitedConn]
	address     netip.Addr
}

func (c *limitedConn) Close() error {
	c.connections.remove(c.address, c)
	return c.Conn.Close()
}

// reset closes the connection and drops what the client has not read.
func (c *limitedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// clientOf returns the address that stands for the client at an address with a port: its own, or of IPv6 the network of 64 bits,
// all addresses of which one machine can take. Clients that have none share the zero address.
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
