package loadwatcher

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

// certificate is the certificate in two files, which may be rotated. It is safe for concurrent use.
type certificate struct {
	certFile, keyFile string
	failures          rate.Sometimes
	last              atomic.Pointer[tls.Certificate]
}

// newCertificate fails if the files have no certificate with its key.
func newCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, failures: rate.Sometimes{Interval: time.Minute}}
	return c, c.read()
}

// tlsConfig returns the settings of a server that follows the files.
func (c *certificate) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.latest}
}

// latest returns the certificate in the files. While they have none, such as during a rotation, it returns the last one.
func (c *certificate) latest(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if err := c.read(); err != nil {
		c.failures.Do(func() { klog.FromContext(hello.Context()).Error(err, "The last TLS certificate is kept") })
	}
	return c.last.Load(), nil
}

func (c *certificate) read() error {
	cert, err := boundedfile.ReadCA(c.certFile)
	if err != nil {
		return fmt.Errorf("--tls-cert-file: %w", err)
	}
	key, err := boundedfile.ReadCA(c.keyFile)
	if err != nil {
		return fmt.Errorf("--tls-private-key-file: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
	}
	c.last.Store(&pair)
	return nil
}
