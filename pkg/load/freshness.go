package load

import (
	"math"
	"time"
)

// driftWeight is the weight of each step against all earlier ones in the exponentially weighted mean of a node's drift.
const driftWeight = 0.5

// Trail keeps the last five means of one resource of one node over one window, from which its drift follows. The zero
// value is empty.
type Trail struct {
	points [5]trailPoint
	n      int
}

// trailPoint is a mean and the end of its window, in nanoseconds since 1970: there are many of them.
type trailPoint struct {
	end  int64
	mean float64
}

// Add takes in the mean of a window that ends at end. One that does not end later than the last is not taken.
func (t *Trail) Add(end time.Time, mean float64) {
	at := end.UnixNano()
	if t.n > 0 && at <= t.points[t.n-1].end {
		return
	}
	if t.n == len(t.points) {
		copy(t.points[:], t.points[1:])
		t.n--
	}
	t.points[t.n] = trailPoint{end: at, mean: mean}
	t.n++
}

// Drift is the exponentially weighted mean of |ΔU| per minute over the kept means, in fractions of capacity per minute. It
// is 0 while fewer than two are kept.
func (t *Trail) Drift() float64 {
	drift := 0.0
	for i := 1; i < t.n; i++ {
		previous, next := t.points[i-1], t.points[i]
		pace := math.Abs(next.mean-previous.mean) / time.Duration(next.end-previous.end).Minutes()
		if i == 1 {
			drift = pace
		} else {
			drift = driftWeight*pace + (1-driftWeight)*drift
		}
	}
	return drift
}

// Expiry is the age up to which a reading is trusted whose node drifts by drift (fractions of capacity per minute): the
// time in which it moves by tolerance percentage points, but at least two refresh intervals, for one refresh may fail, and
// at most maxAge.
func Expiry(drift float64, s Settings) time.Duration {
	shortest := min(2*s.RefreshInterval, s.MaxAge)
	if drift <= 0 {
		return s.MaxAge
	}
	minutes := s.DriftTolerance / (100 * drift)
	if minutes >= s.MaxAge.Minutes() {
		return s.MaxAge
	}
	return max(time.Duration(minutes*float64(time.Minute)), shortest)
}

// Settings say what load somebody wants to read, and how long it is trusted.
type Settings struct {
	// Window is the span that means and deviations are taken over; 0 asks for no load.
	Window time.Duration
	// Metrics are PromQL expressions with one value per node.
	Metrics []string
	// RefreshInterval is the longest time between two readings of the source.
	RefreshInterval time.Duration
	// MaxAge is the age beyond which no reading is trusted.
	MaxAge time.Duration
	// DriftTolerance is by how many percentage points a node's load may have moved since, at its usual pace.
	DriftTolerance float64
}
