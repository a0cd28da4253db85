package load

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

var (
	now   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	trust = Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
)

func TestDrift(t *testing.T) {
	for _, tc := range []struct {
		name  string
		means []float64 // one a minute
		want  float64
	}{
		{"nothing known does not drift", nil, 0},
		{"one mean does not drift", []float64{0.5}, 0},
		{"a steady node does not drift", []float64{0.5, 0.5, 0.5}, 0},
		{"one step is the drift", []float64{0.5, 0.6}, 0.1},
		{"down counts like up", []float64{0.6, 0.5}, 0.1},
		// 0.5·0.3 + 0.5·0.1
		{"the latest step has half of the weight", []float64{0.5, 0.6, 0.9}, 0.2},
		// ((0.4 → 0.2) → 0.1): 0.4; 0.5·0 + 0.5·0.4; 0.5·0 + 0.5·0.2
		{"a node that calms down is trusted again", []float64{0.1, 0.5, 0.5, 0.5}, 0.1},
		// Of six means the first is no longer kept, and the step from it neither: all others are 0.
		{"five means are kept", []float64{1, 0.5, 0.5, 0.5, 0.5, 0.5}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var trail Trail
			for i, mean := range tc.means {
				trail.Add(now.Add(time.Duration(i)*time.Minute), mean)
			}
			check.Equal(t, "drift a minute", tc.want, trail.Drift(), cmpopts.EquateApprox(0, 1e-9))
		})
	}
}

func TestDriftIsPerMinute(t *testing.T) {
	var trail Trail
	trail.Add(now, 0.5)
	trail.Add(now.Add(30*time.Second), 0.6)
	// 0.1 in half a minute
	check.Equal(t, "drift a minute", 0.2, trail.Drift(), cmpopts.EquateApprox(0, 1e-9))
	trail.Add(now.Add(30*time.Second), 0.9) // the same window, read again
	check.Equal(t, "drift after the same window was read again a minute", 0.2, trail.Drift(), cmpopts.EquateApprox(0, 1e-9))
}

func TestExpiry(t *testing.T) {
	for _, tc := range []struct {
		name  string
		drift float64
		lag   time.Duration
		want  time.Duration
	}{
		{"a steady node is trusted for maxAge", 0, 0, 5 * time.Minute},
		// 10 points at 2 a minute
		{"one that moves 2 points a minute as well", 0.02, 0, 5 * time.Minute},
		// 10 points at 4 a minute
		{"one that moves 4 points a minute for two and a half", 0.04, 0, 150 * time.Second},
		// 10 points at 10 a minute, which is two refreshes as well
		{"one that moves 10 points a minute for a minute", 0.10, 0, time.Minute},
		{"the wildest for two refreshes", 5, 0, time.Minute},
		// 30 s until it was read, and two refreshes of 30 s
		{"the wildest for two refreshes from when it was read", 5, 30 * time.Second, 90 * time.Second},
		{"no node beyond maxAge, whenever it was read", 5, time.Hour, 5 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := trust.Expiry(tc.drift, tc.lag); (got - tc.want).Abs() > time.Millisecond {
				t.Errorf("Expiry(%v) = %v, want %v", tc.drift, got, tc.want)
			}
		})
	}
}

func TestExpiryIsNeverBeyondMaxAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Trust{
			RefreshInterval: time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "refreshInterval")),
			DriftTolerance:  rapid.Float64Range(1e-6, 1e6).Draw(t, "driftTolerance"),
		}
		s.MaxAge = s.RefreshInterval + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "beyond"))
		drift := rapid.Float64Range(0, 1e9).Draw(t, "drift")
		lag := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lag"))
		got := s.Expiry(drift, lag)
		if got > s.MaxAge || got < min(lag+2*s.RefreshInterval, s.MaxAge) {
			t.Fatalf("%+v.Expiry(%v, %v) = %v", s, drift, lag, got)
		}
		if wilder := s.Expiry(2*drift, lag); wilder > got {
			t.Fatalf("a node that drifts faster is trusted for longer: %v after %v", wilder, got)
		}
	})
}

func TestMeasurement_State(t *testing.T) {
	measured := Measurement{Stat: Stat{Known: true}, End: now}
	for _, tc := range []struct {
		name string
		m    Measurement
		age  time.Duration
		want State
	}{
		{"is Absent without a value", Measurement{End: now}, 0, Absent},
		{"is Fresh up to the expiry", measured, 5 * time.Minute, Fresh},
		{"is Expired beyond it", measured, 5*time.Minute + 1, Expired},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "State", tc.want, tc.m.State(now.Add(tc.age), trust))
		})
	}
}

func TestRequirements_Add(t *testing.T) {
	minuteMax, hourP95, hourMax := Quantile{time.Minute, 1}, Quantile{time.Hour, 0.95}, Quantile{time.Hour, 1}
	a := Requirements{Windows: []time.Duration{15 * time.Minute, time.Minute}, Quantiles: []Quantile{hourMax, hourP95}, Metrics: []string{"x", "w"}, RefreshInterval: time.Minute}
	b := Requirements{
		Windows: []time.Duration{5 * time.Minute, time.Minute}, Quantiles: []Quantile{hourP95, minuteMax},
		Metrics: []string{"w", "v"}, RefreshInterval: 10 * time.Second,
	}
	want := Requirements{
		Quantiles: []Quantile{minuteMax, hourP95, hourMax}, Windows: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute},
		Metrics: []string{"x", "w", "v"}, RefreshInterval: 10 * time.Second,
	}
	check.Equal(t, "sum", want, Requirements{}.Add(a).Add(b))
}

func TestTrust_Loosest(t *testing.T) {
	a := Trust{RefreshInterval: 10 * time.Second, MaxAge: time.Minute, DriftTolerance: 20}
	b := Trust{RefreshInterval: time.Minute, MaxAge: 10 * time.Minute, DriftTolerance: 5}
	want := Trust{RefreshInterval: time.Minute, MaxAge: 10 * time.Minute, DriftTolerance: 20}
	check.Equal(t, "Loosest", want, (Trust{}).Loosest(a).Loosest(b))
}

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
