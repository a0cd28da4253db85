// Package load holds the measured load of nodes: samples of sources, stored measurements, and immutable snapshots for decisions.
// It does no I/O, starts no goroutine, and does not depend on the scheduler.
package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Resource is a resource of nodes whose load is measured.
type Resource int

// The resources, and their number. Amounts of CPU are in milliCPU, amounts of memory in bytes.
const (
	CPU Resource = iota
	Memory
	ResourceCount
)

// Hot is the utilization above which replays, shadow and top call a node hot. The rebalancer compares with a filter's line or with
// its LinePercent.
const Hot = 0.80

// String returns the resource's name as Kubernetes writes it.
func (r Resource) String() string {
	return [...]string{"cpu", "memory"}[r]
}

// MarshalText returns the resource's name.
func (r Resource) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the resource's name. It fails for a name that is neither cpu nor memory.
func (r *Resource) UnmarshalText(name []byte) error {
	for resource := range ResourceCount {
		if resource.String() == string(name) {
			*r = resource
			return nil
		}
	}
	return fmt.Errorf("resource is %.64q, must be cpu or memory", name)
}

// Stat is the mean and standard deviation of a resource's utilization over a window, as fractions of capacity.
// The zero value is unknown.
type Stat struct {
	Mean float64
	// StdDev is NaN if only the mean was measured.
	StdDev float64
	// Span is what was really measured, if it differs from Sample.Window; otherwise 0. A momentary sample may be a mean over it.
	Span time.Duration
	// Known reports whether Mean was measured.
	Known bool
}

// Stats are the statistics of all resources of one node.
type Stats [ResourceCount]Stat

// Known reports whether at least one resource is known.
func (s *Stats) Known() bool { return s[CPU].Known || s[Memory].Known }

// Quantile is a quantile of utilization over a window.
type Quantile struct {
	Window time.Duration
	// Fraction is in (0, 1]: 0.95 is the 95th percentile, 1 the maximum.
	Fraction float64
}

// Sample is a source's measurement of one node over one window.
type Sample struct {
	// Node is the name of the Node object.
	Node string
	// Window is the span that the source was asked for, or states; 0 for a momentary sample. See Stat.Span.
	Window time.Duration
	// Fraction is 0 for means. Above 0, it says which quantile over Window each Stat.Mean holds, in place of a mean.
	Fraction float64
	// End is the end of the window: the time of the newest value in it, not of the query.
	End   time.Time
	Stats Stats
}

// Rejection is the reason why a measured value is rejected or changed.
type Rejection string

const (
	// Accepted is the zero Rejection.
	Accepted Rejection = ""
	// RejectedNotANumber is a NaN or an infinity.
	RejectedNotANumber Rejection = "NotANumber"
	// RejectedNegative is a value below zero.
	RejectedNegative Rejection = "Negative"
	// ClampedAboveCapacity is a mean above 1, which becomes 1. The node is hot or its source is wrong: neither should get a pod.
	ClampedAboveCapacity Rejection = "AboveCapacity"
	// ClampedFromTheFuture is a sample that ends after the time it was read, by more than clocks may differ. That time becomes its
	// End.
	ClampedFromTheFuture Rejection = "FromTheFuture"
	// PartialResponse is a response that lacks data of the server, in the server's words. What it has is used.
	PartialResponse Rejection = "PartialResponse"
	// IncompleteResponse is a response that silently lacks many nodes or pods. What it has is used.
	IncompleteResponse Rejection = "IncompleteResponse"
)

// Rejections returns all reasons, without Accepted.
func Rejections() []Rejection {
	return []Rejection{
		RejectedNotANumber, RejectedNegative, ClampedAboveCapacity, ClampedFromTheFuture, PartialResponse, IncompleteResponse,
	}
}

// Checked returns the usable statistic, and the reason if it differs from s. An impossible mean makes the whole statistic unknown.
// An impossible deviation makes only the deviation unknown.
func (s Stat) Checked() (Stat, Rejection) {
	if !s.Known {
		return Stat{}, Accepted
	}
	if r := RejectionOf(s.Mean); r != Accepted {
		return Stat{}, r
	}
	reason := Accepted
	if r := RejectionOf(s.StdDev); r != Accepted && !math.IsNaN(s.StdDev) {
		s.StdDev, reason = math.NaN(), r
	}
	if s.Mean > 1 {
		s.Mean, reason = 1, ClampedAboveCapacity
	}
	return s, reason
}

// RejectionOf returns why a value cannot have been measured; Accepted if it can.
func RejectionOf(v float64) Rejection {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return RejectedNotANumber
	case v < 0:
		return RejectedNegative
	}
	return Accepted
}

// MetricValue is the latest value of one node metric of one node. A node metric is a configured PromQL expression with one value
// per node.
type MetricValue struct {
	Value float64
	// End is the time of the value, never later than the time it was read.
	End time.Time
}

// MetricTable holds the values of one node metric, by name of the Node object.
type MetricTable map[string]MetricValue

// MetricColumn holds the values of one node metric by row of an Index. It is immutable.
type MetricColumn struct {
	// cells holds the values of all metrics by row, from this metric's first cell on. stride is the number of metrics.
	cells  []metricCell
	stride int
	newest int64
	// lowest and highest are NaN if there is no value.
	lowest, highest float64
}

// metricCell is a MetricValue whose End is in nanoseconds since 1970; a row without a value has the zero metricCell.
type metricCell struct {
	value float64
	end   int64
}

// newColumns returns a column for each metric. A node's values are adjacent in memory, because they are read together.
func newColumns(index *Index, metrics map[string]MetricTable) map[string]*MetricColumn {
	columns := make(map[string]*MetricColumn, len(metrics))
	cells := make([]metricCell, index.Len()*len(metrics))
	for expression, table := range metrics {
		c := &MetricColumn{stride: len(metrics), lowest: math.NaN(), highest: math.NaN()}
		if len(cells) > 0 {
			c.cells = cells[len(columns):]
		}
		for node, v := range table {
			row, ok := index.Row(node)
			if !ok {
				continue
			}
			end := v.End.UnixNano()
			c.cells[row*c.stride] = metricCell{value: v.Value, end: end}
			c.newest = max(c.newest, end)
			if math.IsNaN(c.lowest) {
				c.lowest, c.highest = v.Value, v.Value
			}
			c.lowest, c.highest = min(c.lowest, v.Value), max(c.highest, v.Value)
		}
		columns[expression] = c
	}
	return columns
}

// Row returns the value in a row and its end, in nanoseconds since 1970. Without a value, end is 0.
func (c *MetricColumn) Row(row int) (value float64, end int64) {
	if i := row * c.stride; i < len(c.cells) {
		return c.cells[i].value, c.cells[i].end
	}
	return 0, 0
}

// Newest is the latest end of any value, in nanoseconds since 1970; 0 if there is no value.
func (c *MetricColumn) Newest() int64 { return c.newest }

// Range returns the lowest and the highest value, and whether there are values.
func (c *MetricColumn) Range() (lowest, highest float64, ok bool) {
	return c.lowest, c.highest, c.newest != 0
}

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
