package hosted

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Number is a number in a response; NaN stands for null.
type Number float64

// UnmarshalJSON accepts a number and null.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	value, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("%.64q is not a number", b)
	}
	*n = Number(value)
	return nil
}

// maxUnixMillis keeps a time within what can be computed with; it is in the year 5138.
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
