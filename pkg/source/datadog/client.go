package datadog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

const (
	keyHeader            = "DD-API-KEY"
	applicationKeyHeader = "DD-APPLICATION-KEY"
	// shownMetrics is how many names of metrics are looked up.
	shownMetrics = 20
)

// client sends requests to the API.
type client struct {
	http *httpclient.Client
	base *url.URL
	// shown is the address as errors show it.
	shown string
}

func newClient(cfg Config) (*client, error) {
	base, err := url.Parse(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("parse the address: %w", err)
	}
	cfg.TokenHeader, cfg.KeyHeader = keyHeader, applicationKeyHeader
	httpClient, err := httpclient.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	return &client{http: httpClient, base: base, shown: httpclient.WithoutSecrets(base)}, nil
}

// The request of POST /api/v2/query/timeseries.
type (
	requestBody struct {
		Data requestData `json:"data"`
	}
	requestData struct {
		Type       string            `json:"type"`
		Attributes requestAttributes `json:"attributes"`
	}
	requestAttributes struct {
		// From, To and Interval are in milliseconds; To is excluded.
		From     int64          `json:"from"`
		To       int64          `json:"to"`
		Interval int64          `json:"interval"`
		Queries  []requestQuery `json:"queries"`
	}
	requestQuery struct {
		DataSource string `json:"data_source"`
		Name       string `json:"name"`
		Query      string `json:"query"`
	}
)

// query evaluates the queries over the range. It may return a response beside an error: then Datadog had a part alone.
func (c *client) query(ctx context.Context, queries [load.ResourceCount]query, rng hosted.Range, now time.Time, nodes int) (*response, error) {
	attributes := requestAttributes{From: rng.From(now).UnixMilli(), To: now.UnixMilli(), Interval: rng.Step.Milliseconds()}
	for r, q := range queries {
		attributes.Queries = append(attributes.Queries, requestQuery{DataSource: "metrics", Name: load.Resource(r).String(), Query: q.text})
	}
	body, err := json.Marshal(requestBody{Data: requestData{Type: "timeseries_request", Attributes: attributes}})
	if err != nil {
		return nil, err
	}
	const path = "api/v2/query/timeseries"
	var decoded *response
	maxBytes := int64(load.ResourceCount) * rng.MaxBytes(nodes)
	err = c.send(ctx, http.MethodPost, c.base.JoinPath(path), body, nodes, maxBytes, func(dec *jsonstream.Decoder) (err error) {
		decoded, err = decodeResponse(dec, rng)
		return err
	})
	if err != nil {
		return nil, err
	}
	if decoded.errors != "" {
		err = fmt.Errorf("POST %s/%s: the response is partial: %s", c.shown, path, c.http.Excerpt(decoded.errors))
	}
	return decoded, err
}

// metrics returns a few names of metrics with the word in them.
func (c *client) metrics(ctx context.Context, word string) ([]string, error) {
	u := c.base.JoinPath("api/v1/search")
	u.RawQuery = url.Values{"q": {"metrics:" + word}}.Encode()
	var names []string
	err := c.send(ctx, http.MethodGet, u, nil, 0, source.MaxResponseBytes(0), func(dec *jsonstream.Decoder) (err error) {
		names, err = decodeMetrics(dec)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range names {
		names[i] = c.http.Excerpt(names[i])
	}
	return names, nil
}

// send decodes the response to a request about so many nodes. The error names the URL and the setting to look at.
func (c *client) send(ctx context.Context, method string, u *url.URL, body []byte, nodes int, maxBytes int64, decode func(*jsonstream.Decoder) error) error {
	var content io.Reader = http.NoBody
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return c.http.Explain(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req, maxBytes)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	shown := method + " " + httpclient.WithoutSecrets(u)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", shown, c.refusal(resp))
	}
	dec := jsonstream.NewDecoder(resp.Body, source.MaxElements(nodes))
	err = decode(dec)
	if err == nil {
		err = dec.End()
	}
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*jsonstream.ReadError](err); ok {
		err = failed.Unwrap()
		if ctx.Err() != nil {
			err = ctx.Err() // the connection may have been closed for this
		}
	}
	err = c.http.Explain(err)
	if source.IsTooLarge(err) {
		err = fmt.Errorf("%w, the bound for %d nodes: set clusterName or hostNameSuffix, so that the query has the hosts of this cluster alone", err, nodes)
	}
	return fmt.Errorf("%s: %w", shown, err)
}

// refusal returns the error for a status other than 200, with what is special to Datadog.
func (c *client) refusal(resp *http.Response) error {
	err := c.http.NewStatusError(resp)
	switch err.Code {
	case http.StatusUnauthorized:
		err.Hint = "the API key of token or tokenFile is missing, wrong or revoked, or of another site than address: https://api.<site>"
	case http.StatusForbidden:
		err.Hint = "the API key of token or tokenFile or the application key of applicationKey or applicationKeyFile is wrong, or of another site than address, " +
			"or the application key lacks the scope timeseries_query"
	case http.StatusNotFound:
		err.Hint = "no API is served there: set address to https://api.<site>, such as https://api.datadoghq.eu"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		err.Hint = "if queries, clusterName or hostNameSuffix are set, check them"
	}
	return err
}
