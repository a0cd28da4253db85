package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

const (
	// maxResponseBytes is the largest response that is read into the scheduler's memory, unpacked. Series of 15,000 nodes take
	// 3 MiB.
	maxResponseBytes = 64 << 20
	// longestGet is the longest encoded query that is sent in a URL; servers and proxies refuse URLs beyond 8 KiB.
	longestGet = 6 << 10
)

// client sends instant queries over HTTP.
type client struct {
	http *httpclient.Client
	// url is where queries are sent; endpoint is the url as errors show it.
	url      *url.URL
	endpoint string
}

func newClient(cfg Config, maxBytes int64) (*client, error) {
	address, err := url.Parse(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("parse the address: %w", err)
	}
	httpClient, err := httpclient.New(cfg.Config, maxBytes)
	if err != nil {
		return nil, err
	}
	u := address.JoinPath("api/v1/query")
	return &client{http: httpClient, url: u, endpoint: httpclient.WithoutSecrets(u)}, nil
}

// query evaluates promql at the server's present time and passes each series to visit. After an error the series passed so far
// must not be used. The error names the URL; it wraps a *queryError if the server refused the query itself.
func (c *client) query(ctx context.Context, promql string, visit func(*series)) (warnings []string, err error) {
	req, err := c.request(ctx, promql)
	if err != nil {
		return nil, c.http.Explain(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.http.Explain(err)
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	warnings, err = c.read(resp, visit)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Method, c.endpoint, err)
	}
	return warnings, nil
}

// request uses GET: proxies that grant views only, such as the one before OpenShift's monitoring, refuse POST.
func (c *client) request(ctx context.Context, promql string) (*http.Request, error) {
	u := *c.url
	parameters := url.Values{"query": {promql}}.Encode()
	if len(parameters) <= longestGet {
		u.RawQuery = parameters
		return http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(parameters))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return req, nil
}

func (c *client) read(resp *http.Response, visit func(*series)) (warnings []string, err error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.http.Explain(err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, refusal(resp, body)
	}
	warnings, err = decodeResponse(bytes.NewReader(body), visit)
	var refused *queryError
	switch {
	case errors.As(err, &refused):
		refused.message = httpclient.WithoutCredentials(resp, refused.message)
	case err != nil:
		err = fmt.Errorf("%w (it begins with %q)", err, httpclient.Excerpt(resp, body))
	}
	return warnings, err
}

// refusal returns the error for a status other than 2xx, with what is special to Prometheus.
func refusal(resp *http.Response, body []byte) error {
	err := httpclient.NewStatusError(resp, body)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return err // whatever the format, it is not the query that was refused
	case http.StatusNotFound:
		return fmt.Errorf("%w (check the path prefix in address)", err)
	}
	var refused struct {
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}
	if json.Unmarshal(body, &refused) != nil || refused.ErrorType == "" {
		return err
	}
	err.Excerpt = "" // the error follows in full
	return fmt.Errorf("%w: %w", err, &queryError{kind: refused.ErrorType, message: httpclient.WithoutCredentials(resp, refused.Error)})
}

func (c *client) close() {
	c.http.CloseIdleConnections()
}
