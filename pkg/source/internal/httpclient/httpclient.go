// Package httpclient makes the HTTP clients of the load sources: bounded in time and in bytes, with TLS and bearer tokens
// that are read anew as they rotate, and with errors that tell an operator which setting to look at and no credential.
package httpclient

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"
)

// DefaultTimeout bounds a request where no timeout is configured.
const DefaultTimeout = 10 * time.Second

const (
	// excerptBytes is how much of an answer an error shows.
	excerptBytes = 256
	// maxRedirects is the limit of net/http.
	maxRedirects = 10
)

// Config says how a server is reached. The zero value verifies certificates with the system's roots and sends no token.
type Config struct {
	// BearerToken is sent with each request; BearerTokenFile names a file that holds one and is read for each request. At
	// most one is set.
	BearerToken     string
	BearerTokenFile string
	// CAFile names a PEM bundle that replaces the system's roots; ExtraCAFiles name bundles that are trusted beside them. At
	// most one of the two is set. They are read anew when they change.
	CAFile             string
	ExtraCAFiles       []string
	InsecureSkipVerify bool
	// Timeout bounds a request, the reading of the answer included; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Client is an HTTP client whose errors are to be passed through Explain.
type Client struct{ *http.Client }

// New returns a client whose answers end in a *TooLargeError beyond maxBytes, unpacked if they came packed. It honors the
// proxy environment variables. It follows redirects, but carries no token to another host or from https to http.
//
// It fails if both tokens or both kinds of CA files are set, if Timeout is negative, or if a CA file cannot be read or holds
// no certificate.
func New(cfg Config, maxBytes int64) (*Client, error) {
	switch {
	case cfg.BearerToken != "" && cfg.BearerTokenFile != "":
		return nil, errors.New("token and tokenFile are both set: at most one is possible")
	case cfg.CAFile != "" && len(cfg.ExtraCAFiles) > 0:
		return nil, errors.New("caFile and further CA files are both set: at most one is possible")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("timeout: %v is negative", cfg.Timeout)
	case cfg.Timeout == 0:
		cfg.Timeout = DefaultTimeout
	}
	httpConfig := config.DefaultHTTPClientConfig
	httpConfig.TLSConfig = config.TLSConfig{CAFile: cfg.CAFile, InsecureSkipVerify: cfg.InsecureSkipVerify}
	httpConfig.ProxyFromEnvironment = true
	authorized := cfg.BearerToken != "" || cfg.BearerTokenFile != ""
	if authorized {
		httpConfig.Authorization = &config.Authorization{
			Type:            "Bearer",
			Credentials:     config.Secret(strings.TrimSpace(cfg.BearerToken)),
			CredentialsFile: cfg.BearerTokenFile,
		}
	}
	newTransport := func(options ...config.HTTPClientOption) (http.RoundTripper, error) {
		return config.NewRoundTripperFromConfig(httpConfig, "plimsoll", append(options, config.WithUserAgent("plimsoll"))...)
	}
	var next http.RoundTripper
	var err error
	if len(cfg.ExtraCAFiles) > 0 && !cfg.InsecureSkipVerify {
		next, err = trusting(cfg.ExtraCAFiles, newTransport)
	} else if next, err = newTransport(); err != nil {
		err = fmt.Errorf("caFile: %w", err) // nothing else is read at this point
	}
	if err != nil {
		return nil, err
	}
	return &Client{&http.Client{
		Transport:     &transport{next: next, maxBytes: maxBytes},
		CheckRedirect: checkRedirect(authorized),
		Timeout:       cfg.Timeout,
	}}, nil
}

// checkRedirect follows redirects as net/http does, with one limit. The token is added to every request below net/http, so a
// redirect would hand it to whoever answers there.
func checkRedirect(authorized bool) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		from := via[0].URL
		leaves := req.URL.Hostname() != from.Hostname() || from.Scheme == "https" && req.URL.Scheme != "https"
		if authorized && leaves {
			return fmt.Errorf("redirected to %s://%s, where the token is not sent: set the address to where the service is", req.URL.Scheme, req.URL.Host)
		}
		return nil
	}
}

// ParseAddress returns the http(s) URL of a server without the trailing slash; a path prefix stays. It fails if the
// address has another scheme, no host, a user, a query or a fragment. The errors do not show the address, which may hold a
// password.
func ParseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil, errors.New("address is empty: want one such as https://host:port/prefix")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("address is not an http or https URL such as https://host:port/prefix")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("address has a user, a query or a fragment: want one such as https://host:port/prefix, and credentials as token or tokenFile")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// WithoutSecrets returns the URL as text, without what may hold a credential: user name and password, query and fragment.
func WithoutSecrets(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Explain returns err with a hint at the setting to look at, and with the request's URL free of credentials. It is for the
// errors of the client as they are: text that was wrapped around a *url.Error is lost. Errors stay recognizable by
// errors.Is and errors.As, except for the *url.Error itself.
func (c *Client) Explain(err error) error {
	if err == nil {
		return nil
	}
	var request *url.Error
	if errors.As(err, &request) {
		shown := "the server"
		if u, parseErr := url.Parse(request.URL); parseErr == nil {
			shown = WithoutSecrets(u)
		}
		err = fmt.Errorf("%s %s: %w", strings.ToUpper(request.Op), shown, request.Err)
	}
	var timeout net.Error
	switch {
	case isCertificateError(err):
		return fmt.Errorf("%w (set caFile to the PEM bundle of the authority that signed the certificate, or insecureSkipVerify to true to accept any certificate)", err)
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w (no complete answer within the timeout of %v)", err, c.Timeout)
	}
	return err
}

func isCertificateError(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		roots        x509.SystemRootsError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &roots)
}

// StatusError is an answer whose HTTP status is not the wanted one.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Excerpt is the beginning of the body, on one line and without the request's credentials; empty if the body was.
	Excerpt string
}

// NewStatusError returns the error for an answer and the body, or the beginning of the body, that was read from it.
func NewStatusError(resp *http.Response, body []byte) *StatusError {
	return &StatusError{Code: resp.StatusCode, Excerpt: Excerpt(resp, body)}
}

// Excerpt returns the beginning of an answer's body for use in an error: on one line, and without the credentials of the
// request, which the debug pages of proxies repeat.
func Excerpt(resp *http.Response, body []byte) string {
	text := WithoutCredentials(resp, string(body))
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > excerptBytes {
		text = strings.ToValidUTF8(text[:excerptBytes], "") + "…"
	}
	return text
}

// WithoutCredentials blanks the credentials of the request in a text that its answer holds.
func WithoutCredentials(resp *http.Response, text string) string {
	if resp.Request == nil {
		return text
	}
	_, secret, ok := strings.Cut(resp.Request.Header.Get("Authorization"), " ")
	if !ok || secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "…")
}

// Error names the status, what the server said, and the setting to look at.
func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "status %d", e.Code)
	if text := http.StatusText(e.Code); text != "" {
		fmt.Fprintf(&b, " %s", text)
	}
	if e.Excerpt != "" {
		fmt.Fprintf(&b, ", saying %q", e.Excerpt)
	}
	switch e.Code {
	case http.StatusUnauthorized:
		b.WriteString(" (token or tokenFile is missing, wrong or expired)")
	case http.StatusForbidden:
		b.WriteString(" (the account of token or tokenFile may not read this, or neither is set)")
	}
	return b.String()
}

// TooLargeError is an answer of more bytes than any sane server sends.
type TooLargeError struct{ MaxBytes int64 }

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than %d bytes", e.MaxBytes)
}

// transport bounds answers, and unpacks gzip, which the library's transport leaves out.
type transport struct {
	next     http.RoundTripper
	maxBytes int64
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	var content io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		content = &gzipReader{packed: resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	resp.Body = &boundedBody{content: content, Closer: resp.Body, left: t.maxBytes, maxBytes: t.maxBytes}
	return resp, nil
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// boundedBody fails, instead of ending, where an answer goes on beyond the limit: a cut answer could pass for a whole one.
type boundedBody struct {
	content io.Reader
	io.Closer
	left, maxBytes int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{MaxBytes: b.maxBytes}
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more than allowed tells a full answer from one that goes on
	}
	n, err := b.content.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &TooLargeError{MaxBytes: b.maxBytes}
	}
	return n, err
}

// gzipReader reads the header with the first bytes that are wanted, so that an answer without a body is not an error.
type gzipReader struct {
	packed io.Reader
	plain  *gzip.Reader
}

// Read implements io.Reader.
func (r *gzipReader) Read(p []byte) (int, error) {
	if r.plain == nil {
		plain, err := gzip.NewReader(r.packed)
		if err != nil {
			return 0, err
		}
		r.plain = plain
	}
	return r.plain.Read(p)
}
