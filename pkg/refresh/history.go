package refresh

import (
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// momentsPerWindow is the number of samples per node over the shortest window, and beyond it over the longest.
const momentsPerWindow = 40

type nodeHistory struct {
	windows []windowHistory
	// moments is used with sources that know no window, only the present.
	moments moments
}

type windowHistory struct {
	of        load.Quantile
	resources [load.ResourceCount]resourceHistory
}

type resourceHistory struct {
	measurement  load.Measurement
	trail        load.Trail
	deviationEnd int64 // in nanoseconds since 1970
	// sourceEnd is the measurement's end by the source's clock, in nanoseconds since 1970.
	sourceEnd int64
}

func (h *nodeHistory) find(of load.Quantile) *windowHistory {
	for i := range h.windows {
		if h.windows[i].of == of {
			return &h.windows[i]
		}
	}
	return nil
}

// over returns a pointer that is valid until the next call.
func (h *nodeHistory) over(of load.Quantile) *windowHistory {
	if w := h.find(of); w != nil {
		return w
	}
	// append would take more room than needed: there are many nodes, and windows are seldom added.
	windows := make([]windowHistory, len(h.windows)+1)
	windows[copy(windows, h.windows)] = windowHistory{of: of}
	h.windows = windows
	return &windows[len(windows)-1]
}

func (w *windowHistory) load() (n load.NodeLoad) {
	for r := range w.resources {
		n[r] = w.resources[r].measurement
	}
	return n
}

// times returns the end of the node's latest measurement, and when a measurement was last read, over any window.
func (h *nodeHistory) times() (newest, lastRead time.Time) {
	for i := range h.windows {
		for _, r := range h.windows[i].resources {
			end := r.measurement.End
			if end.After(newest) {
				newest = end
			}
			if read := end.Add(r.measurement.Lag); read.After(lastRead) {
				lastRead = read
			}
		}
	}
	return newest, lastRead
}

type sourceEnd struct {
	unixNano int64
	// future is set if the end was ahead of our clock by more than clocks may differ.
	future bool
}

// supersedes reports whether the end e is newer than previous. An end from the future says nothing of the order, so any other end
// is newer.
func (e sourceEnd) supersedes(previous sourceEnd) bool {
	return e.unixNano > previous.unixNano || previous.future && e.unixNano != previous.unixNano
}

// windowEnd is when a window ends. It is bounded by our own clock: a source whose clock is ahead must not make load that never
// expires.
type windowEnd struct {
	time.Time
	source    sourceEnd
	readAt    time.Time
	tolerance time.Duration
}

// endOf returns the end of a window by a source's timestamp that was read now. Clocks may differ by tolerance.
func endOf(timestamp, now time.Time, tolerance time.Duration) windowEnd {
	unixNano := timestamp.UnixNano()
	if timestamp.Unix() > math.MaxInt64/int64(time.Second) {
		unixNano = math.MaxInt64 // after the year 2262
	}
	end := windowEnd{
		Time: timestamp, source: sourceEnd{unixNano: unixNano, future: timestamp.Sub(now) > tolerance}, readAt: now,
		tolerance: tolerance,
	}
	if timestamp.After(now) {
		end.Time = now
	}
	return end
}

// store stores a measurement over span, unless it is a known or an older one. If the deviation was not measured, the last one
// stays, up to the age of maxAge.
func (h *resourceHistory) store(stat load.Stat, span time.Duration, end windowEnd, maxAge time.Duration) {
	if !stat.Known {
		return
	}
	// ahead is the clock skew of the source's timestamp.
	ahead := time.Duration(h.sourceEnd - h.measurement.End.UnixNano())
	previous := sourceEnd{unixNano: h.sourceEnd, future: h.sourceEnd != 0 && ahead > end.tolerance}
	if !end.source.supersedes(previous) {
		if end.source.unixNano == h.sourceEnd {
			h.measurement.Lag = max(h.measurement.Lag, end.readAt.Sub(h.measurement.End)) // it was read again
		}
		return
	}
	switch {
	case !math.IsNaN(stat.StdDev):
		h.deviationEnd = end.UnixNano()
	case end.UnixNano()-h.deviationEnd <= int64(maxAge):
		stat.StdDev = h.measurement.StdDev
	default:
		stat.StdDev = 0
	}
	if stat.Span > 0 {
		span, stat.Span = stat.Span, 0
	}
	h.sourceEnd = end.source.unixNano
	h.trail.Add(end.Time, stat.Mean)
	h.measurement = load.Measurement{Stat: stat, Window: span, End: end.Time, Lag: end.readAt.Sub(end.Time), Drift: h.trail.Drift()}
}

// moments are samples of the moment, oldest first, from which means and deviations over windows are computed.
type moments []moment

// moment is one sample; a resource that was not measured is NaN.
type moment struct {
	unixNano int64
	means    [load.ResourceCount]float32
}

// add stores a later sample, drops samples older than the longest window, and thins out the rest.
// Samples are evenly spaced within the shortest window, and more widely beyond.
func (m *moments) add(at time.Time, stats load.Stats, shortest, longest time.Duration) {
	all, now := *m, at.UnixNano()
	if n := len(all); n > 0 && now <= all[n-1].unixNano {
		return
	}
	added := moment{unixNano: now}
	for r, s := range stats {
		added.means[r] = float32(math.NaN())
		if s.Known {
			added.means[r] = float32(s.Mean)
		}
	}
	if n := len(all); n > 1 && now-all[n-2].unixNano <= int64(shortest/momentsPerWindow) {
		all[n-1] = added // the last two are closer than needed: the new sample replaces the one between
	} else {
		all = append(all, added)
	}
	kept := all[:0]
	for _, x := range all {
		age := now - x.unixNano
		isClose := len(kept) > 0 && x.unixNano-kept[len(kept)-1].unixNano < int64(longest/momentsPerWindow)
		if age > int64(longest) || age > int64(shortest) && isClose {
			continue
		}
		kept = append(kept, x)
	}
	*m = kept
}

// over returns mean and population standard deviation over the samples of the last window, and their span.
// The time since the previous sample is the weight. A resource absent from the latest sample is not known.
func (m moments) over(window time.Duration, r load.Resource) (load.Stat, time.Duration) {
	last := m[len(m)-1]
	if math.IsNaN(float64(last.means[r])) {
		return load.Stat{}, 0
	}
	var known moments
	for _, x := range m {
		if x.unixNano >= last.unixNano-int64(window) && !math.IsNaN(float64(x.means[r])) {
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
		delta := float64(x.means[r]) - mean
		mean += delta * weight / weights
		squares += weight * delta * (float64(x.means[r]) - mean)
	}
	return load.Stat{Mean: mean, StdDev: math.Sqrt(squares / weights), Known: true}, time.Duration(last.unixNano - known[0].unixNano)
}
