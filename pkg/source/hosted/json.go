package hosted

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
)

// Decode reads a value as dec.Decode does, but skips parts of a wrong type. complete reports whether it skipped none.
func Decode(dec *jsonstream.Decoder, into any) (complete bool, err error) {
	err = dec.Decode(into)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return false, nil
	}
	return err == nil, err
}

// Number is a number in a response; any other value is NaN.
type Number float64

// UnmarshalJSON accepts any value.
func (n *Number) UnmarshalJSON(b []byte) error {
	value, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		value = math.NaN()
	}
	*n = Number(value)
	return nil
}

// maxUnixMillis keeps a time computable; it is in the year 5138.
const maxUnixMillis = 1e14

// Time returns the time of a number of milliseconds since 1970.
func (n Number) Time() (time.Time, error) {
	if !(n > 0 && n < maxUnixMillis) {
		return time.Time{}, fmt.Errorf("%v is no time: milliseconds since 1970 are needed", float64(n))
	}
	return time.UnixMilli(int64(n)), nil
}

// Text is a string in a response; any other value is an empty one.
type Text string

// UnmarshalJSON accepts any value.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = ""
	}
	*t = Text(s)
	return nil
}
