package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	loopback = "127.0.0.1"
	// Ports below the range that operating systems use for outgoing connections. So a restarted part finds its port free.
	firstPort = 20000
	portRange = 6000
)

// claims holds one listener for each port that FreePort gave out, until the process ends. Tests of several processes run
// side by side, and a part listens on its port only seconds after the port was chosen.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// FreePort returns a port that no process listens on, and that no other process was given: who holds port p listens on p+6000.
func FreePort() (int, error) {
	claims.Lock()
	defer claims.Unlock()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(portRange)
		claim, err := net.Listen("tcp", address(port+portRange))
		if err != nil {
			last = err
			continue
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			last = errors.Join(err, claim.Close())
			continue
		}
		claims.held = append(claims.held, claim)
		return port, l.Close()
	}
	return 0, fmt.Errorf("looking for a free port: %w", last)
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
