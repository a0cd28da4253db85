package loadwatcher

import (
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// momentsPerWindow is how many readings of the moment are kept of a node over the shortest window, and over the longest
// beyond it.
const momentsPerWindow = 40

// record is what is kept of one node.
type record struct {
	windows []windowRecord
	// moments is used with sources that know no window, only the present.
	moments moments
}

// windowRecord is what is kept of one node over one window.
type windowRecord struct {
	window      time.Duration
	cpu, memory resourceRecord
}

// resourceRecord is what is kept of one resource of one node over one window.
type resourceRecord struct {
	reading load.Reading
	trail   load.Trail
	// deviationEnd is the end of the window that the reading's deviation is of, in nanoseconds since 1970.
	deviationEnd int64
	// stated is the end that the source stated, which may be ahead of our clock, in nanoseconds since 1970.
	stated int64
}

// find returns what is kept over the window, or nil.
func (r *record) find(window time.Duration) *windowRecord {
	for i := range r.windows {
		if r.windows[i].window == window {
			return &r.windows[i]
		}
	}
	return nil
}

// over returns what is kept over the window, which is nothing at first. It holds until over is called for another window.
func (r *record) over(window time.Duration) *windowRecord {
	if w := r.find(window); w != nil {
		return w
	}
	// No more room than needed, which append would take: there are many records, and windows are seldom added.
	windows := make([]windowRecord, len(r.windows)+1)
	windows[copy(windows, r.windows)] = windowRecord{window: window}
	r.windows = windows
	return &windows[len(windows)-1]
}

func (w *windowRecord) load() load.NodeLoad {
	return load.NodeLoad{CPU: w.cpu.reading, Memory: w.memory.reading}
}

// end is when a measurement ends, by the source and by our own clock, which bounds it: a source whose clock is ahead does
// not make load that is never too old.
type end struct{ stated, believed time.Time }

// keep takes in what was measured over span. The same measurement again, or an older one, is not taken. A deviation that was
// not measured this time is the last one, up to the age of maxAge.
func (r *resourceRecord) keep(stat load.Stat, span time.Duration, at end, maxAge time.Duration) {
	if !stat.Known || at.stated.UnixNano() <= r.stated {
		return
	}
	switch {
	case !math.IsNaN(stat.StdDev):
		r.deviationEnd = at.believed.UnixNano()
	case at.believed.UnixNano()-r.deviationEnd <= int64(maxAge):
		stat.StdDev = r.reading.StdDev
	default:
		stat.StdDev = 0
	}
	if stat.Span > 0 {
		span, stat.Span = stat.Span, 0
	}
	r.stated = at.stated.UnixNano()
	r.trail.Add(at.believed, stat.Mean)
	r.reading = load.Reading{Stat: stat, Window: span, End: at.believed, Drift: r.trail.Drift()}
}

// newest is the end of the latest reading of the node, over any window.
func (r *record) newest() time.Time {
	var newest time.Time
	for i := range r.windows {
		w := &r.windows[i]
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
	unixNano    int64
	cpu, memory float32
}

// add takes in a reading, drops those older than the longest window, and thins out the rest: evenly within the shortest
// window, so that a longer one takes nothing from it, and more widely beyond. A reading no later than the last is not taken.
func (m *moments) add(at time.Time, cpu, memory load.Stat, shortest, longest time.Duration) {
	held, now := *m, at.UnixNano()
	if n := len(held); n > 0 && now <= held[n-1].unixNano {
		return
	}
	added := moment{unixNano: now, cpu: momentOf(cpu), memory: momentOf(memory)}
	if n := len(held); n > 1 && now-held[n-2].unixNano <= int64(shortest/momentsPerWindow) {
		held[n-1] = added // the last two are nearer than needed: the newest takes the place of the one between
	} else {
		held = append(held, added)
	}
	kept := held[:0]
	for _, x := range held {
		age := now - x.unixNano
		near := len(kept) > 0 && x.unixNano-kept[len(kept)-1].unixNano < int64(longest/momentsPerWindow)
		if age > int64(longest) || age > int64(shortest) && near {
			continue
		}
		kept = append(kept, x)
	}
	*m = kept
}

func momentOf(s load.Stat) float32 {
	if !s.Known {
		return float32(math.NaN())
	}
	return float32(s.Mean)
}

// over returns the mean and the standard deviation of each resource over the readings of the last window. Their spans are
// what those readings cover.
func (m moments) over(window time.Duration) (cpu, memory load.Stat, cpuSpan, memorySpan time.Duration) {
	oldest, first := m[len(m)-1].unixNano-int64(window), 0
	for m[first].unixNano < oldest {
		first++
	}
	cpu, cpuSpan = m[first:].stat(func(x moment) float32 { return x.cpu })
	memory, memorySpan = m[first:].stat(func(x moment) float32 { return x.memory })
	return cpu, memory, cpuSpan, memorySpan
}

// stat is the mean and the population standard deviation of a resource, each reading weighted by the time since the one
// before, and the span that they cover. A resource that the latest reading lacks is not known.
func (m moments) stat(resource func(moment) float32) (load.Stat, time.Duration) {
	last := m[len(m)-1]
	if math.IsNaN(float64(resource(last))) {
		return load.Stat{}, 0
	}
	var known moments
	for _, x := range m {
		if !math.IsNaN(float64(resource(x))) {
			known = append(known, x)
		}
	}
	weights, mean, squares := 0.0, 0.0, 0.0 // West's algorithm
	for i, x := range known {
		weight := 1.0
		if len(known) > 1 {
			since := known[max(i, 1)].unixNano - known[max(i, 1)-1].unixNano // the first weighs like the second
			weight = time.Duration(since).Seconds()
		}
		weights += weight
		delta := float64(resource(x)) - mean
		mean += delta * weight / weights
		squares += weight * delta * (float64(resource(x)) - mean)
	}
	return load.Stat{Mean: mean, StdDev: math.Sqrt(squares / weights), Known: true}, time.Duration(last.unixNano - known[0].unixNano)
}
