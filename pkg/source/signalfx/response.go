package signalfx

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plimsoll-scheduler/plimsoll/pkg/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
)

// maxErrors is how many errors of a response are kept.
const maxErrors = 5

// values is a response with the values of series.
type values struct {
	// series are by ID.
	series map[string]hosted.Series
	errors []string
}

// decodeValues reads {"data": {"<id>": [[<ms>, <percent>], …], …}, "errors": […]}, in fractions over the range. A null is a gap.
func decodeValues(dec *jsonstream.Decoder, rng hosted.Range) (*values, error) {
	v := &values{}
	var raw [][]hosted.Number
	var points []hosted.Point
	err := dec.Object(func(key string) error {
		switch key {
		case "data":
			v.series = map[string]hosted.Series{}
			return dec.Object(func(id string) error {
				raw = raw[:0]
				if err := dec.Decode(&raw); err != nil {
					return err
				}
				var err error
				if points, err = appendPoints(points[:0], raw); err != nil {
					return err
				}
				v.series[id] = rng.Summarize(points)
				return nil
			})
		case "errors":
			return dec.Array(func() error {
				if len(v.errors) == maxErrors {
					return dec.Skip()
				}
				var text json.RawMessage
				err := dec.Decode(&text)
				v.errors = append(v.errors, string(text))
				return err
			})
		}
		return dec.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case v.series == nil && len(v.errors) == 0:
		return nil, errors.New("not a response of the SignalFx API: it has no data")
	}
	return v, nil
}

func appendPoints(points []hosted.Point, raw [][]hosted.Number) ([]hosted.Point, error) {
	for _, pair := range raw {
		if len(pair) != 2 {
			return nil, fmt.Errorf("a point has %d numbers, where a time and a value are needed", len(pair))
		}
		at, err := pair[0].Time()
		if err != nil {
			return nil, err
		}
		points = append(points, hosted.Point{Time: at, Value: float64(pair[1]) / 100})
	}
	return points, nil
}

// metadata is what is known of a series or a metric.
type metadata struct {
	ID         hosted.Text `json:"id"`
	Name       hosted.Text `json:"name"`
	Dimensions struct {
		Host hosted.Text `json:"host"`
	} `json:"dimensions"`
}

// page is a response with metadata.
type page struct {
	results []metadata
	// count is the number of all results, of which a page has a part.
	count int
}

// decodePage reads {"count": <n>, "results": [{"id": "<id>", "dimensions": {"host": "<host>", …}}, …]}.
func decodePage(dec *jsonstream.Decoder) (*page, error) {
	p, hasResults := &page{}, false
	err := dec.Object(func(key string) error {
		switch key {
		case "count":
			return dec.Decode(&p.count)
		case "results":
			hasResults = true
			return dec.Array(func() error {
				var m metadata
				err := dec.Decode(&m)
				p.results = append(p.results, m)
				return err
			})
		}
		return dec.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !hasResults:
		return nil, errors.New("not a response of the SignalFx API: it has no results")
	}
	return p, nil
}
