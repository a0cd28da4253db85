package prometheus

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
	"strings"
	"sync"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

const (
	// longestGet is the longest encoded query that is sent in a URL; servers and proxies refuse URLs beyond 8 KiB.
	longestGet = 6 << 10
	// pieceBytes is how much of a response is decoded at a time.
	pieceBytes = 32 << 10
	// headBytes is how much of a response is kept to show its beginning.
	headBytes = 1 << 10
)

// client sends instant queries over HTTP.
type client struct {
	http *httpclient.Client
	// url is where queries are sent; endpoint is the url as errors show it.
	url      *url.URL
	endpoint string
	// decoding is held while a piece of a response is decoded: whatever servers send, decoding takes no more than one core
	// from scheduling.
	decoding sync.Mutex
}

func newClient(cfg Config) (*client, error) {
	address, err := url.Parse(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("parse the address: %w", err)
	}
	httpClient, err := httpclient.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	u := address.JoinPath("api/v1/query")
	return &client{http: httpClient, url: u, endpoint: httpclient.WithoutSecrets(u)}, nil
}

// query evaluates promql at the server's present time and passes each series to visit. The response is bounded by the
// number of nodes. After an error the series passed so far must not be used. The error names the URL; it wraps a *queryError if the
// server refused the query itself.
func (c *client) query(ctx context.Context, promql string, nodes int, visit func(*series)) (warnings []string, err error) {
	bounds := bounds{bytes: source.MaxResponseBytes(nodes), series: source.MaxElements(nodes)}
	warnings, err = c.send(ctx, url.Values{"query": {promql}}, bounds, eachSeries(clearMap, visit))
	if source.IsTooLarge(err) {
		err = fmt.Errorf("%w, the bound for %d nodes: let the query return the series of these nodes alone, with queries or metrics of your own", err, nodes)
	}
	return warnings, err
}

// bounds are those of one response.
type bounds struct{ bytes, series int64 }

// send evaluates the query with these parameters of the API and decodes each series of the response. Errors are as with query.
func (c *client) send(ctx context.Context, parameters url.Values, limit bounds, decode decodeSeries) (warnings []string, err error) {
	req, err := c.request(ctx, parameters)
	if err != nil {
		return nil, c.http.Explain(err)
	}
	resp, err := c.http.Do(req, limit.bytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	warnings, err = c.read(resp, limit.series, decode)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Method, c.endpoint, err)
	}
	return warnings, nil
}

// request uses GET: proxies that grant views only, such as the one before OpenShift's monitoring, refuse POST.
func (c *client) request(ctx context.Context, parameters url.Values) (*http.Request, error) {
	u := *c.url
	encoded := parameters.Encode()
	if len(encoded) <= longestGet {
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

func (c *client) read(resp *http.Response, maxSeries int64, decode decodeSeries) (warnings []string, err error) {
	if resp.StatusCode/100 != 2 {
		return nil, c.refusal(resp)
	}
	c.decoding.Lock()
	defer c.decoding.Unlock()
	body := &pieces{body: resp.Body, decoding: &c.decoding}
	warnings, err = decodeResponse(bufio.NewReaderSize(body, pieceBytes), maxSeries, decode)
	if refused, ok := errors.AsType[*queryError](err); ok {
		return nil, c.clean(refused)
	}
	if failed, ok := errors.AsType[*jsonstream.ReadError](err); ok {
		return nil, c.http.Explain(failed.Unwrap())
	}
	if source.IsTooLarge(err) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w (it begins with %q)", c.http.Explain(err), c.http.Excerpt(string(body.head)))
	}
	for i := range warnings {
		warnings[i] = c.http.Excerpt(warnings[i])
	}
	return warnings, nil
}

// clean returns the error in words that may be shown.
func (c *client) clean(e *queryError) *queryError {
	return &queryError{kind: c.http.Excerpt(e.kind), message: c.http.Excerpt(e.message)}
}

// pieces reads a body while others decode, and lets other goroutines run before each piece is decoded.
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

// refusal returns the error for a status other than 2xx, with what is special to Prometheus.
func (c *client) refusal(resp *http.Response) error {
	err := c.http.NewStatusError(resp)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return err // whatever the format, it is not the query that was refused
	case http.StatusNotFound:
		return fmt.Errorf("%w (check the path prefix in address)", err)
	}
	var refused response
	if refused.decode(jsonstream.NewDecoder(bytes.NewReader(err.Body), int64(len(err.Body))), eachSeries(clearMap, func(*series) {})) != nil && refused.err.message == "" {
		refused.err.message = err.Excerpt // the message is too long for what was read
	}
	if refused.err.kind == "" {
		return err
	}
	err.Excerpt = "" // the error follows
	return fmt.Errorf("%w: %w", err, c.clean(&refused.err))
}
