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

// newTransport returns a transport that verifies certificates as configured. It is replaced when a CA file changes.
func newTransport(cfg Config) (http.RoundTripper, error) {
	files := cfg.ExtraCAFiles
	if cfg.CAFile != "" {
		files = []string{cfg.CAFile}
	}
	authorized := cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.Key != "" || cfg.KeyFile != ""
	if len(files) == 0 || cfg.InsecureSkipVerify {
		return transportWith(&tls.Config{InsecureSkipVerify: cfg.InsecureSkipVerify, ServerName: cfg.ServerName}, authorized), nil
	}
	ca := &authorities{
		names:      files,
		beside:     cfg.CAFile == "",
		authorized: authorized,
		serverName: cfg.ServerName,
		timeout:    cfg.Timeout,
	}
	for _, name := range files {
		ca.files = append(ca.files, boundedfile.New(name, boundedfile.MaxCABytes))
	}
	// The library follows the files, but trusts only their certificates: replace its pool.
	transport, err := config.NewTLSRoundTripper(&tls.Config{}, config.TLSRoundTripperSettings{CA: ca}, ca.newTransport)
	if err != nil && cfg.CAFile != "" {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	return transport, err
}

func transportWith(tlsConfig *tls.Config, authorized bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tlsConfig
	t.MaxResponseHeaderBytes = maxHeaderBytes
	t.MaxIdleConnsPerHost = maxIdlePerHost
	// net/http logs what a server sends on an idle connection, up to this size. That may repeat the token.
	t.ReadBufferSize = readBufferBytes
	t.DisableKeepAlives = authorized
	tlsConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0) // makes new connections cheap
	return t
}

type authorities struct {
	names []string
	files []*boundedfile.File
	// beside adds them to the system's roots instead of replacing these.
	beside bool
	// authorized reports whether requests carry a token.
	authorized bool
	serverName string
	timeout    time.Duration
}

var _ config.SecretReader = &authorities{}

func (a *authorities) newTransport(*tls.Config) (http.RoundTripper, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.timeout)
	defer cancel()
	roots := x509.NewCertPool()
	if a.beside {
		var err error
		if roots, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("the system's roots: %w", err)
		}
	}
	for i, file := range a.files {
		content, err := file.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("certificates of authorities: %w", err)
		}
		if !roots.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("certificates of authorities: %s holds no PEM certificate", a.names[i])
		}
	}
	return transportWith(&tls.Config{RootCAs: roots, ServerName: a.serverName}, a.authorized), nil
}

// Fetch implements config.SecretReader: the content of all files.
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
