package quantity

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		text string
		want float64
		err  string
	}{
		{`"1500m"`, 1.5, ""},
		{`2`, 2, ""},
		{`"1.5e3"`, 1500, ""},
		{`"2E"`, 2e18, ""},
		{`"1Ei"`, 1 << 60, ""},
		{`"1e-999"`, 1e-9, ""}, // rounded up to the smallest quantity
		{`" 1e-999 "`, 1e-9, ""},
		{`"1e9999"`, 0, "an exponent of at most 3 digits"},
		{`"1e-1000"`, 0, "an exponent of at most 3 digits"},
		{`"1000e999"`, 0, `"1000e999" is no quantity`}, // is written as 1e1002
		{`"` + strings.Repeat("7", 64) + `"`, 7.777777777777778e63, ""},
		{`"` + strings.Repeat("7", 65) + `"`, 0, "at most 64 characters"},
		{`"` + strings.Repeat("7", 61) + `e98"`, 0, "is no quantity"}, // is written as 61 digits, 2 zeros and e96
		{`"1e-99999999"`, 0, `"1e-99999999" is no quantity`},
		{`"1e999999999"`, 0, "an exponent of at most 3 digits"},
		{`"9223372E368547758070"`, 0, "an exponent of at most 3 digits"},
		{`1e-99999999`, 0, "an exponent of at most 3 digits"},
		{`"` + strings.Repeat("9", 60_000) + `"`, 0, "at most 64 characters"},
		{`"x"`, 0, "quantities must match"},
	} {
		var q Bounded
		err := json.Unmarshal([]byte(tt.text), &q)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || len(err.Error()) > 300 {
				t.Errorf("%.70s: error %.300v, want a short one with %s", tt.text, err, tt.err)
			}
			continue
		}
		got := resource.Quantity(q)
		if err != nil || got.AsApproximateFloat64() != tt.want {
			t.Errorf("%s: %s, %v, want %g", tt.text, &got, err, tt.want)
		}
		written, err := json.Marshal(&got)
		if err == nil {
			err = json.Unmarshal(written, new(Bounded))
		}
		if err != nil {
			t.Errorf("%s: written and read again: %v", tt.text, err)
		}
	}
}

func TestInt(t *testing.T) {
	for amount, want := range map[float64]int64{
		0: 0, 1.5: 2, -1.5: -2, 1 << 53: 1 << 53, 1 << 63: math.MaxInt64, 1e300: math.MaxInt64, -1e300: math.MinInt64,
		math.Inf(1): math.MaxInt64,
	} {
		if got := Int(amount); got != want {
			t.Errorf("%g is %d, want %d", amount, got, want)
		}
	}
	if got := Int(math.NaN()); got != 0 {
		t.Errorf("NaN is %d, want 0", got)
	}
}
