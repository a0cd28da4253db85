package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Bounds of one response: an hour of 100,000 pods is some 60 MB.
const (
	maxResponseBytes = 256 << 20
	maxSeries        = 500_000
)

// client sends range queries to Prometheus.
type client struct {
	http *httpclient.Client
	url  *url.URL
}

// ValidateAddress checks that Config.Address is an http(s) URL.
func ValidateAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("address %q: want an http or https URL, such as http://localhost:9090", address)
	}
	return u, nil
}

func newClient(address string, c httpclient.Config) (*client, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	h, err := httpclient.New(c)
	if err != nil {
		return nil, err
	}
	return &client{http: h, url: u.JoinPath("api/v1/query_range")}, nil
}

// queryRange evaluates the query in each step from first to last, passes each value to visit, and returns the number of series.
func (c *client) queryRange(ctx context.Context, promql string, first, last time.Time,
	visit func(labels map[string]string, at time.Time, value float64),
) (series int, err error) {
	u := *c.url
	u.RawQuery = url.Values{
		"query": {promql}, "step": {strconv.Itoa(int(input.TraceStep.Seconds()))},
		"start": {strconv.FormatInt(first.Unix(), 10)}, "end": {strconv.FormatInt(last.Unix(), 10)},
	}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0, c.http.Explain(err)
	}
	response, err := c.http.Do(request, maxResponseBytes)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // it has been read by then
	if response.StatusCode/100 != 2 {
		return 0, c.http.NewStatusError(response)
	}
	if series, err = decode(jsonstream.NewDecoder(response.Body, maxSeries), visit); err != nil {
		return 0, fmt.Errorf("%s: query %s: %w", httpclient.WithoutSecrets(c.url), promql, c.http.Explain(err))
	}
	return series, nil
}

// decode reads the response to a range query.
func decode(d *jsonstream.Decoder, visit func(labels map[string]string, at time.Time, value float64)) (series int, err error) {
	status := ""
	err = d.Object(func(key string) error {
		switch key {
		case "status":
			return d.Decode(&status)
		case "data":
			return d.Object(func(key string) error {
				if key != "result" {
					return d.Skip()
				}
				return d.Array(func() error {
					var s struct {
						Metric map[string]string `json:"metric"`
						Values []sample          `json:"values"`
					}
					if err := d.Decode(&s); err != nil {
						return err
					}
					series++
					for _, v := range s.Values {
						visit(s.Metric, v.at, v.value)
					}
					return nil
				})
			})
		default:
			return d.Skip()
		}
	})
	if err == nil && status != "success" {
		err = fmt.Errorf("not a response of the Prometheus API: its status is %q", status)
	}
	return series, err
}

// sample is a value and its moment, in JSON [1435781451.781, "0.5"].
type sample struct {
	at    time.Time
	value float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(b []byte) error {
	seconds, quoted, ok := bytes.Cut(bytes.Trim(b, "[]"), []byte(","))
	if !ok {
		return fmt.Errorf("%.64q is not a sample", b)
	}
	var at float64
	var text string
	if err := json.Unmarshal(seconds, &at); err != nil {
		return err
	}
	if err := json.Unmarshal(bytes.TrimSpace(quoted), &text); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%.64q is not a sample", b)
	}
	if math.IsInf(value, 0) {
		value = math.NaN() // which is no usage
	}
	s.at, s.value = time.UnixMilli(int64(min(max(at, 0), 1e11)*1000)), value
	return nil
}
