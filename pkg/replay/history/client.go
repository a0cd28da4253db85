package history

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// Bounds of one response: an hour of 100,000 pods is some 60 MB.
const (
	maxResponseBytes = 256 << 20
	maxSeries        = 500_000
)

// ValidateAddress checks that Config.Address is an http(s) URL.
func ValidateAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("address %q: want an http or https URL, such as http://localhost:9090", address)
	}
	return nil
}

// queryRange evaluates the query in each step from first to last, and returns the number of series. visit must not keep the labels.
func (r *reader) queryRange(ctx context.Context, promql string, first, last time.Time,
	visit func(labels map[string]string, at time.Time, value float64),
) (series int, err error) {
	parameters := url.Values{
		"query": {promql}, "step": {strconv.Itoa(int(input.TraceStep.Seconds()))},
		"start": {strconv.FormatInt(first.Unix(), 10)}, "end": {strconv.FormatInt(last.Unix(), 10)},
	}
	elements := response.Matrix(response.ClearMap, func(s *response.Series[map[string]string]) {
		series++
		for _, p := range s.Values {
			visit(s.Metric, p.At, p.Value)
		}
	})
	if _, err = r.client.Send(ctx, parameters, response.Bounds{Bytes: maxResponseBytes, Series: maxSeries}, elements); err != nil {
		return 0, fmt.Errorf("query %s: %w", promql, err)
	}
	return series, nil
}
