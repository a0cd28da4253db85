package signalfx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

const maxErrors = 5

type values struct {
	// series are by ID.
	series map[string]hosted.Series
	errors []string
}

// decodeValues reads {"data": {"<id>": [[<ms>, <percent>], …], …}, "errors": […]}, and summarizes each series over the
// windows of rng, as fractions. A value that is not a number is a gap.
func decodeValues(dec *jsonstream.Decoder, rng hosted.Range, now time.Time) (*values, error) {
	v := &values{}
	var raw [][]hosted.Number
	var points []hosted.Point
	err := dec.Object(func(key string) error {
		switch key {
		case "data":
			v.series = map[string]hosted.Series{}
			return dec.Object(func(id string) error {
				raw = raw[:0]
				err := dec.Decode(&raw)
				if err == nil {
					points, err = appendPoints(points[:0], raw)
				}
				v.series[id] = rng.Summarize(points, now)
				return err
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
		return nil, errors.New("not a response of the SignalFx API: no \"data\" field")
	}
	return v, nil
}

func appendPoints(points []hosted.Point, raw [][]hosted.Number) ([]hosted.Point, error) {
	for _, pair := range raw {
		if len(pair) != 2 {
			return nil, fmt.Errorf("a point has %d numbers: a pair of a time and a value is needed", len(pair))
		}
		at, err := pair[0].Time()
		if err != nil {
			return nil, err
		}
		points = append(points, hosted.Point{Time: at, Value: float64(pair[1]) / 100})
	}
	return points, nil
}

type metadata struct {
	ID         string `json:"id"`
	Dimensions struct {
		Host string `json:"host"`
	} `json:"dimensions"`
}

type page struct {
	results []metadata
	// count is the number of results on all pages; NaN if unknown.
	count hosted.Number
}

// decodePage reads {"count": <n>, "results": [{"id": "<id>", "dimensions": {"host": "<host>", …}}, …]}.
func decodePage(dec *jsonstream.Decoder) (*page, error) {
	p, hasResults := &page{count: hosted.Number(math.NaN())}, false
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
		return nil, errors.New("not a response of the SignalFx API: no \"results\" field")
	}
	return p, nil
}
