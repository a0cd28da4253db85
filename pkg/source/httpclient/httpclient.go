// Package httpclient makes the HTTP clients of the load sources. They are bounded in time and in bytes, read certificates and
// bearer tokens again as these rotate, and return errors that name the setting to look at and show no credential.
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

const (
	// excerptBytes is how much of a response an error shows.
	excerptBytes = 256
	// maxRedirects is the limit of net/http.
	maxRedirects = 10
)

// Config says how a server is reached. It must be valid: nothing is checked or defaulted here.
type Config struct {
	// BearerToken is sent with each request; BearerTokenFile names a file that holds one and is read for each request. At
	// most one is set.
	BearerToken     string
	BearerTokenFile string
	// CAFile names a PEM bundle that replaces the system's roots; ExtraCAFiles name bundles that are trusted beside them. At
	// most one of the two is set. They are read again when they change.
	CAFile       string
	ExtraCAFiles []string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	// Timeout bounds a request, including the reading of the response. > 0.
	Timeout time.Duration
}

// Client is an HTTP client. Pass its errors through Explain.
type Client struct{ *http.Client }

// New returns a client whose responses end in a *TooLargeError beyond maxBytes, counted unpacked. It honors the proxy
// environment variables. It follows redirects, but carries no token to another host or from https to http.
//
// It fails if a CA file cannot be read or holds no certificate.
func New(cfg Config, maxBytes int64) (*Client, error) {
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
		err = fmt.Errorf("caFile: %w", err) // no other file is read at this point
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

// checkRedirect follows redirects as net/http does, with one limit: the token is added to every request below net/http, so a
// redirect to another host would hand it to that host.
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

// WithoutSecrets returns the URL as text, without the parts that may hold a credential: user, password, query and fragment.
func WithoutSecrets(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Explain returns err with a hint at the setting to look at, and without credentials in the request's URL. Pass the errors of the
// client unchanged: text that was wrapped around a *url.Error is lost. errors.Is and errors.As still find what err wraps, except
// for the *url.Error itself.
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
		return fmt.Errorf("%w (no complete response within the timeout of %v)", err, c.Timeout)
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

// StatusError is a response whose HTTP status is not the wanted one.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Excerpt is the beginning of the body, on one line and without the request's credentials; empty if the body was.
	Excerpt string
}

// NewStatusError returns the error for a response and what was read of its body.
func NewStatusError(resp *http.Response, body []byte) *StatusError {
	return &StatusError{Code: resp.StatusCode, Excerpt: Excerpt(resp, body)}
}

// Excerpt returns the beginning of a response's body for an error: on one line, and without the credentials of the request, which
// the debug pages of proxies repeat.
func Excerpt(resp *http.Response, body []byte) string {
	text := WithoutCredentials(resp, string(body))
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > excerptBytes {
		text = strings.ToValidUTF8(text[:excerptBytes], "") + "…"
	}
	return text
}

// WithoutCredentials returns a text from the response with the credentials of the request blanked.
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

// TooLargeError is a response that is larger than a client accepts.
type TooLargeError struct{ MaxBytes int64 }

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response is larger than %d bytes", e.MaxBytes)
}

// transport bounds responses, and unpacks gzip, which the library's transport does not.
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

// boundedBody fails, instead of ending, where a response exceeds the limit: a cut response could be taken for a complete one.
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
		p = p[:b.left+1] // one byte more than allowed tells a full response from a larger one
	}
	n, err := b.content.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &TooLargeError{MaxBytes: b.maxBytes}
	}
	return n, err
}

// gzipReader reads the header with the first bytes that are asked for, so that a response without a body is not an error.
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
