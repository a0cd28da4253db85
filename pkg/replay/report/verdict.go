package report

import (
	"fmt"
	"math"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

const (
	// noiseBound is the relative difference of hot node-minutes that is within noise.
	noiseBound = 0.10
	// minHotMinutes is the sum over all runs that a comparison needs. With a lower sum, one pod makes the difference.
	minHotMinutes = 100

	// Noise tells how far to trust a comparison.
	Noise = "Other tie-breaking alone changes the hot node-minutes of a day by 5 to 7 %. On one day, ignore differences below 10 %."
)

// Verdict compares the policy with the fewest hot node-minutes with stock, with the next best and with clairvoyant.
func (r *Report) Verdict() []string {
	best := r.Best()
	if best == nil {
		return nil
	}
	next := r.bestBut(best)
	switch {
	case next == nil:
		return []string{fmt.Sprintf("%s has %s hot node-minutes in %s.", best.Name, Number(best.total(Hot), 0),
			text.Count(len(best.Runs), "run"))}
	case r.tooFewHot():
		return []string{fmt.Sprintf("Fewer than %d hot node-minutes: too few to compare policies.", minHotMinutes)}
	}
	stock := r.Policy(Stock)
	sentences := []string{againstStock(best, stock)}
	if s := againstNext(best, next, stock); s != "" {
		sentences = append(sentences, s)
	}
	if clairvoyant := r.Policy(Clairvoyant); clairvoyant != nil {
		sentences = append(sentences, againstClairvoyant(best, clairvoyant))
	}
	return sentences
}

func againstStock(best, stock *PolicyReport) string {
	switch {
	case best == stock:
		return "No policy has fewer hot node-minutes than stock."
	case stock == nil:
		return best.Name + " has the fewest hot node-minutes."
	case withinNoise(best, stock):
		return "No policy has fewer hot node-minutes than stock, beyond noise. " + best.Name + " has the fewest."
	}
	sentence := fmt.Sprintf("%s has %s hot node-minutes than stock", best.Name, best.Compared(stock, Hot))
	if fewer, of := fewerRuns(best, stock); of > 1 {
		sentence += fmt.Sprintf("; fewer in %d of %d runs", fewer, of)
	}
	return sentence + "."
}

func againstNext(best, next, stock *PolicyReport) string {
	compared := best.Compared(next, Hot)
	switch {
	case next == stock, compared == "":
		return ""
	case withinNoise(best, next):
		return fmt.Sprintf("%s and %s differ only within noise.", next.Name, best.Name)
	}
	return fmt.Sprintf("%s has %s than the next best, %s.", best.Name, compared, next.Name)
}

func againstClairvoyant(best, clairvoyant *PolicyReport) string {
	compared := clairvoyant.Compared(best, Hot)
	if compared == "" || clairvoyant.total(Hot) == 0 {
		return "Clairvoyant, which knows the future, has none."
	}
	return fmt.Sprintf("Clairvoyant, which knows the future, has %s than %s.", compared, best.Name)
}

func (r *Report) tooFewHot() bool {
	for i := range r.Policies {
		if p := &r.Policies[i]; p.Name != Clairvoyant && p.total(Hot) >= minHotMinutes {
			return false
		}
	}
	return true
}

func withinNoise(a, b *PolicyReport) bool {
	x, y := a.total(Hot), b.total(Hot)
	return math.Abs(x-y) <= noiseBound*max(x, y)
}

// fewerRuns counts the runs in which a has fewer hot node-minutes than b.
func fewerRuns(a, b *PolicyReport) (fewer, of int) {
	for i := range a.Runs {
		if a.Runs[i].HotMinutes < b.Runs[i].HotMinutes {
			fewer++
		}
	}
	return fewer, len(a.Runs)
}
