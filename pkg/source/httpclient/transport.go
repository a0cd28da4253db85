package httpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/httpconfig"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// useConfigFile sets what follows from the HTTPConfigFile. The library reads the files that it names again when they change.
func (c *Client) useConfigFile(cfg Config) error {
	read, secrets, err := httpconfig.Read(cfg.HTTPConfigFile)
	if err != nil {
		return err
	}
	library := &read.HTTP
	for _, secret := range secrets {
		c.credentials = append(c.credentials, &credential{Secret: secret})
	}
	c.noRedirects = !library.FollowRedirects
	library.TLSConfig.ServerName = cmp.Or(cfg.ServerName, library.TLSConfig.ServerName)
	library.ProxyFromEnvironment = library.ProxyURL.URL == nil
	// The library fetches tokens without the context of a request. Each connection serves one request.
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: cfg.Timeout}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, conn.SetDeadline(time.Now().Add(cfg.Timeout))
	}
	c.client.Transport, err = config.NewRoundTripperFromConfig(
		*library, "plimsoll", config.WithKeepAlivesDisabled(), config.WithDialContextFunc(dial))
	if read.SigV4 != nil && err == nil {
		c.client.Transport = &signer{config: read.SigV4, next: c.client.Transport}
	}
	return err
}

// signer signs requests by AWS' SigV4. It looks for credentials with the first request, as the library does so over the network,
// and again once the server has refused them.
type signer struct {
	config *sigv4.SigV4Config
	next   http.RoundTripper

	mu      sync.Mutex
	signing http.RoundTripper
}

func (s *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	signing, err := s.find(req.Context())
	if err != nil {
		return nil, fmt.Errorf("sigv4 in httpConfigFile: %w", err)
	}
	resp, err := signing.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.signing = nil // the library reads the keys of a shared file once
	}
	return resp, err
}

func (s *signer) find(ctx context.Context) (_ http.RoundTripper, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signing == nil {
		s.signing, err = sigv4.NewSigV4RoundTripper(s.config, s.next, sigv4.WithContext(ctx))
	}
	return s.signing, err
}

// newTransport returns a transport that verifies certificates as configured. The transport reloads CA files that have changed.
func newTransport(cfg Config, keepAlive bool) (http.RoundTripper, error) {
	files := authorities(cfg.ExtraCAFiles)
	if cfg.CAFile != "" {
		files = authorities{cfg.CAFile}
	}
	if cfg.InsecureSkipVerify {
		files = nil
	}
	// The library reloads the files when they change, but would trust only them. So the pool is built here.
	transport, err := config.NewTLSRoundTripper(&tls.Config{}, config.TLSRoundTripperSettings{CA: files}, func(*tls.Config) (
		http.RoundTripper, error,
	) {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxResponseHeaderBytes = maxHeaderBytes
		t.MaxIdleConnsPerHost = maxIdlePerHost
		// net/http logs what a server sends on an idle connection, and that may repeat a credential. So log at most readBufferBytes,
		// and keep no idle connections if requests carry one.
		t.ReadBufferSize = readBufferBytes
		t.DisableKeepAlives = !keepAlive
		t.TLSClientConfig = &tls.Config{
			InsecureSkipVerify: cfg.InsecureSkipVerify, ServerName: cfg.ServerName,
			ClientSessionCache: tls.NewLRUClientSessionCache(0), // makes new connections cheap
		}
		if len(files) == 0 {
			return t, nil
		}
		content, err := files.Fetch(context.Background())
		roots := x509.NewCertPool()
		if err == nil && cfg.CAFile == "" {
			roots, err = x509.SystemCertPool()
		}
		if err != nil {
			return nil, fmt.Errorf("CA certificates: %w", err)
		}
		roots.AppendCertsFromPEM([]byte(content))
		t.TLSClientConfig.RootCAs = roots
		return t, nil
	})
	if err != nil && cfg.CAFile != "" {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	return transport, err
}

// authorities are the names of CA files, as a config.SecretReader.
type authorities []string

// Fetch returns all files, for the library to notice changes.
func (a authorities) Fetch(context.Context) (string, error) {
	var all strings.Builder
	for _, file := range a {
		content, err := boundedfile.ReadCA(file)
		if err != nil {
			return "", err
		}
		if block, _ := pem.Decode(content); block == nil {
			return "", fmt.Errorf("%s has no PEM certificate", file)
		}
		all.Write(content)
		all.WriteByte('\n')
	}
	return all.String(), nil
}

func (a authorities) Description() string { return strings.Join(a, ", ") }

func (a authorities) Immutable() bool { return false }

const (
	// keptSecrets is the number of sent secrets that are hidden. Past ones of a rotating file may still be valid.
	keptSecrets = 16
	// hiddenPrefix is the length of a secret's prefix that is hidden on its own: a server may repeat a part.
	hiddenPrefix = 8
	// minSecret is the minimum length of hidden secrets: shorter ones are no secret and part of many words.
	minSecret = 4
)

type credential struct {
	header, prefix string
	httpconfig.Secret
}

func newCredentials(cfg Config) []*credential {
	secret := func(value, file string) httpconfig.Secret {
		return httpconfig.Secret{Value: strings.TrimSpace(value), File: file}
	}
	token := &credential{"Authorization", "Bearer ", secret(cfg.BearerToken, cfg.BearerTokenFile)}
	if cfg.TokenHeader != "" {
		token.header, token.prefix = cfg.TokenHeader, ""
	}
	key := &credential{cfg.KeyHeader, "", secret(cfg.Key, cfg.KeyFile)}
	return slices.DeleteFunc([]*credential{token, key}, func(c *credential) bool { return c.header == "" || c.Value+c.File == "" })
}

// secrets are what was sent, newest first: each in all forms in which a server may repeat it. It is safe for concurrent use.
type secrets struct {
	mu   sync.Mutex
	sent [][]string
}

func (s *secrets) add(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(value) < minSecret || slices.ContainsFunc(s.sent, func(forms []string) bool { return forms[0] == value }) {
		return
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, plain := range []string{value, "Bearer " + value} {
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(plain)), base64.URLEncoding.EncodeToString([]byte(plain)))
	}
	s.sent = append([][]string{forms}, s.sent[:min(len(s.sent), keptSecrets-1)]...)
}

// wroteHeader adds the credentials of a header that was sent, such as a token that the library fetched.
func (s *secrets) wroteHeader(name string, values []string) {
	switch strings.ToLower(name) {
	case "authorization":
		if scheme, value, _ := strings.Cut(strings.Join(values, ""), " "); scheme != "AWS4-HMAC-SHA256" { // of one request
			s.add(value)
		}
	case "x-amz-security-token":
		s.add(strings.Join(values, ""))
	}
}

var signature = regexp.MustCompile("Signature=[0-9a-f]+")

func (s *secrets) hide(text string) string {
	text = signature.ReplaceAllString(text, "Signature=…")
	s.mu.Lock()
	sent := s.sent
	s.mu.Unlock()
	for _, forms := range sent {
		for _, form := range forms {
			text = hideOne(text, form)
		}
	}
	return text
}

// hideOne blanks the secret and its prefixes in the text, which may have been cut.
func hideOne(text, secret string) string {
	prefix := secret[:min(len(secret), hiddenPrefix)]
	for start := strings.Index(text, prefix); start >= 0; start = strings.Index(text, prefix) {
		end, n := start+len(prefix), len(prefix)
		for n < len(secret) && end < len(text) && text[end] == secret[n] {
			end, n = end+1, n+1
		}
		text = text[:start] + "…" + text[end:]
	}
	return text
}

// ForAPIServer returns a client for requests of client-go. It sends the credentials to the first server alone, and cuts the bodies
// of errors, which client-go reads whole.
func ForAPIServer(cfg *rest.Config) (*http.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedErrors{next} })
	shared, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	client := *shared
	client.CheckRedirect = checkOrigin
	return &client, nil
}

// checkOrigin follows redirects within one origin: client-go adds its credentials to each request.
func checkOrigin(req *http.Request, via []*http.Request) error {
	if !SameOrigin(req.URL, via[0].URL) {
		return fmt.Errorf("redirected to %s://%s, where the credentials of the API server are not sent",
			text.Excerpt(req.URL.Scheme), text.Excerpt(req.URL.Host))
	}
	return checkRedirectCount(via)
}

type boundedErrors struct{ http.RoundTripper }

func (t boundedErrors) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil && resp.StatusCode/100 != 2 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, errorBodyBytes), resp.Body}
	}
	return resp, err
}
