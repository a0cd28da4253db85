package signalfx

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

const (
	tokenHeader = "X-SF-Token"
	pageSize    = 10_000
	// maxPages bounds the requests for the hosts of one query.
	maxPages = 16
)

type client struct{ *hosted.Client }

// values returns the query's series over the range, by ID. It returns series and an error if the response is partial.
func (c client) values(
	ctx context.Context, query string, rng hosted.Range, now time.Time, nodes int,
) (map[string]hosted.Series, error) {
	const path = "v1/timeserieswindow"
	var response *values
	err := c.get(ctx, path, url.Values{
		"query": {query}, "startMs": {strconv.FormatInt(rng.From(now).UnixMilli(), 10)},
		"endMs": {strconv.FormatInt(now.UnixMilli(), 10)}, "resolution": {strconv.FormatInt(rng.Step.Milliseconds(), 10)},
	}, nodes, rng.MaxBytes(nodes), func(dec *jsonstream.Decoder) (err error) {
		response, err = decodeValues(dec, rng, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(response.errors) > 0 {
		for i, text := range response.errors {
			response.errors[i] = c.Excerpt(text)
		}
		err = fmt.Errorf("GET %s: the response is partial: %s", c.Endpoint(path), text.FirstN(response.errors))
	}
	return response.series, err
}

func (c client) hosts(ctx context.Context, query string, nodes int) (map[string]string, error) {
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
				hosts[series.ID] = series.Dimensions.Host
			}
		}
		offset += len(page.results)
		if len(page.results) == 0 || float64(offset) >= float64(page.count) || int64(offset) >= source.MaxElements(nodes) {
			break
		}
	}
	return hosts, nil
}

func (c client) get(ctx context.Context, path string, parameters url.Values, nodes int, maxBytes int64,
	decode func(*jsonstream.Decoder) error,
) error {
	r := hosted.Request{Method: http.MethodGet, Path: path, Parameters: parameters, Nodes: nodes, MaxBytes: maxBytes}
	return c.Do(ctx, r, decode)
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "token or tokenFile is missing, wrong, expired or of another realm than address: https://api.<realm>.signalfx.com"
	case http.StatusForbidden:
		return "the access token (token, tokenFile) lacks the authorization scope API: add the scope, or set another token"
	case http.StatusNotFound:
		return "no API is served there: set address to https://api.<realm>.signalfx.com"
	case http.StatusBadRequest:
		return "if queries, clusterName or hostNameSuffix are set, check them"
	}
	return ""
}
