package hosted

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// maxLag is how late the newest point of a series may be complete: services deliver points a minute or two late, and not five.
	maxLag = 5 * time.Minute
	// shortWindow is the length below which a window has too few points a minute apart, and longWindow the one beyond which it has
	// enough of points five minutes apart.
	shortWindow, longWindow = 2 * time.Minute, time.Hour
	// pointBytes is more than a point takes in a response: a time of 13 digits and a value of 20.
	pointBytes = 40
)

// Range is what one query covers: the windows that points of one distance serve.
type Range struct {
	// Step is the distance of the points.
	Step time.Duration
	// Windows are in ascending order.
	Windows []time.Duration
}

// Ranges returns the ranges that cover the windows, at most three. fine is the Step for windows of less than two minutes; further
// ones are a minute, and five minutes for windows of more than an hour.
func Ranges(windows []time.Duration, fine time.Duration) (ranges []Range) {
	for _, window := range slices.Compact(slices.Sorted(slices.Values(windows))) {
		step := time.Minute
		switch {
		case window < shortWindow:
			step = fine
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

// From returns the time from which on points are needed at the moment now.
func (r Range) From(now time.Time) time.Time {
	return r.oldest(now).Add(-r.Windows[len(r.Windows)-1])
}

// oldest returns the time of the oldest point that is taken for load at the moment now. A point is complete a Step after its time.
func (r Range) oldest(now time.Time) time.Time { return now.Add(-maxLag - r.Step) }

// MaxPoints is the most points that a series has from From to now.
func (r Range) MaxPoints() int {
	return int((r.Windows[len(r.Windows)-1]+maxLag)/r.Step) + 3
}

// MaxBytes returns how many bytes are accepted of one response with the points of so many nodes.
func (r Range) MaxBytes(nodes int) int64 {
	return source.MaxResponseBytes(nodes) + pointBytes*int64(r.MaxPoints())*int64(nodes)
}

// Point is a value and the beginning of the Step that it stands for. The value is NaN in a gap.
type Point struct {
	Time  time.Time
	Value float64
}

// Series is what the points of one series say of the windows of a Range. The zero value has no point.
type Series struct {
	// newest is the time of the newest point with a value; zero without any.
	newest time.Time
	// stats are by window, in the order of the Range.
	stats []load.Stat
}

// Summarize returns what the points say of the range's windows at the moment now. The points may have any order and are not kept.
// Points of the future, which hosts whose clock is wrong send, are left out.
func (r Range) Summarize(points []Point, now time.Time) Series {
	points = slices.DeleteFunc(points, func(p Point) bool { return p.Time.After(now.Add(r.Step)) })
	var s Series
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

// statOf returns the mean and the population's standard deviation of the values in the window that ends with the newest point, which
// has a value. The deviation of one value is not known. Where the series is younger than the window, Span is what its points cover.
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
