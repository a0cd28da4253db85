package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

// newTransport returns a transport that verifies certificates as configured. The transport reloads CA files that have changed.
func newTransport(cfg Config) (http.RoundTripper, error) {
	files := cfg.ExtraCAFiles
	if cfg.CAFile != "" {
		files = []string{cfg.CAFile}
	}
	hasCredentials := cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.Key != "" || cfg.KeyFile != ""
	if len(files) == 0 || cfg.InsecureSkipVerify {
		return transportWith(&tls.Config{InsecureSkipVerify: cfg.InsecureSkipVerify, ServerName: cfg.ServerName}, hasCredentials), nil
	}
	ca := &authorities{
		names: files, addToSystemRoots: cfg.CAFile == "", hasCredentials: hasCredentials, serverName: cfg.ServerName,
		timeout: cfg.Timeout,
	}
	for _, name := range files {
		ca.files = append(ca.files, boundedfile.New(name, boundedfile.MaxCABytes))
	}
	// The library reloads the files when they change, but would trust only them. So load builds the pool itself.
	transport, err := config.NewTLSRoundTripper(&tls.Config{}, config.TLSRoundTripperSettings{CA: ca}, ca.load)
	if err != nil && cfg.CAFile != "" {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	return transport, err
}

func transportWith(tlsConfig *tls.Config, hasCredentials bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tlsConfig
	t.MaxResponseHeaderBytes = maxHeaderBytes
	t.MaxIdleConnsPerHost = maxIdlePerHost
	// net/http logs what a server sends on an idle connection, and that may repeat a credential. So log at most readBufferBytes, and
	// keep no idle connections if requests carry one.
	t.ReadBufferSize = readBufferBytes
	t.DisableKeepAlives = hasCredentials
	tlsConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0) // makes new connections cheap
	return t
}

type authorities struct {
	names []string
	files []*boundedfile.File
	// addToSystemRoots keeps the system's roots too. Otherwise only the files are trusted.
	addToSystemRoots bool
	// hasCredentials reports whether requests carry a token or key.
	hasCredentials bool
	serverName     string
	timeout        time.Duration
}

var _ config.SecretReader = &authorities{}

func (a *authorities) load(*tls.Config) (http.RoundTripper, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.timeout)
	defer cancel()
	roots := x509.NewCertPool()
	if a.addToSystemRoots {
		var err error
		if roots, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("load the system's root certificates: %w", err)
		}
	}
	for i, file := range a.files {
		content, err := file.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("CA certificates: %w", err)
		}
		if !roots.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("CA certificates: %s has no PEM certificate", a.names[i])
		}
	}
	return transportWith(&tls.Config{RootCAs: roots, ServerName: a.serverName}, a.hasCredentials), nil
}

// Fetch implements config.SecretReader. It returns all files, for the library to notice changes.
func (a *authorities) Fetch(ctx context.Context) (string, error) {
	var all strings.Builder
	for _, file := range a.files {
		content, err := file.Read(ctx)
		if err != nil {
			return "", err
		}
		all.Write(content)
		all.WriteByte('\n')
	}
	return all.String(), nil
}

// Description implements config.SecretReader.
func (a *authorities) Description() string { return strings.Join(a.names, ", ") }

// Immutable implements config.SecretReader.
func (a *authorities) Immutable() bool { return false }
