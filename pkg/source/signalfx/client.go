package signalfx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

const (
	tokenHeader = "X-SF-Token"
	// pageSize is the largest that the service accepts.
	pageSize = 10_000
	// maxPages bounds the requests for the hosts of one query.
	maxPages = 16
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
	cfg.TokenHeader = tokenHeader
	httpClient, err := httpclient.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	return &client{http: httpClient, base: base, shown: httpclient.WithoutSecrets(base)}, nil
}

// values returns the series over the range that the query selects, by ID of the series. It may return series beside an error: then
// the service had a part alone.
func (c *client) values(ctx context.Context, query string, rng hosted.Range, now time.Time, nodes int) (map[string]hosted.Series, error) {
	var response *values
	err := c.get(ctx, "v1/timeserieswindow", url.Values{
		"query":      {query},
		"startMs":    {strconv.FormatInt(rng.From(now).UnixMilli(), 10)},
		"endMs":      {strconv.FormatInt(now.UnixMilli(), 10)},
		"resolution": {strconv.FormatInt(rng.Step.Milliseconds(), 10)},
	}, nodes, rng.MaxBytes(nodes), func(dec *jsonstream.Decoder) (err error) {
		response, err = decodeValues(dec, rng)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(response.errors) > 0 {
		for i, text := range response.errors {
			response.errors[i] = c.http.Excerpt(text)
		}
		err = fmt.Errorf("GET %s/v1/timeserieswindow: the response is partial: %s", c.shown, source.FirstN(response.errors))
	}
	return response.series, err
}

// hosts returns the hosts of the series that the query selects, by ID of the series.
func (c *client) hosts(ctx context.Context, query string, nodes int) (map[string]string, error) {
	hosts := map[string]string{}
	offset := 0
	for range maxPages {
		var page *page
		err := c.get(ctx, "v2/metrictimeseries", url.Values{
			"query": {query}, "limit": {strconv.Itoa(pageSize)}, "offset": {strconv.Itoa(offset)},
		}, nodes, source.MaxResponseBytes(nodes), func(dec *jsonstream.Decoder) (err error) {
			page, err = decodePage(dec)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, series := range page.results {
			if series.Dimensions.Host != "" {
				hosts[string(series.ID)] = string(series.Dimensions.Host)
			}
		}
		offset += len(page.results)
		if len(page.results) == 0 || offset >= page.count || int64(offset) >= source.MaxElements(nodes) {
			break
		}
	}
	return hosts, nil
}

// metrics returns a few names of metrics with the word in them.
func (c *client) metrics(ctx context.Context, word string) ([]string, error) {
	var page *page
	err := c.get(ctx, "v2/metric", url.Values{"query": {"name:*" + word + "*"}, "limit": {strconv.Itoa(shownMetrics)}}, 0,
		source.MaxResponseBytes(0), func(dec *jsonstream.Decoder) (err error) {
			page, err = decodePage(dec)
			return err
		})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, metric := range page.results[:min(len(page.results), shownMetrics)] {
		names = append(names, c.http.Excerpt(string(metric.Name)))
	}
	return names, nil
}

// get decodes the response to a request about so many nodes. The error names the URL and the setting to look at.
func (c *client) get(ctx context.Context, path string, parameters url.Values, nodes int, maxBytes int64, decode func(*jsonstream.Decoder) error) error {
	u := c.base.JoinPath(path)
	shown := httpclient.WithoutSecrets(u)
	u.RawQuery = parameters.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return c.http.Explain(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req, maxBytes)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %w", shown, c.refusal(resp))
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
		err = fmt.Errorf("%w, the bound for %d nodes: set clusterName or hostNameSuffix, so that the query has the series of this cluster alone", err, nodes)
	}
	return fmt.Errorf("GET %s: %w", shown, err)
}

// refusal returns the error for a status other than 200, with what is special to SignalFx.
func (c *client) refusal(resp *http.Response) error {
	err := c.http.NewStatusError(resp)
	switch err.Code {
	case http.StatusUnauthorized:
		err.Hint = "token or tokenFile is missing, wrong or expired, or of another realm than address: https://api.<realm>.signalfx.com"
	case http.StatusForbidden:
		err.Hint = "the access token of token or tokenFile lacks the authorization scope API: give it that scope, or take another token"
	case http.StatusNotFound:
		err.Hint = "no API is served there: set address to https://api.<realm>.signalfx.com"
	case http.StatusBadRequest:
		err.Hint = "if queries, clusterName or hostNameSuffix are set, check them"
	}
	return err
}
