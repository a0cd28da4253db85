package loadwatcher

import (
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// maxMoments bounds the readings of the moment that are kept of a node: one a quarter of a minute over the longest known
// window.
const maxMoments = 60

// record is what is kept of one node.
type record struct {
	windows map[time.Duration]*windowRecord
	// moments is used with sources that know no window, only the present.
	moments moments
}

// windowRecord is what is kept of one node over one window.
type windowRecord struct{ cpu, memory resourceRecord }

// resourceRecord is what is kept of one resource of one node over one window.
type resourceRecord struct {
	reading load.Reading
	trail   load.Trail
	// deviationEnd is the end of the window that the reading's deviation is of.
	deviationEnd time.Time
}

func (w *windowRecord) load() load.NodeLoad {
	return load.NodeLoad{CPU: w.cpu.reading, Memory: w.memory.reading}
}

func newRecord() *record { return &record{windows: map[time.Duration]*windowRecord{}} }

// keep takes in what was measured over a span that ends at end, as the node's load over window. A deviation that was not
// measured this time is the last one, up to the age of maxAge.
func (r *record) keep(window, span time.Duration, end time.Time, cpu, memory load.Stat, maxAge time.Duration) {
	w, ok := r.windows[window]
	if !ok {
		w = &windowRecord{}
		r.windows[window] = w
	}
	w.cpu.keep(cpu, span, end, maxAge)
	w.memory.keep(memory, span, end, maxAge)
}

func (r *resourceRecord) keep(stat load.Stat, span time.Duration, end time.Time, maxAge time.Duration) {
	if !stat.Known || end.Before(r.reading.End) {
		return
	}
	switch {
	case !math.IsNaN(stat.StdDev):
		r.deviationEnd = end
	case end.Sub(r.deviationEnd) <= maxAge:
		stat.StdDev = r.reading.StdDev
	default:
		stat.StdDev = 0
	}
	r.trail.Add(end, stat.Mean)
	r.reading = load.Reading{Stat: stat, Window: span, End: end, Drift: r.trail.Drift()}
}

// newest is the end of the latest reading of the node, over any window.
func (r *record) newest() time.Time {
	var newest time.Time
	for _, w := range r.windows {
		for _, end := range []time.Time{w.cpu.reading.End, w.memory.reading.End} {
			if end.After(newest) {
				newest = end
			}
		}
	}
	return newest
}

// moments are readings of the moment, oldest first, from which means and deviations over windows are made.
type moments []moment

// moment is one reading; a resource that was not measured is NaN.
type moment struct {
	at          time.Time
	cpu, memory float32
}

// add takes in a reading, drops those that end before the longest window, and thins out the rest to maxMoments. A reading
// no later than the last is not taken.
func (m *moments) add(at time.Time, cpu, memory load.Stat, longest time.Duration) {
	held := *m
	if n := len(held); n > 0 && !at.After(held[n-1].at) {
		return
	}
	added := moment{at: at, cpu: momentOf(cpu), memory: momentOf(memory)}
	if n := len(held); n > 1 && at.Sub(held[n-2].at) <= longest/maxMoments {
		held[n-1] = added // the last two are nearer than needed: the newest takes the place of the one between
	} else {
		held = append(held, added)
	}
	first := 0
	for held[first].at.Before(at.Add(-longest)) || len(held)-first > maxMoments {
		first++
	}
	// Moved down rather than sliced off, so that the backing array stays where it is.
	*m = held[:copy(held, held[first:])]
}

func momentOf(s load.Stat) float32 {
	if !s.Known {
		return float32(math.NaN())
	}
	return float32(s.Mean)
}

// over returns the mean and the standard deviation of the readings of the last window, and the span that they cover.
func (m moments) over(window time.Duration) (cpu, memory load.Stat, span time.Duration) {
	end := m[len(m)-1].at
	first := 0
	for m[first].at.Before(end.Add(-window)) {
		first++
	}
	m = m[first:]
	return m.stat(func(x moment) float32 { return x.cpu }), m.stat(func(x moment) float32 { return x.memory }), end.Sub(m[0].at)
}

// stat is the population mean and standard deviation of a resource, as Prometheus' stddev_over_time computes it. A
// resource that the latest reading lacks is not known.
func (m moments) stat(resource func(moment) float32) load.Stat {
	if math.IsNaN(float64(resource(m[len(m)-1]))) {
		return load.Stat{}
	}
	n, mean, squares := 0.0, 0.0, 0.0 // Welford's algorithm
	for _, x := range m {
		v := float64(resource(x))
		if math.IsNaN(v) {
			continue
		}
		n++
		delta := v - mean
		mean += delta / n
		squares += delta * (v - mean)
	}
	return load.Stat{Mean: mean, StdDev: math.Sqrt(squares / n), Known: true}
}
