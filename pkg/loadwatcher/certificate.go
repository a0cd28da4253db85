package loadwatcher

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// followCertificate returns the settings of a server that reads the two files at each handshake. While they have no certificate, such
// as during a rotation, the server keeps the last one.
func followCertificate(ctx context.Context, certFile, keyFile string) (*tls.Config, error) {
	var last atomic.Pointer[tls.Certificate]
	read := func() error {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err == nil {
			last.Store(&pair)
		}
		return err
	}
	failures := rate.Sometimes{Interval: time.Minute}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if err := read(); err != nil {
			failures.Do(func() { klog.FromContext(ctx).Error(err, "The last TLS certificate is kept") })
		}
		return last.Load(), nil
	}}, read()
}
