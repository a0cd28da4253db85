package signalfx

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
)

const maxErrors = 5

type values struct {
	// series are by ID.
	series map[string]hosted.Series
	errors []string
	// unreadable has the IDs of series that were skipped because their points could not be decoded.
	unreadable []string
}

// decodeValues reads {"data": {"<id>": [[<ms>, <percent>], …], …}, "errors": […]}, and summarizes each series over the windows of
// rng, as fractions. A value that is not a number is a gap.
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
				complete, err := hosted.Decode(dec, &raw)
				if err != nil {
					return err
				}
				var ok bool
				if points, ok = appendPoints(points[:0], raw); !ok || !complete {
					v.unreadable = append(v.unreadable, id)
					return nil
				}
				v.series[id] = rng.Summarize(points, now)
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
		return nil, errors.New("not a response of the SignalFx API: no \"data\" field")
	}
	return v, nil
}

// appendPoints appends points from pairs of a time and a value. It returns false if an element is not a pair with a time.
func appendPoints(points []hosted.Point, raw [][]hosted.Number) ([]hosted.Point, bool) {
	for _, pair := range raw {
		if len(pair) != 2 {
			return points, false
		}
		at, err := pair[0].Time()
		if err != nil {
			return points, false
		}
		points = append(points, hosted.Point{Time: at, Value: float64(pair[1]) / 100})
	}
	return points, true
}

type metadata struct {
	ID         hosted.Text `json:"id"`
	Name       hosted.Text `json:"name"`
	Dimensions struct {
		Host hosted.Text `json:"host"`
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
				_, err := hosted.Decode(dec, &m) // a host that is not a string stays empty
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
