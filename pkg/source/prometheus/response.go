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
)

// series is one element of an instant vector.
type series struct {
	Metric    map[string]string `json:"metric"`
	Value     point             `json:"value"`
	Histogram json.RawMessage   `json:"histogram"`
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

// decodeResponse reads the response to an instant query and passes its series to visit one by one; a series is valid only
// during the call. After an error the series passed so far must not be used. Anything but a vector of floats is an error.
func decodeResponse(from io.Reader, visit func(*series)) (warnings []string, err error) {
	dec := json.NewDecoder(from)
	var r response
	if err := r.decode(dec, visit); err != nil {
		return nil, fmt.Errorf("not a response of the Prometheus API: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a response of the Prometheus API: more follows its end")
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

func (r *response) decode(dec *json.Decoder, visit func(*series)) error {
	return decodeObject(dec, func(key string) error {
		switch key {
		case "status":
			return dec.Decode(&r.status)
		case "errorType":
			return dec.Decode(&r.err.kind)
		case "error":
			return dec.Decode(&r.err.message)
		case "warnings", "infos":
			var texts []string
			if err := dec.Decode(&texts); err != nil {
				return err
			}
			r.warnings = append(r.warnings, texts...)
			return nil
		case "data":
			return r.decodeData(dec, visit)
		default:
			return skip(dec)
		}
	})
}

func (r *response) decodeData(dec *json.Decoder, visit func(*series)) error {
	// Servers write the type before the result. Where one does not, the result is read in a second pass.
	var kind string
	var early json.RawMessage
	err := decodeObject(dec, func(key string) error {
		switch {
		case key == "resultType":
			if err := dec.Decode(&kind); err != nil {
				return err
			}
			if kind != "vector" {
				return fmt.Errorf("the result is a %q, where an instant vector is needed", kind)
			}
			return nil
		case key == "result" && kind == "":
			return dec.Decode(&early)
		case key == "result":
			r.hasResult = true
			return decodeVector(dec, visit)
		default:
			return skip(dec)
		}
	})
	if err != nil || early == nil {
		return err
	}
	if kind == "" {
		return errors.New("the result has no type")
	}
	r.hasResult = true
	return decodeVector(json.NewDecoder(bytes.NewReader(early)), visit)
}

func decodeVector(dec *json.Decoder, visit func(*series)) error {
	if err := expect(dec, '['); err != nil {
		return err
	}
	var s series
	for dec.More() {
		clear(s.Metric)
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
	}
	return expect(dec, ']')
}

// decodeObject calls member for each key of an object; member must consume the value. A null is an empty object.
func decodeObject(dec *json.Decoder, member func(key string) error) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token == nil {
		return nil
	}
	if token != json.Delim('{') {
		return fmt.Errorf("%v where an object is needed", token)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return fmt.Errorf("%v where a key is needed", key)
		}
		if err := member(name); err != nil {
			return err
		}
	}
	return expect(dec, '}')
}

func expect(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v where %q is needed", token, want.String())
	}
	return nil
}

func skip(dec *json.Decoder) error {
	var value json.RawMessage
	return dec.Decode(&value)
}
