// Package response sends queries to a Prometheus, decodes its responses within bounds, and assigns their series to Nodes.
package response

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

const (
	// LongestGet is the longest encoded query that is sent in a URL; servers and proxies refuse URLs beyond 8 KiB.
	LongestGet = 6 << 10
	pieceBytes = 32 << 10
	headBytes  = 1 << 10
)

// The paths of the API, below the server's address.
const (
	InstantQuery = "api/v1/query"
	RangeQuery   = "api/v1/query_range"
)

// Client sends queries over HTTP.
type Client struct {
	http *httpclient.Client
	path string
	// decoding is held while a piece of a response is decoded: decoding takes at most one core from scheduling.
	decoding sync.Mutex
}

// NewClient returns a Client of the server at an address. It fails if the address is no URL or a CA file cannot be read.
func NewClient(address, path string, cfg httpclient.Config) (*Client, error) {
	httpClient, err := httpclient.New(address, cfg)
	if err != nil {
		return nil, err
	}
	return &Client{http: httpClient, path: path}, nil
}

// Endpoint returns the URL of queries, without credentials.
func (c *Client) Endpoint() string { return c.http.Endpoint(c.path) }

// Excerpt returns a server's text for logs and errors, without credentials.
func (c *Client) Excerpt(text string) string { return c.http.Excerpt(text) }

// Close ends the idle connections. The Client may be used again afterwards.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Query evaluates an instant query about nodes and passes each series with an accepted value to visit. After an error,
// passed series must not be used. The error names the URL, and wraps a *RefusedError where the server refused the query.
func (c *Client) Query(ctx context.Context, promql string, bounds Bounds, visit func(*Series[map[string]string])) (Answer, error) {
	answer, err := c.Send(ctx, InstantParameters(promql, time.Time{}), bounds, Vector(ClearMap, visit))
	if source.IsTooLarge(err) {
		err = fmt.Errorf("%w, the bound for %d nodes: set metricProvider.selector, or use a custom query, "+
			"for the series of these nodes alone", err, bounds.nodes)
	}
	return answer, err
}

// InstantParameters are those of an instant query. A zero time is the server's present one.
func InstantParameters(promql string, at time.Time) url.Values {
	parameters := url.Values{"query": {promql}}
	if !at.IsZero() {
		parameters.Set("time", strconv.FormatInt(at.Unix(), 10))
	}
	return parameters
}

// Bounds are those of one response.
type Bounds struct {
	Bytes, Series int64
	Signed        bool // values may be negative
	nodes         int
}

// NodeBounds are the bounds of a response with about one series a node.
func NodeBounds(nodes int) Bounds {
	return Bounds{Bytes: source.MaxResponseBytes(nodes), Series: source.MaxElements(nodes), nodes: nodes}
}

// Send evaluates the query with these parameters of the API and decodes the elements of the result. Errors are as with Query.
func (c *Client) Send(ctx context.Context, parameters url.Values, bounds Bounds, elements Elements) (answer Answer, err error) {
	req, err := c.request(ctx, parameters)
	if err != nil {
		return Answer{}, c.http.Explain(err)
	}
	err = c.http.Exchange(req, bounds.Bytes, func(resp *http.Response) (err error) {
		answer, err = c.read(resp, bounds, elements)
		return err
	})
	return answer, err
}

// request prefers GET: proxies that grant views only, such as the one before OpenShift's monitoring, refuse POST.
func (c *Client) request(ctx context.Context, parameters url.Values) (*http.Request, error) {
	u := c.http.URL(c.path)
	encoded := parameters.Encode()
	if len(encoded) <= LongestGet {
		u.RawQuery = encoded
		return http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return req, nil
}

func (c *Client) read(resp *http.Response, bounds Bounds, elements Elements) (answer Answer, err error) {
	if resp.StatusCode/100 != 2 {
		return Answer{}, c.refusal(resp)
	}
	c.decoding.Lock()
	defer c.decoding.Unlock()
	body := &pieces{body: resp.Body, decoding: &c.decoding}
	answer, err = Decode(bufio.NewReaderSize(body, pieceBytes), bounds, elements)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return Answer{}, c.clean(refused)
	}
	if failed, ok := errors.AsType[*jsonstream.ReadError](err); ok {
		return Answer{}, c.http.Explain(failed.Unwrap())
	}
	if source.IsTooLarge(err) {
		return Answer{}, err
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%w (it begins with %q)", c.http.Explain(err), c.http.Excerpt(string(body.head)))
	}
	for i := range answer.Warnings {
		answer.Warnings[i] = c.http.Excerpt(answer.Warnings[i])
	}
	return answer, nil
}

// clean returns the error without credentials, and marks an error that says that the query needs too much.
func (c *Client) clean(e *RefusedError) *RefusedError {
	return &RefusedError{
		Kind: c.http.Excerpt(e.Kind), Message: c.http.Excerpt(e.Message),
		tooMuch: slices.ContainsFunc(limits, func(limit string) bool { return strings.Contains(e.Message, limit) }),
	}
}

// pieces is the body of a response. Read unlocks decoding while it waits for the body, and lets other goroutines run after it.
type pieces struct {
	body     io.Reader
	decoding *sync.Mutex
	head     []byte
}

func (p *pieces) Read(b []byte) (int, error) {
	p.decoding.Unlock()
	defer p.decoding.Lock()
	n, err := p.body.Read(b)
	p.head = append(p.head, b[:min(n, headBytes-len(p.head))]...)
	runtime.Gosched()
	return n, err
}

func (c *Client) refusal(resp *http.Response) error {
	err := c.http.NewStatusError(resp)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return err // whatever the body says, the caller was refused and not the query
	case http.StatusNotFound:
		return fmt.Errorf("%w (check the path prefix in address)", err)
	}
	refused := refusal(err.Body, err.Excerpt)
	switch {
	case refused == nil && err.Code == http.StatusBadRequest && err.Hint == "" && !bytes.Contains(err.Body, []byte("HTTPS")):
		return fmt.Errorf("%w (check the path prefix in address)", err) // of VictoriaMetrics
	case refused == nil:
		return err
	}
	err.Excerpt = "" // the error follows
	return fmt.Errorf("%w: %w", err, c.clean(refused))
}
