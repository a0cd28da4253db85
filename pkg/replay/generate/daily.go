package generate

import (
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

const (
	// Figures cover dailyCounted days. In the dailyLearned days before, policies learn.
	dailyLearned, dailyCounted = 3, 7
	// longLived is the share of workloads with longLifetime as the median of their pods' lifetimes, as services have.
	longLived, longLifetime = 0.5, 24 * time.Hour
	// longestWait is how long a pod may wait for a node before its trace ends early.
	longestWait = 2 * time.Hour
	// peakSigma is the deviation of workloads' peaks from the hour of their rhythm.
	peakSigma = 1.5
	// A wave rises and falls by at least minAmplitude, and at most maxAmplitude, of the mean.
	minAmplitude, maxAmplitude = 0.3, 0.95
	// A nightly batch does from minNight to maxNight of its work in shortestNight to longestNight hours.
	minNight, maxNight          = 0.3, 0.8
	shortestNight, longestNight = 2, 5
)

// rhythms are the hours of peaks, with the shares of workloads. The others have no rhythm.
var rhythms = []struct {
	share, peak float64
	night       bool
}{
	{share: 0.45, peak: 13},
	{share: 0.25, peak: 20},
	{share: 0.15, peak: 2, night: true},
}

// rhythm is how usage changes with the hour of the day. Its mean over a day is 1. The zero value does not change.
type rhythm struct {
	// peak is the hour of the peak of a wave, or the beginning of a night.
	peak, amplitude float64
	// hours is the length of a night, with a share of the day's usage.
	hours, share float64
}

func (g *generator) rhythm() (r rhythm) {
	drawn := g.rand.Float64()
	for _, of := range rhythms {
		if drawn >= of.share {
			drawn -= of.share
			continue
		}
		r.peak = of.peak + peakSigma*g.rand.NormFloat64()
		if of.night {
			r.share = minNight + (maxNight-minNight)*g.rand.Float64()
			r.hours = shortestNight + (longestNight-shortestNight)*g.rand.Float64()
		} else {
			r.amplitude = minAmplitude + (maxAmplitude-minAmplitude)*g.rand.Float64()
		}
		break
	}
	return r
}

// at returns the usage at an hour over its mean.
func (r *rhythm) at(hour float64) float64 {
	switch since := math.Mod(hour-r.peak+48, 24); {
	case r.hours == 0:
		return 1 + r.amplitude*math.Cos(2*math.Pi*since/24)
	case since < r.hours:
		return r.share * 24 / r.hours
	default:
		return (1 - r.share) * 24 / (24 - r.hours)
	}
}

// daily makes the pod's usage follow the rhythm of its kind. Each day it follows a machine of similar mean.
func (g *generator) daily(k *kind, p *input.Pod) {
	if k.alike {
		if k.trace == nil {
			k.trace = g.rhythmic(k, 0, int(g.Length/input.TraceStep))
		}
		p.Trace = k.trace
		return
	}
	p.TraceFrom = int(p.Arrival / input.TraceStep)
	until := min(p.Arrival+p.Lifetime+longestWait, g.Length)
	p.Trace = g.rhythmic(k, p.TraceFrom, int(until/input.TraceStep))
}

// rhythmic returns the usage in the steps [from, until), in units of the kind's cores.
func (g *generator) rhythmic(k *kind, from, until int) []float32 {
	trace := make([]float32, 0, max(until-from, 1))
	machine := g.machines[g.similar(k.machine)]
	for step := from; step < max(until, from+1); step++ {
		if step%samplesPerDay == 0 {
			machine = g.machines[g.similar(k.machine)]
		}
		hour := float64(step%samplesPerDay) * input.TraceStep.Hours()
		trace = append(trace, machine[step%samplesPerDay]*float32(k.rhythm.at(hour)))
	}
	return trace
}

// longLivedCatalog is the number of long-lived workloads in the catalog, which come first.
func (g *generator) longLivedCatalog() int { return int(math.Round(longLived * float64(g.catalog))) }

// recurringDaily returns a workload of the catalog. A share of g.longLivedBursts is long-lived.
func (g *generator) recurringDaily() int {
	long := g.longLivedCatalog()
	if g.rand.Float64() < g.longLivedBursts {
		return g.rand.IntN(long)
	}
	return long + g.rand.IntN(g.catalog-long)
}

// setLifetime makes a share of g.longLivedBursts of the new workloads long-lived.
func (g *generator) setLifetime(k *kind, w int) {
	k.lifetime, k.trace = medianLifetime, nil
	if w < g.longLivedCatalog() || w >= g.catalog && g.rand.Float64() < g.longLivedBursts {
		k.lifetime = longLifetime
	}
}
