// Package load holds the measured load of nodes: samples of sources, stored measurements, and immutable snapshots for decisions.
// It does no I/O, starts no goroutine, and does not depend on the scheduler.
package load

import (
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

// Hot is the utilization above which a node is called hot.
const Hot = 0.80

// String returns the resource's name as Kubernetes writes it.
func (r Resource) String() string {
	return [...]string{"cpu", "memory"}[r]
}

// Stat is the mean and standard deviation of a resource's utilization over a window, as fractions of capacity.
// The zero value is "not known".
type Stat struct {
	Mean float64
	// StdDev is NaN where the mean was measured and the deviation was not.
	StdDev float64
	// Span is what was really measured over, where that is not the sample's window; otherwise 0.
	Span time.Duration
	// Known tells a measured value from an absent one. A deviation without a mean is not a value.
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

// Sample is what a source measured of one node over one window.
type Sample struct {
	// Node is the name of the Node object.
	Node string
	// Window is the span that was measured; 0 is a sample of the moment.
	Window time.Duration
	// Fraction is that of the Quantile over Window that each Stat.Mean is; 0 for a mean.
	Fraction float64
	// End is the moment the window ends at: the time of the newest value in it, not of the query.
	End   time.Time
	Stats Stats
}

// Rejection is the reason for which a measured value is not believed.
type Rejection string

const (
	// Accepted is the zero Rejection.
	Accepted Rejection = ""
	// RejectedNotANumber is a NaN or an infinity.
	RejectedNotANumber Rejection = "NotANumber"
	// RejectedNegative is a value below zero.
	RejectedNegative Rejection = "Negative"
	// ClampedAboveCapacity is a mean above 1. It is read as 1: the node is hot, or its source is miscalibrated.
	// Neither should get a pod.
	ClampedAboveCapacity Rejection = "AboveCapacity"
	// ClampedFromTheFuture is a sample whose window ends later than the moment it was read, by more than clocks may differ. It
	// is read as of that moment.
	ClampedFromTheFuture Rejection = "FromTheFuture"
)

// Rejections returns all reasons, without Accepted.
func Rejections() []Rejection {
	return []Rejection{RejectedNotANumber, RejectedNegative, ClampedAboveCapacity, ClampedFromTheFuture}
}

// Checked returns the statistic as it may be used, and the reason where it differs from what was given. An impossible mean
// makes the whole statistic unknown, an impossible deviation makes only the deviation unknown.
func (s Stat) Checked() (Stat, Rejection) {
	if !s.Known {
		return Stat{}, Accepted
	}
	if r := rejectionOf(s.Mean); r != Accepted {
		return Stat{}, r
	}
	reason := Accepted
	if r := rejectionOf(s.StdDev); r != Accepted && !math.IsNaN(s.StdDev) {
		s.StdDev, reason = math.NaN(), r
	}
	if s.Mean > 1 {
		s.Mean, reason = 1, ClampedAboveCapacity
	}
	return s, reason
}

func rejectionOf(v float64) Rejection {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return RejectedNotANumber
	case v < 0:
		return RejectedNegative
	}
	return Accepted
}
