package load

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestStat_Checked(t *testing.T) {
	for _, tc := range []struct {
		name   string
		given  Stat
		want   Stat
		reason Rejection
	}{
		{"a possible value stays", Stat{Mean: 0.25, StdDev: 0.1, Known: true}, Stat{Mean: 0.25, StdDev: 0.1, Known: true}, Accepted},
		{"an idle node is a value", Stat{Known: true}, Stat{Known: true}, Accepted},
		{"a full node is a value", Stat{Mean: 1, Known: true}, Stat{Mean: 1, Known: true}, Accepted},
		{"NaN is no mean", Stat{Mean: math.NaN(), Known: true}, Stat{}, RejectedNotANumber},
		{"infinity is no mean", Stat{Mean: math.Inf(1), Known: true}, Stat{}, RejectedNotANumber},
		{"negative infinity is no mean", Stat{Mean: math.Inf(-1), Known: true}, Stat{}, RejectedNotANumber},
		{"a mean cannot be negative", Stat{Mean: -0.01, Known: true}, Stat{}, RejectedNegative},
		{"a mean above capacity reads as full", Stat{Mean: 1.7, StdDev: 0.2, Known: true}, Stat{Mean: 1, StdDev: 0.2, Known: true}, ClampedAboveCapacity},
		{"a deviation that was not measured stays unknown", Stat{Mean: 0.5, StdDev: math.NaN(), Known: true}, Stat{Mean: 0.5, StdDev: math.NaN(), Known: true}, Accepted},
		{"a deviation cannot be infinite", Stat{Mean: 0.5, StdDev: math.Inf(1), Known: true}, Stat{Mean: 0.5, StdDev: math.NaN(), Known: true}, RejectedNotANumber},
		{"a deviation cannot be negative", Stat{Mean: 0.5, StdDev: -1, Known: true}, Stat{Mean: 0.5, StdDev: math.NaN(), Known: true}, RejectedNegative},
		{"a deviation without a mean is not a value", Stat{StdDev: 0.3}, Stat{}, Accepted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, reason := tc.given.Checked()
			if !cmp.Equal(got, tc.want, cmpopts.EquateNaNs()) || reason != tc.reason {
				t.Errorf("Checked() = %+v, %q; want %+v, %q", got, reason, tc.want, tc.reason)
			}
		})
	}
}

// A resource is its name in JSON, and no other name is read.
func TestResource_Text(t *testing.T) {
	for want, r := range map[string]Resource{"cpu": CPU, "memory": Memory} {
		name, err := r.MarshalText()
		var read Resource
		if err != nil || string(name) != want || read.UnmarshalText(name) != nil || read != r {
			t.Errorf("%v is written as %q and read as %v, error %v", r, name, read, err)
		}
	}
	var r Resource
	if err := r.UnmarshalText([]byte("disk")); err == nil || err.Error() != `resource is "disk", must be cpu or memory` {
		t.Errorf("error %v", err)
	}
}
