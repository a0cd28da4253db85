// Package quantity reads quantities of Kubernetes in bounded time.
// resource.ParseQuantity accepts any exponent of 32 bits, and takes minutes and gigabytes for 1e-99999999.
package quantity

import (
	"bytes"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxLength is the number of characters of the longest quantity.
const MaxLength = 64

// maxExponentDigits is the number of digits of the longest exponent.
const maxExponentDigits = 3

// Bounded is a quantity that takes little time to read, also in the canonical form in which it is written.
type Bounded resource.Quantity

// UnmarshalJSON fails if the quantity, or its canonical form, is too long or has too long an exponent.
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

// check fails if a JSON value is too long or has too long an exponent. Any other value takes little time, even one that is no
// quantity.
func check(text, original []byte) error {
	text = bytes.TrimSpace(bytes.Trim(text, `"`))
	exponent := []byte{}
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		exponent = bytes.TrimLeft(text[e+1:], "+-")
	}
	if len(text) > MaxLength || len(exponent) > maxExponentDigits {
		return fmt.Errorf("%.64q is no quantity: it must have at most %d characters, and an exponent of at most %d digits",
			bytes.Trim(original, `"`), MaxLength, maxExponentDigits)
	}
	return nil
}

// Int returns the nearest int64 to an amount; 0 for NaN.
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
