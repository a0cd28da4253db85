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

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/internal/httpclient"
)

const (
	// maxAnswerBytes bounds what one answer may take of the scheduler's memory, unpacked. Series of 15,000 nodes take 3 MiB.
	maxAnswerBytes = 64 << 20
	// longestGet is the longest encoded query that is sent in a URL; servers and proxies refuse URLs beyond 8 KiB.
	longestGet = 6 << 10
)

// client asks instant queries over HTTP.
type client struct {
	http *httpclient.Client
	// url is where queries are sent; endpoint is what errors call it.
	url      *url.URL
	endpoint string
}

func newClient(cfg Config, maxBytes int64) (*client, error) {
	address, err := httpclient.ParseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	httpClient, err := httpclient.New(httpclient.Config{
		BearerToken:        cfg.BearerToken,
		BearerTokenFile:    cfg.BearerTokenFile,
		CAFile:             cfg.CAFile,
		ExtraCAFiles:       cfg.ExtraCAFiles,
		InsecureSkipVerify: cfg.InsecureSkipVerify,
		Timeout:            cfg.Timeout,
	}, maxBytes)
	if err != nil {
		return nil, err
	}
	u := address.JoinPath("api/v1/query")
	return &client{http: httpClient, url: u, endpoint: httpclient.WithoutSecrets(u)}, nil
}

// query asks for promql as of the server's now and hands each series to visit. After an error, what was visited is not to
// be used. The error names the URL and is a *queryError inside if the server refused the query itself.
func (c *client) query(ctx context.Context, promql string, visit func(*series)) (warnings []string, err error) {
	req, err := c.request(ctx, promql)
	if err != nil {
		return nil, c.http.Explain(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.http.Explain(err)
	}
	defer func() { _ = resp.Body.Close() }() // all that is wanted has been read by then
	warnings, err = c.read(resp, visit)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Method, c.endpoint, err)
	}
	return warnings, nil
}

// request reads with GET: proxies that grant views only, such as the one before OpenShift's monitoring, refuse POST.
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
	warnings, err = decodeAnswer(bytes.NewReader(body), visit)
	var refused *queryError
	switch {
	case errors.As(err, &refused):
		refused.message = httpclient.WithoutCredentials(resp, refused.message)
	case err != nil:
		err = fmt.Errorf("%w (it begins with %q)", err, httpclient.Excerpt(resp, body))
	}
	return warnings, err
}

// refusal explains the statuses that say more of Prometheus than of any server.
func refusal(resp *http.Response, body []byte) error {
	err := httpclient.NewStatusError(resp, body)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return err // whatever the format, it is not the query that was refused
	case http.StatusNotFound:
		return fmt.Errorf("%w (check the path prefix in address)", err)
	}
	var told struct {
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}
	if json.Unmarshal(body, &told) != nil || told.ErrorType == "" {
		return err
	}
	err.Excerpt = "" // the error stands in full behind it
	return fmt.Errorf("%w: %w", err, &queryError{kind: told.ErrorType, message: httpclient.WithoutCredentials(resp, told.Error)})
}

func (c *client) close() {
	c.http.CloseIdleConnections()
}
