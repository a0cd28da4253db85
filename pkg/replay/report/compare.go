package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Hot is the figure that policies are ranked by.
func Hot(r *Run) float64 { return r.HotMinutes }

// MovesPerDay extrapolates a run's moves from the counted time.
func (r *Report) MovesPerDay(of *Run) float64 {
	if r.CountedSeconds == 0 {
		return 0
	}
	return float64(of.Moves) * (24 * time.Hour).Seconds() / r.CountedSeconds
}

// Policy returns the named policy, or nil.
func (r *Report) Policy(name string) *PolicyReport {
	i := slices.IndexFunc(r.Policies, func(p PolicyReport) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Policies[i]
}

// Runs returns the number of runs of each policy.
func (r *Report) Runs() int {
	if len(r.Policies) == 0 {
		return 0
	}
	return len(r.Policies[0].Runs)
}

// Best returns the policy with the fewest hot node-minutes, without clairvoyant; nil if there is no other.
func (r *Report) Best() *PolicyReport { return r.bestBut(nil) }

func (r *Report) bestBut(without *PolicyReport) *PolicyReport {
	var best *PolicyReport
	for i := range r.Policies {
		p := &r.Policies[i]
		if !p.clairvoyant() && p != without && (best == nil || p.total(Hot) < best.total(Hot)) {
			best = p
		}
	}
	return best
}

// clairvoyant reports whether the policy knows the future, with the rebalancer or without: a bound, and no policy to choose.
func (p *PolicyReport) clairvoyant() bool {
	return strings.TrimSuffix(p.Name, Rebalanced) == Clairvoyant
}

func (p *PolicyReport) total(value func(*Run) float64) float64 {
	sum := 0.0
	for i := range p.Runs {
		sum += value(&p.Runs[i])
	}
	return sum
}

// Summary returns the mean, the lowest and the highest of a figure; zeros without runs.
func (p *PolicyReport) Summary(value func(*Run) float64) (mean, low, high float64) {
	for i := range p.Runs {
		v := value(&p.Runs[i])
		if i == 0 {
			low, high = v, v
		}
		low, high = min(low, v), max(high, v)
	}
	return p.total(value) / float64(max(len(p.Runs), 1)), low, high
}

// ratio returns the ratio of both policies' sums; false if there is none.
func (p *PolicyReport) ratio(to *PolicyReport, value func(*Run) float64) (float64, bool) {
	if to == nil || to.total(value) == 0 {
		return 0, false
	}
	return p.total(value) / to.total(value), true
}

// Compared compares both policies' sums over the runs, such as "63 % fewer" or "2.3 times as many"; empty if it cannot.
func (p *PolicyReport) Compared(to *PolicyReport, value func(*Run) float64) string {
	amount, _ := p.compare(to, value)
	return amount
}

// ComparedTo is Compared with the name of the other, such as "63 % fewer than stock".
func (p *PolicyReport) ComparedTo(to *PolicyReport, value func(*Run) float64) string {
	if amount, word := p.compare(to, value); amount != "" {
		return amount + " " + word + " " + to.Name
	}
	return ""
}

func (p *PolicyReport) compare(to *PolicyReport, value func(*Run) float64) (amount, word string) {
	ratio, ok := p.ratio(to, value)
	percent := int(math.Round(100 * math.Abs(ratio-1)))
	switch {
	case !ok || p == to:
		return "", ""
	case percent == 0:
		return "as many", "as"
	case ratio < 1:
		return fmt.Sprintf("%d %% fewer", percent), "than"
	case ratio < 2:
		return fmt.Sprintf("%d %% more", percent), "than"
	}
	return Number(ratio, 1) + " times as many", "as"
}

// Number writes v with a fixed number of decimals and thousands separators.
func Number(v float64, decimals int) string {
	return humanize.FormatFloat("#,###."+strings.Repeat("#", decimals), v)
}

const (
	// noiseBound is the relative difference of hot node-minutes that is within noise.
	noiseBound = 0.10
	// minHotMinutes is the sum over all runs that a comparison needs. With a lower sum, one pod makes the difference.
	minHotMinutes = 100
	// lastingHeat is the autocorrelation from which moves are worth it. PlanetLab's is 0.07 to 0.15, and moves take off a seventh of
	// what placement leaves. Bitbrains' is about 0.9, and they take off up to a half.
	lastingHeat = 0.5

	// Noise tells how far to trust a comparison.
	Noise = "Other tie-breaking alone changes the hot node-minutes of a day by 5 to 7 %. On one day, ignore differences below 10 %."
)

// Heat tells from the autocorrelation of usages whether moves can help; empty where it is unknown.
func (r *Report) Heat() string {
	if r.Autocorrelation == nil {
		return ""
	}
	effect := "heat passes within minutes, so moves help little"
	if r.lasts() {
		effect = "heat lasts, so moves can help"
	}
	return fmt.Sprintf("The pods' CPU usages have an autocorrelation of %.2f after five minutes: %s.",
		r.Autocorrelation.FiveMinutes, effect)
}

func (r *Report) lasts() bool {
	return r.Autocorrelation != nil && r.Autocorrelation.FiveMinutes >= lastingHeat
}

// Recommendation tells which policy to choose, whether to move pods, what that gains over stock, and how certain it is. It is empty
// without another policy than stock to compare.
func (r *Report) Recommendation() string {
	stock, best := r.Policy(Stock), r.Best()
	if stock == nil || r.bestBut(stock) == nil {
		return ""
	}
	name, moves := strings.CutSuffix(best.Name, Rebalanced)
	if placed := r.Policy(name); moves && placed != nil && withinNoise(best, placed) {
		best, moves = placed, false
	}
	switch {
	case r.tooFewHot():
		return fmt.Sprintf("Recommendation: stay with stock: fewer than %d hot node-minutes are too few to gain from.", minHotMinutes)
	case withinNoise(best, stock):
		return "Recommendation: stay with stock: no policy has fewer hot node-minutes beyond noise."
	}
	subject := name
	if moves {
		subject += " and the rebalancer"
	}
	advice := fmt.Sprintf("Recommendation: %s: %s hot node-minutes than stock (%s)",
		subject, best.Compared(stock, Hot), certainty(best, stock))
	switch {
	case moves:
		perDay, _, _ := best.Summary(r.MovesPerDay)
		return advice + ", with " + Number(perDay, 0) + " moves a day."
	case r.Policy(name+Rebalanced) != nil:
		return advice + "; moves gain nothing beyond noise."
	case r.lasts():
		return advice + fmt.Sprintf("; heat lasts, so replay %s%s too.", name, Rebalanced)
	}
	return advice + "."
}

// certainty tells in how many runs a policy has less than stock, and how much less in these.
func certainty(p, stock *PolicyReport) string {
	if len(p.Runs) == 1 {
		return fmt.Sprintf("of one run, where %.0f %% is noise", 100*noiseBound)
	}
	low, high, fewer := math.Inf(1), 0.0, 0
	for i := range p.Runs {
		if gain := 1 - p.Runs[i].HotMinutes/stock.Runs[i].HotMinutes; gain > 0 {
			low, high, fewer = min(low, 100*gain), max(high, 100*gain), fewer+1
		}
	}
	return fmt.Sprintf("%.0f to %.0f %% fewer in %d of %d runs", low, high, fewer, len(p.Runs))
}

func (r *Report) tooFewHot() bool {
	for i := range r.Policies {
		if p := &r.Policies[i]; !p.clairvoyant() && p.total(Hot) >= minHotMinutes {
			return false
		}
	}
	return true
}

func withinNoise(a, b *PolicyReport) bool {
	x, y := a.total(Hot), b.total(Hot)
	return math.Abs(x-y) <= noiseBound*max(x, y)
}
