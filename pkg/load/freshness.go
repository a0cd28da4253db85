package load

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// driftWeight is the weight of each step against all earlier steps in the exponentially weighted mean of a node's drift.
const driftWeight = 0.5

// Trail keeps the last five means of one resource of one node over one window, to compute its drift. The zero value is
// empty.
type Trail struct {
	// points end with the latest. A point that ends in 1970 is empty: this saves a count in many trails.
	points [5]trailPoint
}

// trailPoint is a mean and the end of its window, in nanoseconds since 1970.
type trailPoint struct {
	end  int64
	mean float64
}

// Add stores the mean of a window that ends at end, unless a stored window ends then or later.
func (t *Trail) Add(end time.Time, mean float64) {
	last := len(t.points) - 1
	if at := end.UnixNano(); at > t.points[last].end {
		copy(t.points[:], t.points[1:])
		t.points[last] = trailPoint{end: at, mean: mean}
	}
}

// Drift is the exponentially weighted mean of |ΔU| per minute over the kept means, in fractions of capacity per minute. It
// is 0 while fewer than two are kept.
func (t *Trail) Drift() float64 {
	drift, first := 0.0, true
	for i, next := range t.points[1:] {
		previous := t.points[i]
		if previous.end == 0 {
			continue
		}
		pace := math.Abs(next.mean-previous.mean) / time.Duration(next.end-previous.end).Minutes()
		if first {
			drift, first = pace, false
		} else {
			drift = driftWeight*pace + (1-driftWeight)*drift
		}
	}
	return drift
}

// State says whether the load of a node is known and trusted.
type State uint8

// The states, worst first, and their number.
const (
	// Absent means that nothing was measured.
	Absent State = iota
	// Expired means that the measurement is too old to be trusted.
	Expired
	// Fresh means that the measurement is trusted.
	Fresh
	StateCount
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"Absent", "Expired", "Fresh"}[s]
}

// Trust says how long a measurement is trusted.
type Trust struct {
	// RefreshInterval is the time between two refreshes.
	RefreshInterval time.Duration
	// MaxAge is the age beyond which no measurement is trusted.
	MaxAge time.Duration
	// DriftTolerance is the drift since the measurement, in percentage points, at which load expires.
	DriftTolerance float64
}

// Expiry is the maximum age of a trusted measurement: the time in which load changes by DriftTolerance, at most MaxAge.
// drift is in fractions of capacity per minute, and lag is the age when the measurement was read.
// It is at least lag plus two refresh intervals, because one refresh may fail.
func (t Trust) Expiry(drift float64, lag time.Duration) time.Duration {
	if drift <= 0 {
		return t.MaxAge
	}
	minutes := t.DriftTolerance / (100 * drift)
	if minutes >= t.MaxAge.Minutes() {
		return t.MaxAge
	}
	shortest := min(lag+2*t.RefreshInterval, t.MaxAge)
	return max(time.Duration(minutes*float64(time.Minute)), shortest)
}

// Loosest returns the more permissive of both policies, field by field.
func (t Trust) Loosest(other Trust) Trust {
	if t == (Trust{}) {
		return other
	}
	return Trust{
		RefreshInterval: max(t.RefreshInterval, other.RefreshInterval), MaxAge: max(t.MaxAge, other.MaxAge),
		DriftTolerance: max(t.DriftTolerance, other.DriftTolerance),
	}
}

// Requirements lists what a source must read for a reader of load, and how often.
type Requirements struct {
	// Windows are the windows of means and deviations.
	Windows []time.Duration
	// Quantiles are quantiles of utilization, which a source may not have.
	Quantiles []Quantile
	// Metrics are the PromQL expressions of node metrics.
	Metrics []string
	// RefreshInterval is the longest time between two refreshes.
	RefreshInterval time.Duration
}

// Add returns the union of both, with the shorter interval. Shorter windows are first. Neither argument is changed.
func (r Requirements) Add(other Requirements) Requirements {
	sum := Requirements{RefreshInterval: r.RefreshInterval}
	if sum.RefreshInterval == 0 || other.RefreshInterval < sum.RefreshInterval {
		sum.RefreshInterval = other.RefreshInterval
	}
	sum.Windows = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Windows, other.Windows))))
	sum.Quantiles = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(r.Quantiles, other.Quantiles)), compareQuantiles))
	for _, metric := range slices.Concat(r.Metrics, other.Metrics) {
		if !slices.Contains(sum.Metrics, metric) {
			sum.Metrics = append(sum.Metrics, metric)
		}
	}
	return sum
}

func compareQuantiles(a, b Quantile) int {
	return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.Fraction, b.Fraction))
}
