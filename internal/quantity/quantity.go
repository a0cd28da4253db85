// Package quantity reads quantities of Kubernetes in bounded time. resource.ParseQuantity computes 10 to the power of any exponent of 32
// bits, for which one of ten characters, such as 1e-99999999, takes minutes and gigabytes.
package quantity

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxLength is how many characters a quantity may have.
const MaxLength = 64

// maxExponent is how many digits the exponent of a quantity may have.
const maxExponent = 3

// Bounded is a quantity that takes no time to read, and can be written and read again.
type Bounded resource.Quantity

// UnmarshalJSON reads the quantity. It is an error if the quantity, as given or in the canonical form in which it would be written, is
// longer than MaxLength or has an exponent of more than three digits.
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

// check returns an error that names what was given if a JSON value is too long for a quantity, or has too large an exponent. All others
// can be read in no time, whether they are quantities or not.
func check(text, given []byte) error {
	text = bytes.TrimSpace(bytes.Trim(text, `"`))
	exponent := []byte{}
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		exponent = bytes.TrimLeft(text[e+1:], "+-")
	}
	if len(text) > MaxLength || len(exponent) > maxExponent {
		return fmt.Errorf("%.64q is no quantity: it must have at most %d characters, and an exponent of at most %d digits",
			bytes.Trim(given, `"`), MaxLength, maxExponent)
	}
	return nil
}
