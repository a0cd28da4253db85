package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	loopback = "127.0.0.1"
	// Ports below the range that operating systems use for outgoing connections. So a restarted part finds its port free.
	firstPort = 20000
	lastPort  = 31999
)

// FreePort returns a port that no process listens on.
func FreePort() (int, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", address(port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("looking for a free port: %w", last)
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
