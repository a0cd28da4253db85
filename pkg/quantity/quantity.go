// Package quantity reads quantities of Kubernetes in bounded time. resource.ParseQuantity computes 10 to the power of any exponent of 32
// bits, for which one of ten characters, such as 1e-99999999, takes minutes and gigabytes.
package quantity

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounded is a quantity that takes no time to read.
type Bounded resource.Quantity

// UnmarshalJSON reads the quantity. What Check refuses is an error.
func (q *Bounded) UnmarshalJSON(text []byte) error {
	if err := Check(text); err != nil {
		return err
	}
	return (*resource.Quantity)(q).UnmarshalJSON(text)
}

// Check returns an error for a JSON value that is too long for a quantity, or has too large an exponent. All others can be read in no time,
// whether they are quantities or not.
func Check(text []byte) error {
	const longest, longestExponent = 64, len(`e-999"`)
	if e := bytes.IndexAny(text, "eE"); len(text) > longest || e >= 0 && len(text)-e > longestExponent {
		return fmt.Errorf("%.64q is no quantity: it must have at most %d characters, and an exponent of at most three digits", text, longest)
	}
	return nil
}
