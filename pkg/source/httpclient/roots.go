package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/common/config"
)

// trusting returns a transport that verifies certificates with the system's roots and those in the files. It is replaced when a
// file changes.
func trusting(files []string, newTransport func(...config.HTTPClientOption) (http.RoundTripper, error)) (http.RoundTripper, error) {
	bundle := caFiles(files)
	// The library follows the files, but trusts only their certificates: replace its pool.
	withRoots := func(*tls.Config) (http.RoundTripper, error) {
		roots, err := bundle.withSystemRoots()
		if err != nil {
			return nil, err
		}
		return newTransport(config.WithNewTLSConfigFunc(
			func(context.Context, *config.TLSConfig, ...config.TLSConfigOption) (*tls.Config, error) {
				return &tls.Config{RootCAs: roots}, nil
			}))
	}
	return config.NewTLSRoundTripper(&tls.Config{}, config.TLSRoundTripperSettings{CA: bundle}, withRoots)
}

// caFiles are the names of PEM bundles.
type caFiles []string

var _ config.SecretReader = caFiles{}

func (f caFiles) withSystemRoots() (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's roots: %w", err)
	}
	for _, name := range f {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("certificates of authorities: %w", err)
		}
		if !roots.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("certificates of authorities: %s holds no PEM certificate", name)
		}
	}
	return roots, nil
}

// Fetch implements config.SecretReader: the content of all files.
func (f caFiles) Fetch(context.Context) (string, error) {
	var all strings.Builder
	for _, name := range f {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		all.Write(content)
		all.WriteByte('\n')
	}
	return all.String(), nil
}

// Description implements config.SecretReader.
func (f caFiles) Description() string { return strings.Join(f, ", ") }

// Immutable implements config.SecretReader.
func (f caFiles) Immutable() bool { return false }
