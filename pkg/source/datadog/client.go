package datadog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

const keyHeader, applicationKeyHeader = "DD-API-KEY", "DD-APPLICATION-KEY"

type client struct{ *hosted.Client }

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

// query evaluates the queries over the range. It returns a response and an error if the response is partial.
func (c client) query(
	ctx context.Context, queries [load.ResourceCount]query, rng hosted.Range, now time.Time, nodes int,
) (*response, error) {
	attributes := requestAttributes{From: rng.From(now).UnixMilli(), To: now.UnixMilli(), Interval: rng.Step.Milliseconds()}
	for r, q := range queries {
		attributes.Queries = append(attributes.Queries,
			requestQuery{DataSource: "metrics", Name: load.Resource(r).String(), Query: q.text})
	}
	body, err := json.Marshal(requestBody{Data: requestData{Type: "timeseries_request", Attributes: attributes}})
	if err != nil {
		return nil, err
	}
	const path = "api/v2/query/timeseries"
	var decoded *response
	err = c.Do(ctx, hosted.Request{
		Method: http.MethodPost, Path: path, Body: body, Nodes: nodes, MaxBytes: int64(load.ResourceCount) * rng.MaxBytes(nodes),
	}, func(dec *jsonstream.Decoder) (err error) {
		decoded, err = decodeResponse(dec, rng)
		return err
	})
	if err != nil {
		return nil, err
	}
	if decoded.errors != "" {
		err = fmt.Errorf("POST %s: the response is partial: %s", c.Endpoint(path), c.Excerpt(decoded.errors))
	}
	return decoded, err
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the API key (token, tokenFile) is missing, wrong, revoked, " +
			"or of another site than the one in address (https://api.<site>)"
	case http.StatusForbidden:
		return "the API key (token, tokenFile) or the application key (applicationKey, applicationKeyFile) is wrong " +
			"or of another site, or the application key lacks the scope timeseries_query"
	case http.StatusNotFound:
		return "no API is served there: set address to https://api.<site>, such as https://api.datadoghq.eu"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "if queries, clusterName or hostNameSuffix are set, check them"
	}
	return ""
}
