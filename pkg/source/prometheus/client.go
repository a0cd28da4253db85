package prometheus

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promconfig "github.com/prometheus/common/config"
)

const (
	// maxAnswerBytes bounds what one answer may take of the scheduler's memory, unpacked. Series of 15,000 nodes take 3 MiB.
	maxAnswerBytes = 64 << 20
	// longestGet is the longest encoded query that is sent in a URL; servers and proxies refuse URLs beyond 8 KiB.
	longestGet = 6 << 10
	// maxRedirects is the limit of net/http.
	maxRedirects = 10
)

// client asks instant queries over HTTP.
type client struct {
	api     api.Client
	http    *http.Client
	timeout time.Duration
	// endpoint is the query URL as errors name it: without credentials and parameters.
	endpoint string
}

func newClient(cfg Config, maxBytes int64) (*client, error) {
	address, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	if cfg.BearerToken != "" && cfg.BearerTokenFile != "" {
		return nil, errors.New("token and tokenFile are both set: set one of them")
	}
	authorized := cfg.BearerToken != "" || cfg.BearerTokenFile != ""
	if authorized && address.User != nil {
		return nil, errors.New("the address holds a user name beside token or tokenFile: set one of them")
	}
	httpConfig := promconfig.DefaultHTTPClientConfig
	httpConfig.TLSConfig = promconfig.TLSConfig{CAFile: cfg.CAFile, InsecureSkipVerify: cfg.InsecureSkipVerify}
	httpConfig.ProxyFromEnvironment = true
	if authorized {
		httpConfig.Authorization = &promconfig.Authorization{
			Credentials:     promconfig.Secret(strings.TrimSpace(cfg.BearerToken)),
			CredentialsFile: cfg.BearerTokenFile,
		}
	}
	if err := httpConfig.Validate(); err != nil {
		return nil, fmt.Errorf("configure the HTTP client: %w", err)
	}
	transport, err := promconfig.NewRoundTripperFromConfig(httpConfig, "plimsoll", promconfig.WithUserAgent("plimsoll"))
	if err != nil {
		return nil, fmt.Errorf("configure TLS with caFile %q: %w", cfg.CAFile, err)
	}
	httpClient := &http.Client{Transport: &boundedTransport{next: transport, maxBytes: maxBytes}, CheckRedirect: checkRedirect(authorized)}
	apiClient, err := api.NewClient(api.Config{Address: cfg.Address, Client: httpClient})
	if err != nil {
		return nil, fmt.Errorf("address: %w", withoutURL(err))
	}
	endpoint := *apiClient.URL("/api/v1/query", nil)
	endpoint.User, endpoint.RawQuery, endpoint.Fragment = nil, "", ""
	return &client{api: apiClient, http: httpClient, timeout: cfg.Timeout, endpoint: endpoint.String()}, nil
}

func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// Neither the address nor the error of net/url is repeated: both may hold a password.
		return nil, errors.New("address: need a URL that begins with http:// or https:// and names a host")
	}
	return u, nil
}

// checkRedirect follows redirects as net/http does, with one limit. The library adds the token to every request, so a
// redirect to another host, or from https to http, would hand it to whoever answers there.
func checkRedirect(authorized bool) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		from := via[0].URL
		leaves := req.URL.Hostname() != from.Hostname() || from.Scheme == "https" && req.URL.Scheme != "https"
		if authorized && leaves {
			return fmt.Errorf("redirected to %s://%s, where the token is not sent: set address to where Prometheus is", req.URL.Scheme, req.URL.Host)
		}
		return nil
	}
}

// query asks for promql as of the server's now and hands each series to visit. After an error, what was visited is not to
// be used. The error names the URL and is a *queryError inside if the server refused the query itself.
func (c *client) query(ctx context.Context, promql string, visit func(*series)) (warnings []string, err error) {
	warnings, err = c.ask(ctx, promql, visit)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.endpoint, err)
	}
	return warnings, nil
}

func (c *client) ask(ctx context.Context, promql string, visit func(*series)) ([]string, error) {
	req, err := c.request(promql)
	if err != nil {
		return nil, err
	}
	resp, body, err := c.api.Do(ctx, req)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, refusal(resp, body)
	}
	warnings, err := decodeAnswer(bytes.NewReader(body), visit)
	var refused *queryError
	if err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("%w (it begins with %s)", err, excerpt(withoutSecret(body, resp)))
	}
	return warnings, err
}

// request reads with GET: proxies that grant views only, such as the one before OpenShift's monitoring, refuse POST.
func (c *client) request(promql string) (*http.Request, error) {
	u := c.api.URL("/api/v1/query", nil)
	parameters := u.Query()
	parameters.Set("query", promql)
	if encoded := parameters.Encode(); len(encoded) <= longestGet {
		u.RawQuery = encoded
		return http.NewRequest(http.MethodGet, u.String(), nil)
	}
	form := url.Values{"query": {promql}}
	req, err := http.NewRequest(http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return req, nil
}

// explain says in the operator's words why there is no answer.
func (c *client) explain(err error) error {
	err = withoutURL(err)
	var tooLarge *http.MaxBytesError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &tooLarge):
		return fmt.Errorf("the answer is larger than the limit of %d bytes: %w", tooLarge.Limit, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("its certificate does not verify: set caFile to the authority that signed it, or insecureSkipVerify to trust any: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time (timeout %s): %w", c.timeout, err)
	}
	return err
}

// withoutURL takes off the wrapping in which net/http and net/url repeat the whole URL.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// refusal is the error of a status other than 2xx.
func refusal(resp *http.Response, body []byte) error {
	body = withoutSecret(body, resp)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("answered %s: the token is missing, expired or not permitted to query, check token or tokenFile: %s", resp.Status, excerpt(body))
	case http.StatusNotFound:
		return fmt.Errorf("answered %s: check the path prefix in address", resp.Status)
	}
	var told struct {
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}
	if err := json.Unmarshal(body, &told); err == nil && told.ErrorType != "" {
		return fmt.Errorf("answered %s: %w", resp.Status, &queryError{kind: told.ErrorType, message: told.Error})
	}
	return fmt.Errorf("answered %s: %s", resp.Status, excerpt(body))
}

// withoutSecret blanks the credentials of the request in an answer that repeats them, as debug pages of proxies do.
func withoutSecret(body []byte, resp *http.Response) []byte {
	if resp.Request == nil {
		return body
	}
	_, secret, ok := strings.Cut(resp.Request.Header.Get("Authorization"), " ")
	if !ok || secret == "" {
		return body
	}
	return bytes.ReplaceAll(body, []byte(secret), []byte("…"))
}

func (c *client) close() {
	c.http.CloseIdleConnections()
}

// boundedTransport unpacks gzip, which the library's transport leaves out, and bounds what an answer unpacks to.
type boundedTransport struct {
	next     http.RoundTripper
	maxBytes int64
}

// RoundTrip implements http.RoundTripper. Reading more than the limit from the body is an *http.MaxBytesError.
func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
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
	resp.Body = http.MaxBytesReader(nil, struct {
		io.Reader
		io.Closer
	}{content, resp.Body}, t.maxBytes)
	return resp, nil
}

// CloseIdleConnections makes http.Client.CloseIdleConnections reach the library's transport.
func (t *boundedTransport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// gzipReader reads the header with the first bytes that are wanted, so that an answer without a body is not an error.
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
