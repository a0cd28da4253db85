// Package load holds the measured load of nodes: samples of sources, stored measurements, and immutable snapshots for decisions.
// It does no I/O, starts no goroutine, and does not depend on the scheduler.
package load

import (
	"fmt"
	"math"
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

// Hot is the utilization above which replays, shadow and bars call a node hot. The rebalancer compares with a filter's line or with
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
