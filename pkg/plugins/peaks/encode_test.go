package peaks

import (
	"math"
	"testing"
)

func TestEncode(t *testing.T) {
	before := int64(-1)
	for _, cost := range []float64{
		-math.MaxFloat64, -1e15, -1.5, -1e-9, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1e-9, 1.5, 1e15,
		math.MaxFloat64, math.Inf(1),
	} {
		code := encode(cost)
		if code < 0 || code < before {
			t.Errorf("%v is encoded as %d, want at least 0 and the %d of the cost before it", cost, code, before)
		}
		// The last of 53 bits is lost. The difference is below 2⁻⁵² of the cost, or the smallest number.
		if got := decode(code); got != cost && math.Abs(got-cost) > max(math.Abs(cost)/(1<<52), math.SmallestNonzeroFloat64) {
			t.Errorf("%v is decoded as %v", cost, got)
		}
		before = code
	}
	if got := decode(encode(math.Copysign(0, -1))); got != 0 {
		t.Errorf("-0 is decoded as %v", got)
	}
}
