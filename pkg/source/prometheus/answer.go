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

// UnmarshalJSON takes exactly a number and a string that holds a float. It is by hand because a general array of raw
// values costs four allocations for each of the series.
func (p *point) UnmarshalJSON(b []byte) error {
	number, quoted, ok := bytes.Cut(bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("[")), []byte("]")), []byte(","))
	quoted = bytes.TrimSpace(quoted)
	if !ok || len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return fmt.Errorf("%.64q is not a sample value", b)
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(number)), 64)
	if err != nil || !(seconds > 0 && seconds < maxUnixSeconds) {
		return fmt.Errorf("%.64q has no time", b)
	}
	value, err := strconv.ParseFloat(string(quoted[1:len(quoted)-1]), 64)
	if err != nil {
		return fmt.Errorf("%.64q has no value", b)
	}
	p.at, p.value = time.UnixMilli(int64(math.Round(seconds*1000))), value
	return nil
}

// queryError is what Prometheus says about a query that it understood but did not answer.
type queryError struct {
	kind, message string
}

func (e *queryError) Error() string {
	return fmt.Sprintf("query refused (%s): %s", e.kind, e.message)
}

// answer is what stands beside the series in an answer.
type answer struct {
	status   string
	err      queryError
	warnings []string
	// answered tells an empty vector from none.
	answered bool
}

// decodeAnswer reads the answer to an instant query and hands over its series one by one; a series is valid only during
// the call. An error means that the series seen so far are not to be used. Anything but a vector of floats is an error.
func decodeAnswer(r io.Reader, visit func(*series)) (warnings []string, err error) {
	dec := json.NewDecoder(r)
	var a answer
	if err := a.decode(dec, visit); err != nil {
		return nil, fmt.Errorf("not an answer of the Prometheus API: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not an answer of the Prometheus API: more follows its end")
	}
	switch {
	case a.status == "error":
		return nil, &a.err
	case a.status != "success":
		return nil, fmt.Errorf("not an answer of the Prometheus API: its status is %q", a.status)
	case !a.answered:
		return nil, errors.New("not an answer of the Prometheus API: it has no result")
	}
	return a.warnings, nil
}

func (a *answer) decode(dec *json.Decoder, visit func(*series)) error {
	return decodeObject(dec, func(key string) error {
		switch key {
		case "status":
			return dec.Decode(&a.status)
		case "errorType":
			return dec.Decode(&a.err.kind)
		case "error":
			return dec.Decode(&a.err.message)
		case "warnings", "infos":
			var texts []string
			if err := dec.Decode(&texts); err != nil {
				return err
			}
			a.warnings = append(a.warnings, texts...)
			return nil
		case "data":
			return a.decodeData(dec, visit)
		default:
			return skip(dec)
		}
	})
}

func (a *answer) decodeData(dec *json.Decoder, visit func(*series)) error {
	// Servers write the type before the result. One that does not is read in a second pass.
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
			a.answered = true
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
	a.answered = true
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

// decodeObject calls member for each key of an object, which has to consume the value. A null is an empty object.
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
