// Package httpclient makes the HTTP clients of the load sources.
//   - They are bounded in time and bytes.
//   - They follow the rotation of certificates and bearer tokens.
//   - Their errors name the setting to check and show no credential.
package httpclient

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	errorBodyBytes = 4 << 10
	maxHeaderBytes = 64 << 10
	// readBufferBytes is the size of one read of a connection, except bodies.
	readBufferBytes = 512
	// gzipOverheadBytes is more than gzip adds to an incompressible body.
	gzipOverheadBytes = 64 << 10
	maxRedirects      = 10 // as net/http
	// maxIdlePerHost lets the concurrent queries of a refresh use the connections of the last one.
	maxIdlePerHost    = 16
	clientCertificate = "the server may want a client certificate: set tls_config in httpConfigFile"
)

// Config says how to reach a server. It must be valid: nothing is checked or defaulted here.
type Config struct {
	// BearerToken is sent with each request; BearerTokenFile names a file with one, which is read for each request.
	// At most one is set.
	BearerToken     string
	BearerTokenFile string
	// TokenHeader, unless empty, is the header for the token, in place of "Authorization: Bearer".
	TokenHeader string
	// Key is a second credential, sent in KeyHeader; KeyFile names a file with one, which is read for each request.
	// At most one is set.
	Key       string
	KeyFile   string
	KeyHeader string
	// CAFile names a PEM bundle that replaces the system's roots; ExtraCAFiles name bundles beside them.
	// At most one of the two is set. They are read again when they change.
	CAFile             string
	ExtraCAFiles       []string
	InsecureSkipVerify bool
	// HTTPConfigFile, unless empty, names a file of Prometheus' HTTP client configuration, in place of all settings above.
	HTTPConfigFile string
	// ServerName, unless empty, is the required name in the server's certificate, in place of the address' host.
	ServerName string
	// Transport, unless nil, sends the requests. The settings of certificates above then have no effect.
	Transport http.RoundTripper
	// Timeout bounds a request, with the reading of files and response. > 0.
	Timeout time.Duration
}

// Client is an HTTP client. Pass every text that a server wrote through Excerpt, and every error through Explain.
type Client struct {
	client      *http.Client
	base        *url.URL
	credentials []*credential
	secrets     secrets
	// noRedirects passes redirects to the caller. signsIn keeps them within the server.
	noRedirects, signsIn, hasConfigFile bool
}

// New returns a client of the server at an http(s) URL, which paths are appended to. It honors the proxy environment variables. It
// follows redirects, but with a token only within the original scheme, host and port. It fails if a CA file is unreadable or has no
// certificate.
func New(address string, cfg Config) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse the address: %w", err)
	}
	c := &Client{base: base, credentials: newCredentials(cfg), hasConfigFile: cfg.HTTPConfigFile != ""}
	c.signsIn = len(c.credentials) > 0 || c.hasConfigFile
	c.client = &http.Client{Transport: cfg.Transport, CheckRedirect: c.checkRedirect, Timeout: cfg.Timeout}
	switch {
	case cfg.Transport != nil:
	case c.hasConfigFile:
		if err := c.useConfigFile(cfg); err != nil {
			return nil, fmt.Errorf("httpConfigFile %s: %w", cfg.HTTPConfigFile, err)
		}
	default:
		if c.client.Transport, err = newTransport(cfg, !c.signsIn); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// URL returns the URL of a path below the address.
func (c *Client) URL(path ...string) *url.URL { return c.base.JoinPath(path...) }

// Endpoint returns the URL of a path below the address for errors, or the address without a path.
func (c *Client) Endpoint(path ...string) string { return WithoutSecrets(c.URL(path...)) }

// Exchange is Do with read, which gets the response. Its errors get the method and the URL, and are a *RedirectedError where a
// redirect was followed.
func (c *Client) Exchange(req *http.Request, maxBytes int64, read func(*http.Response) error) error {
	resp, err := c.Do(req, maxBytes)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	if err := read(resp); err != nil {
		request := req.Method + " " + WithoutSecrets(req.URL)
		if to := resp.Request.URL; WithoutSecrets(to) != WithoutSecrets(req.URL) {
			request, err = request+", redirected to "+c.Excerpt(WithoutSecrets(to)), &RedirectedError{To: to, Err: err}
		}
		return fmt.Errorf("%s: %w", request, err)
	}
	return nil
}

// RedirectedError is the error of a request that the server sent elsewhere. Its text is that of Err.
type RedirectedError struct {
	To  *url.URL
	Err error
}

func (e *RedirectedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RedirectedError) Unwrap() error { return e.Err }

// Do sends the request with the token and the key. The response's body is unpacked, and ends in a *source.TooLargeError beyond
// maxBytes. The error is explained.
func (c *Client) Do(req *http.Request, maxBytes int64) (*http.Response, error) {
	if err := c.authorize(req); err != nil {
		return nil, c.Explain(&url.Error{Op: req.Method, URL: req.URL.String(), Err: err})
	}
	trace := httptrace.ClientTrace{WroteHeaderField: c.secrets.wroteHeader}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &trace))
	req.Header.Set("User-Agent", "plimsoll")
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // after a redirect, it has the server's Location
			if u, parseErr := req.URL.Parse(failed.URL); parseErr == nil {
				if failed.URL = u.String(); WithoutSecrets(u) != WithoutSecrets(req.URL) {
					failed.Err = &RedirectedError{To: u, Err: failed.Err}
				}
			}
		}
		return nil, c.Explain(err)
	}
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		// Packed bytes are bounded too: they may unpack to nothing, endlessly.
		body = &gzipReader{packed: source.BoundBody(resp.Body, maxBytes+gzipOverheadBytes)}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{source.BoundBody(body, maxBytes), resp.Body}
	return resp, nil
}

func (c *Client) authorize(req *http.Request) error {
	for _, t := range c.credentials {
		value, err := t.Read()
		if err != nil {
			return err
		}
		if c.secrets.add(value); t.header != "" {
			req.Header.Set(t.header, t.prefix+value)
		}
	}
	return nil
}

// CloseIdleConnections closes the connections that are not in use.
func (c *Client) CloseIdleConnections() { c.client.CloseIdleConnections() }

// checkRedirect follows redirects as net/http does, except with credentials to another origin.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	if c.noRedirects {
		return http.ErrUseLastResponse
	}
	if c.signsIn && !SameOrigin(req.URL, via[0].URL) {
		return &RedirectedError{req.URL, fmt.Errorf(
			"redirected to %s://%s, where the credentials are not sent: set the address to where the service is",
			c.Excerpt(req.URL.Scheme), c.Excerpt(req.URL.Host))}
	}
	return checkRedirectCount(via)
}

func checkRedirectCount(via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool { return origin(a) == origin(b) }

func origin(u *url.URL) string {
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), text.PortOf(u))
}

// WithoutSecrets returns the URL without user, password, query and fragment.
func WithoutSecrets(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Excerpt is text.Excerpt without the token and the key, which the debug pages of proxies repeat.
func (c *Client) Excerpt(message string) string {
	return text.Excerpt(c.secrets.hide(message[:min(len(message), errorBodyBytes)]))
}

// Explain returns err as an Excerpt. It adds a hint at the setting to check, and removes credentials from the request's URL.
// Pass the errors of a body unchanged: text around a *url.Error is lost.
// errors.Is and errors.As still find wrapped errors, but not the *url.Error.
func (c *Client) Explain(err error) error {
	if err == nil {
		return nil
	}
	prefix := ""
	if request, ok := errors.AsType[*url.Error](err); ok {
		target := "the server"
		if u, parseErr := url.Parse(request.URL); parseErr == nil {
			target = c.Excerpt(WithoutSecrets(u)) // a redirect may have chosen it
		}
		prefix, err = fmt.Sprintf("%s %s: ", strings.ToUpper(request.Op), target), request.Err
	}
	hint := ""
	var timeout net.Error
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		hint = " (set caFile, or ca_file in httpConfigFile, to the PEM bundle of the authority that signed the certificate, " +
			"or insecureSkipVerify to true to accept any certificate)"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		hint = fmt.Sprintf(" (no complete response within the timeout of %v)", c.client.Timeout)
	case prefix != "" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "tls: certificate required")):
		hint = " (" + clientCertificate + "; or it does not serve HTTP at this port)"
	}
	return text.WithText(err, prefix+c.Excerpt(err.Error())+hint)
}

// StatusError is a response with an unexpected HTTP status.
type StatusError struct {
	Code    int
	Body    []byte // the beginning, unchanged
	Excerpt string
	Header  http.Header
	// Hint, unless empty, replaces the general hint at a setting.
	Hint string
}

// NewStatusError returns the error for a response. It reads the beginning of the body, and ignores failures.
func (c *Client) NewStatusError(resp *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBodyBytes))
	e := &StatusError{Code: resp.StatusCode, Body: body, Excerpt: c.Excerpt(string(body)), Header: resp.Header}
	refused := e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden
	switch {
	case refused && bytes.Contains(body, []byte("no org id")): // of Mimir and Cortex
		e.Hint = "it serves tenants: name yours in httpConfigFile, as http_headers: {X-Scope-OrgID: {values: [TENANT]}}"
	case refused && c.hasConfigFile:
		e.Hint = "the credentials in httpConfigFile are missing, wrong or expired, or have no permission"
	case e.Code == http.StatusBadRequest && bytes.Contains(body, []byte("SSL certificate")): // of nginx
		e.Hint = clientCertificate
	}
	return e
}

// Error names the status, the server's text, and the setting to check.
func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "status %d", e.Code)
	if text := http.StatusText(e.Code); text != "" {
		fmt.Fprintf(&b, " %s", text)
	}
	if e.Excerpt != "" {
		fmt.Fprintf(&b, ", saying %q", e.Excerpt)
	}
	switch {
	case e.Hint != "":
		fmt.Fprintf(&b, " (%s)", e.Hint)
	case e.Code == http.StatusUnauthorized:
		b.WriteString(" (token or tokenFile is missing, wrong or expired)")
	case e.Code == http.StatusForbidden:
		b.WriteString(" (the account of token or tokenFile has no permission, or neither is set)")
	}
	return b.String()
}

// gzipReader reads the header only with the first bytes, so that a response without a body is not an error.
type gzipReader struct {
	packed io.Reader
	plain  *gzip.Reader
}

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
