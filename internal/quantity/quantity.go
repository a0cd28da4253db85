// Package quantity reads quantities of Kubernetes in bounded time.
// resource.ParseQuantity computes 10 to the power of any exponent of 32 bits: 1e-99999999 takes minutes and gigabytes.
package quantity

import (
	"bytes"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxLength is the number of characters of the longest quantity.
const MaxLength = 64

// maxExponent is the number of digits of the longest exponent.
const maxExponent = 3

// Bounded is a quantity that is read quickly, and can be written and read again.
type Bounded resource.Quantity

// UnmarshalJSON reads the quantity. It fails beyond MaxLength or three digits of exponent, also in the canonical form.
func (q *Bounded) UnmarshalJSON(text []byte) error {
	if err := check(text, text); err != nil {
		return err
	}
	if err := (*resource.Quantity)(q).UnmarshalJSON(text); err != nil {
		return err
	}
	canonical, err := (*resource.Quantity)(q).MarshalJSON()
	if err != nil {
		return err
	}
	return check(canonical, text)
}

// check fails if a JSON value is too long or has too large an exponent. The error names the original.
// All other values are read quickly, whether they are quantities or not.
func check(text, original []byte) error {
	text = bytes.TrimSpace(bytes.Trim(text, `"`))
	exponent := []byte{}
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		exponent = bytes.TrimLeft(text[e+1:], "+-")
	}
	if len(text) > MaxLength || len(exponent) > maxExponent {
		return fmt.Errorf("%.64q is no quantity: it must have at most %d characters, and an exponent of at most %d digits",
			bytes.Trim(original, `"`), MaxLength, maxExponent)
	}
	return nil
}

// Int returns the integer nearest to an amount. Beyond the range of int64 it is the nearest bound; of NaN it is 0.
func Int(amount float64) int64 {
	amount = math.Round(amount)
	switch {
	case amount >= math.MaxInt64: // as a float64, it is 2^63
		return math.MaxInt64
	case amount <= math.MinInt64:
		return math.MinInt64
	case math.IsNaN(amount):
		return 0
	}
	return int64(amount)
}
