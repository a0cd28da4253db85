package datadog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// response is a response to queries. The rows of values have the order of series.
type response struct {
	series []series
	times  []time.Time
	// values are the concatenated rows. ends are the rows' end indexes in values.
	values []hosted.Number
	ends   []int
	errors string
}

type series struct {
	GroupTags  []string `json:"group_tags"`
	QueryIndex *int     `json:"query_index"`
}

// host returns the value of the tag host, or else that of the first tag.
func (s *series) host() string {
	first := ""
	for _, tag := range s.GroupTags {
		key, value, ok := strings.Cut(tag, ":")
		if ok && key == "host" {
			return value
		}
		if ok && first == "" {
			first = value
		}
	}
	return first
}

// each calls visit for each series, with its summary as utilization over the range. host may be empty.
func (r *response) each(queries [load.ResourceCount]query, rng hosted.Range, now time.Time,
	visit func(host string, resource load.Resource, summary hosted.Series),
) {
	points := make([]hosted.Point, len(r.times))
	begin := 0
	for i, end := range r.ends {
		row := r.values[begin:end]
		begin = end
		query := r.series[i].QueryIndex
		if query == nil || *query < 0 || *query >= len(queries) {
			continue
		}
		for j, value := range row {
			points[j] = hosted.Point{Time: r.times[j], Value: queries[*query].utilization(float64(value))}
		}
		visit(r.series[i].host(), load.Resource(*query), rng.Summarize(points[:len(row)], now))
	}
}

// decodeResponse reads {"data": {"attributes": {"series": […], "times": […], "values": [[…], …]}}, "errors": "…"}.
// Keys may have any order. Values other than numbers are gaps.
func decodeResponse(dec *jsonstream.Decoder, rng hosted.Range) (*response, error) {
	r, hasData := &response{}, false
	err := dec.Object(func(key string) error {
		switch key {
		case "data":
			hasData = true
			return dec.Object(func(key string) error {
				if key == "attributes" {
					return r.decodeAttributes(dec, rng)
				}
				return dec.Skip()
			})
		case "errors":
			return r.decodeErrors(dec)
		}
		return dec.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !hasData && r.errors == "":
		return nil, errors.New("not a response of the Datadog API: no \"data\" field")
	case len(r.series) != len(r.ends):
		return nil, fmt.Errorf("the response has %d series and values of %d", len(r.series), len(r.ends))
	}
	begin := 0
	for _, end := range r.ends {
		if end-begin > len(r.times) {
			return nil, fmt.Errorf("the response has %d times and a series of %d values", len(r.times), end-begin)
		}
		begin = end
	}
	return r, nil
}

func (r *response) decodeAttributes(dec *jsonstream.Decoder, rng hosted.Range) error {
	return dec.Object(func(key string) error {
		switch key {
		case "series":
			return dec.Array(func() error {
				var s series
				err := dec.Decode(&s)
				r.series = append(r.series, s)
				return err
			})
		case "times":
			return r.decodeTimes(dec, rng)
		case "values":
			var row []hosted.Number
			return dec.Array(func() error {
				row = row[:0]
				if err := dec.Decode(&row); err != nil {
					return err
				}
				if err := checkPoints(len(row), rng); err != nil {
					return err
				}
				r.values = append(r.values, row...)
				r.ends = append(r.ends, len(r.values))
				return nil
			})
		}
		return dec.Skip()
	})
}

func checkPoints(count int, rng hosted.Range) error {
	if limit := rng.MaxPoints(); count > limit {
		return fmt.Errorf("a series has %d points, more than the requested %d: write $interval in the rollup of custom queries",
			count, limit)
	}
	return nil
}

func (r *response) decodeTimes(dec *jsonstream.Decoder, rng hosted.Range) error {
	var times []hosted.Number
	if err := dec.Decode(&times); err != nil {
		return err
	}
	if err := checkPoints(len(times), rng); err != nil {
		return err
	}
	r.times = r.times[:0]
	for _, millis := range times {
		at, err := millis.Time()
		if err != nil {
			return err
		}
		r.times = append(r.times, at)
	}
	return nil
}

// decodeErrors accepts a string, as documented, or any other value.
func (r *response) decodeErrors(dec *jsonstream.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if json.Unmarshal(raw, &r.errors) != nil {
		r.errors = string(raw)
	}
	if r.errors == "[]" {
		r.errors = ""
	}
	return nil
}
