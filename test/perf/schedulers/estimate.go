package main

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// pair is what both sides took in one life of their processes, in which they run at the same time. Where a process puts its heap
// makes all of its rounds dearer or cheaper. So lives are independent of each other, and rounds of one life are not.
type pair struct{ ours, base float64 }

// estimate is the ratio of ours over the base's, and its 95 % interval.
type estimate struct{ ratio, low, high float64 }

// estimateOf returns the mean of the logarithms of the ratios, with Student's interval.
func estimateOf(lives []pair) estimate {
	logarithms := make([]float64, len(lives))
	for i, p := range lives {
		logarithms[i] = math.Log(p.ours / p.base)
	}
	mean, half := stat.Mean(logarithms, nil), 0.0
	if n := float64(len(lives)); n > 1 {
		half = distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * stat.StdErr(stat.StdDev(logarithms, nil), n)
	}
	return estimate{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)}
}

// inverse returns the estimate of the base's over ours.
func (e estimate) inverse() estimate { return estimate{1 / e.ratio, 1 / e.high, 1 / e.low} }

// halfWidth is half the width of the interval, relative to the ratio.
func (e estimate) halfWidth() float64 { return (e.high - e.low) / 2 / e.ratio }

func (e estimate) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", e.ratio, e.low, e.high) }

// rule says when a comparison ends.
type rule struct {
	// within is the half width of the interval at which it ends.
	within float64
	// limit is the time after which it ends anyway. With enough lives, it ends before one that would take longer.
	limit time.Duration
}

// minLives is the number of lives below which their scatter is not known well enough.
const minLives = 6

// verdict returns why the comparison ends after so many lives and so much time; empty if it goes on.
func (r rule) verdict(e estimate, lives int, elapsed time.Duration) string {
	switch {
	case lives >= minLives && e.halfWidth() <= r.within:
		return "the interval is narrow enough"
	case elapsed >= r.limit, lives >= minLives && elapsed+elapsed/time.Duration(lives) > r.limit:
		return "the time is up"
	}
	return ""
}

// finding says what the estimate from so many lives shows.
func (r rule) finding(e estimate, lives int) string {
	switch {
	case lives < minLives:
		return "too few lives to tell"
	case e.low > 1 || e.high < 1:
		return "it differs"
	case e.halfWidth() > r.within:
		return fmt.Sprintf("no difference found, but one of %.3g %% may be there", 100*r.within)
	}
	return "no difference found"
}
