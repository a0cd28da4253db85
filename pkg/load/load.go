// Package load is the vocabulary of what nodes carry: samples as a source measured them, snapshots as the scheduler sees
// them, and the model that turns a snapshot and the scheduler's own view of a node into an estimate of the node's load at
// this moment. It does no I/O and starts no goroutine.
package load

import (
	"math"
	"time"
)

// Stat is the mean and the standard deviation of one resource's utilization over a window, as fractions of the node's
// capacity. The zero value is "not known".
type Stat struct {
	Mean float64
	// StdDev is NaN where the mean was measured and the deviation was not.
	StdDev float64
	// Span is what was really measured over, where that is not the sample's window; otherwise 0.
	Span time.Duration
	// Known tells a measured value from an absent one. A deviation without a mean is not a value.
	Known bool
}

// Sample is what a source measured of one node over one window.
type Sample struct {
	// Node is the name of the Node object.
	Node string
	// Window is the span that was measured; 0 is a reading of the moment.
	Window time.Duration
	// End is the moment the window ends at.
	End    time.Time
	CPU    Stat
	Memory Stat
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
	// ClampedAboveCapacity is a mean above 1: it is read as 1, for such a node is no place for a pod, whether it is hot or
	// its source is miscalibrated.
	ClampedAboveCapacity Rejection = "AboveCapacity"
)

// Checked returns the statistic as it may be used, and why it is not what was given. An impossible mean makes all of it
// unknown, an impossible deviation makes the deviation so.
func (s Stat) Checked() (Stat, Rejection) {
	if !s.Known {
		return Stat{}, Accepted
	}
	if r := impossible(s.Mean); r != Accepted {
		return Stat{}, r
	}
	reason := Accepted
	if r := impossible(s.StdDev); r != Accepted && !math.IsNaN(s.StdDev) {
		s.StdDev, reason = math.NaN(), r
	}
	if s.Mean > 1 {
		s.Mean, reason = 1, ClampedAboveCapacity
	}
	return s, reason
}

func impossible(v float64) Rejection {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return RejectedNotANumber
	case v < 0:
		return RejectedNegative
	}
	return Accepted
}
