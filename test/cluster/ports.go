package cluster

import (
	"errors"
	"fmt"
	"io"
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

func freePorts(n int) ([]int, error) {
	var listeners []io.Closer
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	var ports []int
	var errs []error
	for tries := 0; len(ports) < n && tries < 100*n; tries++ {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		listeners = append(listeners, l)
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("looking for free ports: %w", errors.Join(errs...))
	}
	return ports, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
