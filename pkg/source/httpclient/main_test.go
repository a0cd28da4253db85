package httpclient

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

// systemPair is the key pair of a server that the system's roots of these tests trust.
var systemPair tls.Certificate

// TestMain replaces the system's roots, which a process reads only once.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "roots")
	if err != nil {
		panic(err)
	}
	certificate, pair := newKeyPair()
	systemPair = pair
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, certificate, 0o600); err != nil {
		panic(err)
	}
	for variable, value := range map[string]string{"SSL_CERT_FILE": roots, "SSL_CERT_DIR": dir} {
		if err := os.Setenv(variable, value); err != nil {
			panic(err)
		}
	}
	code := leak.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
