// Package compare decides by how much one program costs more than another. It is arithmetic alone: no clock, no process.
package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Pair is the cost of a pod on both sides in one round, in which both run. So other work on the machine affects both.
type Pair struct{ Ours, Base float64 }

// Block is the pairs of one life of both processes. Where a process puts its heap makes all of its rounds dearer or cheaper. So
// blocks are independent of each other, and pairs of one block are not.
type Block []Pair

// Estimate is the ratio of our cost over the base's, and its 95 % interval.
type Estimate struct{ Ratio, Low, High float64 }

// HalfWidth is half the width of the interval, relative to the ratio.
func (e Estimate) HalfWidth() float64 { return (e.High - e.Low) / 2 / e.Ratio }

// Differs reports whether the interval leaves 1 out.
func (e Estimate) Differs() bool { return e.Low > 1 || e.High < 1 }

// resamples is the number of bootstrap samples: the interval's ends then scatter by a thirtieth of its width.
const resamples = 4000

// Of estimates the ratio of sums, and bootstraps the interval over blocks. It widens the interval as widened says. The same blocks
// lead to the same estimate. Without a pair, everything is 0.
func Of(blocks []Block) Estimate {
	sums := make([]Pair, 0, len(blocks))
	for _, block := range blocks {
		if len(block) > 0 {
			sums = append(sums, total(block))
		}
	}
	if len(sums) == 0 {
		return Estimate{}
	}
	random := rand.New(rand.NewPCG(1, 2))
	ratios, drawn := make([]float64, resamples), make(Block, len(sums))
	for i := range ratios {
		for j := range drawn {
			drawn[j] = sums[random.IntN(len(sums))]
		}
		ratios[i] = total(drawn).ratio()
	}
	slices.Sort(ratios)
	ratio, factor := total(sums).ratio(), widened(len(sums))
	return Estimate{
		Ratio: ratio, Low: ratio - factor*(ratio-quantile(ratios, 0.025)), High: ratio + factor*(quantile(ratios, 0.975)-ratio),
	}
}

// widened returns by how much the interval of a bootstrap over n blocks is too narrow. It divides by n in place of n-1. Its tails
// are those of a normal distribution in place of Student's.
func widened(n int) float64 {
	if n < 2 {
		return 1
	}
	students := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	return students.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975) * math.Sqrt(float64(n)/float64(n-1))
}

func (p Pair) ratio() float64 { return p.Ours / p.Base }

func total(pairs []Pair) Pair {
	var sum Pair
	for _, p := range pairs {
		sum.Ours, sum.Base = sum.Ours+p.Ours, sum.Base+p.Base
	}
	return sum
}

// quantile returns the value at the share q of the way through the sorted values, between neighbors in proportion.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	if i < 0 {
		return sorted[0]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Rule says when a comparison ends.
type Rule struct {
	// Within is the half width of the interval at which it ends.
	Within float64
	// Limit is the time after which it ends anyway. With enough blocks, it ends before a block that would take longer.
	Limit time.Duration
	// MinBlocks is the number of blocks below which a bootstrap says too little about their scatter.
	MinBlocks int
}

// Verdict is why a comparison ended.
type Verdict string

// The verdicts.
const (
	GoesOn   Verdict = ""
	Exact    Verdict = "the interval is narrow enough"
	TimeIsUp Verdict = "the time is up"
)

// Decide returns whether the comparison goes on after so much time.
func (r Rule) Decide(e Estimate, blocks int, elapsed time.Duration) Verdict {
	switch {
	case blocks >= r.MinBlocks && e.Ratio > 0 && e.HalfWidth() <= r.Within:
		return Exact
	case elapsed >= r.Limit, blocks >= r.MinBlocks && elapsed+elapsed/time.Duration(blocks) > r.Limit:
		return TimeIsUp
	}
	return GoesOn
}

// Finding says what the estimate from so many blocks shows.
func (r Rule) Finding(e Estimate, blocks int) string {
	switch {
	case blocks < r.MinBlocks:
		return "too few blocks to tell"
	case e.Differs():
		return "it differs"
	case e.HalfWidth() > r.Within:
		return "no difference found, but one of " + strconv.FormatFloat(100*r.Within, 'g', 3, 64) + " % may be there"
	}
	return "no difference found"
}
