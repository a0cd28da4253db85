package prometheus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
)

// series is one element of an instant vector, with all of its labels.
type series = seriesWith[map[string]string]

// seriesWith is one element of an instant vector, with labels as a map or as a struct with those that matter.
type seriesWith[Labels any] struct {
	Metric    Labels          `json:"metric"`
	Value     point           `json:"value"`
	Histogram json.RawMessage `json:"histogram"`
}

// point is a value and the moment it was evaluated at, in JSON [1435781451.781, "0.5"].
type point struct {
	at    time.Time
	value float64
}

// maxUnixSeconds keeps a time within what UnixMilli and JSON can hold; it is in the year 5138.
const maxUnixSeconds = 1e11

// UnmarshalJSON accepts exactly a number and a string that holds a float. It is written by hand because a general array of raw
// values costs four allocations a series.
func (p *point) UnmarshalJSON(b []byte) error {
	number, quoted, ok := bytes.Cut(bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("[")), []byte("]")), []byte(","))
	quoted = bytes.TrimSpace(quoted)
	if !ok || len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return fmt.Errorf("%.64q is not a sample value", b)
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(number)), 64)
	at, ok := timeOf(seconds)
	if err != nil || !ok {
		return fmt.Errorf("%.64q has no time", b)
	}
	value, err := strconv.ParseFloat(string(quoted[1:len(quoted)-1]), 64)
	if err != nil {
		return fmt.Errorf("%.64q has no value", b)
	}
	p.at, p.value = at, value
	return nil
}

// timeOf returns the time of a number of seconds since 1970, to the millisecond, and whether it is one that can be.
func timeOf(seconds float64) (time.Time, bool) {
	if !(seconds > 0 && seconds < maxUnixSeconds) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))), true
}

// queryError is a query that Prometheus refused or could not evaluate, in its own words.
type queryError struct {
	kind, message string
}

func (e *queryError) Error() string {
	return fmt.Sprintf("query refused (%s): %s", e.kind, e.message)
}

// response is a response without its series.
type response struct {
	status   string
	err      queryError
	warnings []string
	// hasResult tells an empty vector from none.
	hasResult bool
}

const (
	// maxWarnings is how many warnings of a response are kept.
	maxWarnings = 5
	// maxLabels is how many labels a series has at most where their map is used again: to clear a map takes as long as to
	// clear the largest that it has been.
	maxLabels = 64
)

// decodeSeries decodes one element of an instant vector.
type decodeSeries func(*jsonstream.Decoder) error

// decodeResponse reads the response to an instant query and calls decode for each of its series. After an error the series
// decoded so far must not be used. Anything but a vector of floats is an error, and so are more than about maxSeries. It takes
// memory for one series at a time.
func decodeResponse(from io.Reader, maxSeries int64, decode decodeSeries) (warnings []string, err error) {
	dec := jsonstream.NewDecoder(from, maxSeries)
	var r response
	err = r.decode(dec, decode)
	if err == nil {
		err = dec.End()
	}
	if err != nil {
		return nil, fmt.Errorf("not a response of the Prometheus API: %w", err)
	}
	switch {
	case r.status == "error":
		return nil, &r.err
	case r.status != "success":
		return nil, fmt.Errorf("not a response of the Prometheus API: its status is %q", r.status)
	case !r.hasResult:
		return nil, errors.New("not a response of the Prometheus API: it has no result")
	}
	return r.warnings, nil
}

func (r *response) decode(dec *jsonstream.Decoder, decode decodeSeries) error {
	return dec.Object(func(key string) error {
		switch key {
		case "status":
			return dec.Decode(&r.status)
		case "errorType":
			return dec.Decode(&r.err.kind)
		case "error":
			return dec.Decode(&r.err.message)
		case "warnings", "infos":
			return dec.Array(func() error {
				if len(r.warnings) == maxWarnings {
					return dec.Skip()
				}
				var text string
				err := dec.Decode(&text)
				r.warnings = append(r.warnings, text)
				return err
			})
		case "data":
			return r.decodeData(dec, decode)
		default:
			return dec.Skip()
		}
	})
}

func (r *response) decodeData(dec *jsonstream.Decoder, decode decodeSeries) error {
	var kind string
	err := dec.Object(func(key string) error {
		switch key {
		case "resultType":
			if err := dec.Decode(&kind); err != nil {
				return err
			}
			if kind != "vector" {
				return fmt.Errorf("the result is a %q, where an instant vector is needed", kind)
			}
			return nil
		case "result":
			// Servers write the type before the result. Where one does not, the result is taken for what it should be.
			r.hasResult = true
			if err := dec.Array(func() error { return decode(dec) }); err != nil {
				return fmt.Errorf("an instant vector is needed: %w", err)
			}
			return nil
		default:
			return dec.Skip()
		}
	})
	if err == nil && r.hasResult && kind == "" {
		return errors.New("the result has no type")
	}
	return err
}

// eachSeries passes each series to visit; a series is valid only during the call. Before a series is decoded, clear makes the
// labels of the last one empty.
func eachSeries[Labels any](clear func(*Labels), visit func(*seriesWith[Labels])) decodeSeries {
	var s seriesWith[Labels]
	return func(dec *jsonstream.Decoder) error {
		clear(&s.Metric)
		s.Value, s.Histogram = point{}, nil
		if err := dec.Decode(&s); err != nil {
			return err
		}
		if s.Histogram != nil && string(s.Histogram) != "null" {
			return errors.New("the result holds native histograms, where floats are needed")
		}
		if s.Value.at.IsZero() {
			return errors.New("the result holds a series without a value")
		}
		visit(&s)
		return nil
	}
}

// clearMap is for eachSeries with all labels.
func clearMap(labels *map[string]string) {
	if len(*labels) > maxLabels {
		*labels = nil
	}
	clear(*labels)
}
