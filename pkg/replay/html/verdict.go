package html

import (
	"fmt"
	"math"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
)

const (
	// noiseBound is the relative difference of hot node-minutes below which policies count as even.
	noiseBound = 0.10
	// fewMinutes is the number of hot node-minutes in all runs below which nothing is compared: one pod makes the difference.
	fewMinutes = 100

	noise = "Breaking ties another way moves the hot node-minutes of a day by 5 to 7 %. This page therefore takes a difference of up " +
		"to 10 % for noise. Several days say more than one: look at the range."
)

// verdict says in a few sentences which policy has the fewest hot node-minutes, compared with stock, with the next best and with
// clairvoyant.
func verdict(r *replay.Report) []string {
	best := bestPolicy(r)
	if best == nil {
		return []string{"No policy has a finished run."}
	}
	name, runs := best.Name, len(best.Runs)
	future := policy(r, clairvoyant)
	reference := policy(r, stock)
	second := bestPolicy(r, best)

	var sentences []string
	say := func(format string, a ...any) { sentences = append(sentences, fmt.Sprintf(format, a...)) }
	switch {
	case second == nil:
		say("%s has %s hot node-minutes in %s.", name, number(hotMinutes(best, runs), 0), count(runs, "run"))
		return sentences
	case fewHot(r):
		say("There are fewer than %d hot node-minutes: too few to compare policies by.", fewMinutes)
		return sentences
	case best == reference:
		say("No policy has fewer hot node-minutes than %s.", stock)
	case reference == nil:
		say("%s has the fewest hot node-minutes.", name)
	case even(best, reference):
		say("No policy has fewer hot node-minutes than %s beyond noise. The fewest has %s: %s × those of %[1]s.", stock, name,
			hotRatio(best, reference))
	default:
		fewer, of := fewerRuns(best, reference)
		in := ""
		if of > 1 {
			in = fmt.Sprintf("; fewer in %d of %d runs", fewer, of)
		}
		say("%s has %s × the hot node-minutes of %s%s.", name, hotRatio(best, reference), stock, in)
	}
	switch times := hotRatio(second, best); {
	case second == reference:
	case even(best, second):
		say("%s is even with %s: their difference is within noise.", second.Name, name)
	case times != "":
		say("The next best, %s, has %s × as many as %s.", second.Name, times, name)
	}
	if future != nil {
		if times := hotRatio(best, future); times != "" {
			say("%s has %s × as many as %s, which knows the future.", name, times, clairvoyant)
		} else {
			say("Clairvoyant, which knows the future, has none.")
		}
	}
	return sentences
}

// bestPolicy is the policy with the fewest hot node-minutes, but clairvoyant and without; nil if there is none with a run.
func bestPolicy(r *replay.Report, without ...*replay.PolicyReport) *replay.PolicyReport {
	var best *replay.PolicyReport
	for i := range r.Policies {
		p := &r.Policies[i]
		if p.Name == clairvoyant || len(p.Runs) == 0 || len(without) > 0 && p == without[0] {
			continue
		}
		if best == nil {
			best = p
			continue
		}
		if runs := common(p, best); hotMinutes(p, runs) < hotMinutes(best, runs) {
			best = p
		}
	}
	return best
}

// policy is the policy of a name that has a run, or nil.
func policy(r *replay.Report, name string) *replay.PolicyReport {
	for i := range r.Policies {
		if r.Policies[i].Name == name && len(r.Policies[i].Runs) > 0 {
			return &r.Policies[i]
		}
	}
	return nil
}

// common is the number of runs that both policies have: those of the same pods.
func common(a, b *replay.PolicyReport) int { return min(len(a.Runs), len(b.Runs)) }

// hotMinutes is the sum over the first runs.
func hotMinutes(p *replay.PolicyReport, runs int) float64 {
	var sum float64
	for i := range p.Runs[:runs] {
		sum += p.Runs[i].HotMinutes
	}
	return sum
}

// fewHot is whether no policy but clairvoyant has enough hot node-minutes to say something.
func fewHot(r *replay.Report) bool {
	for i := range r.Policies {
		if p := &r.Policies[i]; p.Name != clairvoyant && hotMinutes(p, len(p.Runs)) >= fewMinutes {
			return false
		}
	}
	return true
}

// even is whether the hot node-minutes of two policies differ by no more than noise.
func even(a, b *replay.PolicyReport) bool {
	runs := common(a, b)
	x, y := hotMinutes(a, runs), hotMinutes(b, runs)
	return math.Abs(x-y) <= noiseBound*max(x, y)
}

// fewerRuns is in how many of the common runs a has fewer hot node-minutes than b.
func fewerRuns(a, b *replay.PolicyReport) (fewer, of int) {
	of = common(a, b)
	for i := range of {
		if a.Runs[i].HotMinutes < b.Runs[i].HotMinutes {
			fewer++
		}
	}
	return fewer, of
}

func hotRatio(p, reference *replay.PolicyReport) string {
	return ratioText(p, reference, func(r *replay.Run) float64 { return r.HotMinutes })
}

// ratioText is the ratio of sums over the common runs; empty without a reference or if its sum is 0.
func ratioText(p, reference *replay.PolicyReport, value func(*replay.Run) float64) string {
	if reference == nil {
		return ""
	}
	runs := common(p, reference)
	mine, _, _ := summary(p.Runs[:runs], value)
	its, _, _ := summary(reference.Runs[:runs], value)
	if its == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", mine/its)
}

// round rounds to a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}
