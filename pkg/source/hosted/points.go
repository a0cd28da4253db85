package hosted

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// maxLag is the greatest delay of a series' newest complete point. Services deliver points a minute or two late.
	maxLag = 5 * time.Minute
	// A window below shortWindow has too few points a minute apart. Above longWindow, points five minutes apart suffice.
	shortWindow, longWindow = 2 * time.Minute, time.Hour
	// pointBytes bounds a point in a response: a time of 13 digits and a value of 20.
	pointBytes = 40
)

// Range has the windows that one query reads, because their points have the same interval.
type Range struct {
	// Step is the interval of points.
	Step time.Duration
	// Windows are in ascending order.
	Windows []time.Duration
}

// Ranges returns the ranges of the windows, at most three. Their steps are shortStep for windows below two minutes, five minutes
// for windows above an hour, and one minute between them.
func Ranges(windows []time.Duration, shortStep time.Duration) (ranges []Range) {
	for _, window := range slices.Compact(slices.Sorted(slices.Values(windows))) {
		step := time.Minute
		switch {
		case window < shortWindow:
			step = shortStep
		case window > longWindow:
			step = 5 * time.Minute
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].Step == step {
			ranges[last].Windows = append(ranges[last].Windows, window)
			continue
		}
		ranges = append(ranges, Range{Step: step, Windows: []time.Duration{window}})
	}
	return ranges
}

// From returns the time of the first point that is needed now.
func (r Range) From(now time.Time) time.Time {
	return r.oldest(now).Add(-r.Windows[len(r.Windows)-1])
}

// oldest returns the oldest time that a series' newest point may have. A point is complete a Step after its time.
func (r Range) oldest(now time.Time) time.Time { return now.Add(-maxLag - r.Step) }

// MaxPoints returns the maximum of a series' points from From to now.
func (r Range) MaxPoints() int {
	return int((r.Windows[len(r.Windows)-1]+maxLag)/r.Step) + 3
}

// MaxBytes returns the maximum of bytes in a response with the points of a number of nodes.
func (r Range) MaxBytes(nodes int) int64 {
	return source.MaxResponseBytes(nodes) + pointBytes*int64(r.MaxPoints())*int64(nodes)
}

// Point is a value and the beginning of its Step. The value is NaN in a gap.
type Point struct {
	Time  time.Time
	Value float64
}

// Series is the summary of one series over the windows of a Range. The zero value has no point.
type Series struct {
	newest time.Time
	stats  []load.Stat
	// rejected counts the points that cannot have been measured.
	rejected source.Rejected
}

// Summarize returns the summary of points, in any order, over the range's windows. It drops points in the future, which hosts with
// a wrong clock send, and points that cannot have been measured. It changes the slice, and does not keep it.
func (r Range) Summarize(points []Point, now time.Time) Series {
	s := Series{rejected: source.Rejected{}}
	points = slices.DeleteFunc(points, func(p Point) bool {
		return p.Time.After(now.Add(r.Step)) || !math.IsNaN(p.Value) && !s.rejected.Accept(p.Value)
	})
	for _, p := range points {
		if !math.IsNaN(p.Value) && p.Time.After(s.newest) {
			s.newest = p.Time
		}
	}
	if s.newest.IsZero() {
		return s
	}
	s.stats = make([]load.Stat, len(r.Windows))
	for i, window := range r.Windows {
		s.stats[i] = statOf(points, s.newest, window, r.Step)
	}
	return s
}

// statOf returns the mean and the population's standard deviation in the window that ends with the newest point.
// One point has no deviation. If the series is younger than the window, Span is the duration of its points.
func statOf(points []Point, newest time.Time, window, step time.Duration) load.Stat {
	begin, oldest := newest.Add(-window), newest
	in := func(p Point) bool { return !math.IsNaN(p.Value) && p.Time.After(begin) && !p.Time.After(newest) }
	sum, count := 0.0, 0.0
	for _, p := range points {
		if in(p) {
			sum += p.Value
			count++
			if p.Time.Before(oldest) {
				oldest = p.Time
			}
		}
	}
	stat := load.Stat{Mean: sum / count, StdDev: math.NaN(), Known: true}
	if count > 1 {
		squares := 0.0
		for _, p := range points {
			if in(p) {
				squares += (p.Value - stat.Mean) * (p.Value - stat.Mean)
			}
		}
		stat.StdDev = math.Sqrt(squares / count)
	}
	if span := newest.Sub(oldest) + step; span < window {
		stat.Span = span
	}
	return stat
}

// Number is a number in a response; any other value is NaN.
type Number float64

// UnmarshalJSON accepts any value.
func (n *Number) UnmarshalJSON(b []byte) error {
	value, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		value = math.NaN()
	}
	*n = Number(value)
	return nil
}

// maxUnixMillis keeps a time computable; it is in the year 5138.
const maxUnixMillis = 1e14

// Time returns the time of a number of milliseconds since 1970.
func (n Number) Time() (time.Time, error) {
	if !(n > 0 && n < maxUnixMillis) {
		return time.Time{}, fmt.Errorf("%v is no time: milliseconds since 1970 are needed", float64(n))
	}
	return time.UnixMilli(int64(n)), nil
}
