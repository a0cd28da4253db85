package hosted

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
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
	newest   time.Time
	stats    []load.Stat
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

// Table collects the load of nodes over windows in one refresh. It is not safe for concurrent use.
type Table struct {
	nodes   []*corev1.Node
	index   *source.NodeIndex
	suffix  string
	excerpt func(string) string
	stats   map[time.Duration][][load.ResourceCount]measured
	// Counters by resource. known counts the pairs of node and window with a value. series counts all offered series, matched the
	// series whose host is a node, and hostless the series without a host.
	known, series, matched, hostless [load.ResourceCount]int
	unmatched                        map[string]struct{}
	rejected                         source.Rejected
}

type measured struct {
	stat load.Stat
	end  time.Time
	// exact reports whether the host, or the host without the suffix, equals the node's name.
	exact bool
}

// NewTable returns an empty table of the nodes. A host name may be the node's name with suffix. excerpt makes a server's text safe
// for messages: see text.Excerpt.
func NewTable(nodes []*corev1.Node, suffix string, excerpt func(string) string) *Table {
	return &Table{
		nodes: nodes, index: source.NewNodeIndex(nodes), suffix: suffix, excerpt: excerpt,
		stats: map[time.Duration][][load.ResourceCount]measured{}, unmatched: map[string]struct{}{}, rejected: source.Rejected{},
	}
}

// Offer adds a host's series, in fractions of capacity, huge pages included in both, for the windows of the range.
// Of several series of a node, it prefers one whose host is the node's name, then the greatest mean. It only counts an expired
// series, and one without a host.
func (t *Table) Offer(host string, r load.Resource, rng Range, now time.Time, series Series) {
	t.series[r]++
	t.rejected.Add(series.rejected)
	if host == "" {
		t.hostless[r]++
		t.addUnmatched("a series without a host")
		return
	}
	position, exact, ok := t.match(host)
	if !ok {
		t.addUnmatched(host)
		return
	}
	t.matched[r]++
	if len(series.stats) == 0 || series.newest.Before(rng.oldest(now)) {
		return
	}
	capacity := podusage.CapacityOf(t.nodes[position])
	for i, window := range rng.Windows {
		if t.stats[window] == nil {
			t.stats[window] = make([][load.ResourceCount]measured, len(t.nodes))
		}
		m := measured{stat: series.stats[i], end: series.newest, exact: exact}
		m.stat.Mean, m.stat.StdDev = capacity.Of(r, m.stat.Mean), capacity.Spread(r, m.stat.StdDev)
		if !t.rejected.Accept(m.stat.Mean) { // a sum of huge numbers
			continue
		}
		old := &t.stats[window][position][r]
		if !old.stat.Known {
			t.known[r]++
		}
		if !old.stat.Known || m.exact && !old.exact || m.exact == old.exact && m.stat.Mean > old.stat.Mean {
			*old = m
		}
	}
}

func (t *Table) addUnmatched(host string) {
	if len(t.unmatched) < source.MaxUnmatched {
		t.unmatched[t.excerpt(host)] = struct{}{}
	}
}

func (t *Table) match(host string) (position int, exact, ok bool) {
	short := host
	if cut := len(host) - len(t.suffix); cut > 0 && strings.EqualFold(host[cut:], t.suffix) {
		short = host[:cut]
	}
	for _, name := range []string{host, short} {
		if position, ok := t.index.Match(name); ok {
			return position, name == t.nodes[position].Name, true
		}
	}
	return 0, false, false
}

// Measured reports whether a node has a value of the resource.
func (t *Table) Measured(r load.Resource) bool { return t.known[r] > 0 }

// Samples returns the load over the windows: one sample per node and window.
// If the newest points of the resources differ in time, there is one per resource.
func (t *Table) Samples(windows []time.Duration) []load.Sample {
	samples := make([]load.Sample, 0, len(windows)*len(t.nodes))
	for _, window := range slices.Compact(slices.Sorted(slices.Values(windows))) {
		for i, resources := range t.stats[window] {
			first := len(samples)
			for r, m := range resources {
				if !m.stat.Known {
					continue
				}
				if len(samples) == first || !samples[first].End.Equal(m.end) {
					samples = append(samples, load.Sample{Node: t.nodes[i].Name, Window: window, End: m.end})
				}
				samples[len(samples)-1].Stats[r] = m.stat
			}
		}
	}
	return samples
}

// Unmatched returns the hosts that match no node, of all resources, sorted. There are at most source.MaxUnmatched.
func (t *Table) Unmatched() []string { return slices.Sorted(maps.Keys(t.unmatched)) }

// Emptiness returns why no node has a value of the resource; call it if Measured is false. advice says how series get a host.
func (t *Table) Emptiness(r load.Resource, advice string) error {
	switch {
	case t.series[r] == 0:
		return fmt.Errorf("no series: set queries.%s to a metric of the account, use address, token and agent of the same account, "+
			"or check clusterName and hostNameSuffix", r)
	case t.hostless[r] == t.series[r]:
		return fmt.Errorf("none of %d series has a host: %s", t.series[r], advice)
	case t.matched[r] == 0:
		return fmt.Errorf("none of %d series belongs to a Node: %s: set hostNameSuffix, or set clusterName to the name that the cluster "+
			"has in the metrics service", t.series[r], text.FirstN(t.Unmatched()))
	}
	return fmt.Errorf("none of the %d series of Nodes has a recent point: check the Nodes' agent and clocks", t.matched[r])
}
