package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
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

// best returns the policy of a kind with the fewest hot node-minutes, or nil.
func (r *Report) best(isKind func(*PolicyReport) bool) *PolicyReport {
	var best *PolicyReport
	for i := range r.Policies {
		if p := &r.Policies[i]; isKind(p) && (best == nil || p.total(Hot) < best.total(Hot)) {
			best = p
		}
	}
	return best
}

// clairvoyant reports whether the policy knows the future, with the rebalancer or without: a bound, and no policy to choose.
func (p *PolicyReport) clairvoyant() bool {
	return strings.TrimSuffix(p.Name, Rebalanced) == Clairvoyant
}

func (p *PolicyReport) readsLoad() bool {
	return slices.ContainsFunc(p.Runs, func(r Run) bool { return r.ReadsLoad })
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

// Compared compares both policies' hot node-minutes of all runs, such as "63 % fewer" or "2.3 times as many"; empty if it cannot.
func (p *PolicyReport) Compared(to *PolicyReport) string {
	if to == nil || p == to || to.total(Hot) == 0 {
		return ""
	}
	return compared(p.total(Hot) / to.total(Hot))
}

func compared(ratio float64) string {
	switch percent := math.Round(100 * math.Abs(ratio-1)); {
	case math.IsInf(ratio, 1):
		return "some where stock has none"
	case percent == 0:
		return "as many"
	case ratio < 1:
		return fmt.Sprintf("%.0f %% fewer", percent)
	case ratio < 2:
		return fmt.Sprintf("%.0f %% more", percent)
	}
	return Number(ratio, 1) + " times as many"
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
	// pendingBound is the share of pods that a policy may leave pending beyond those of stock: pods without a node heat none.
	pendingBound = 0.01
	// lastingHeat is the autocorrelation from which moves are worth it. PlanetLab's is 0.07 to 0.15, and moves take off an eighth of
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
	stock := r.Policy(Stock)
	if stock == nil || r.best(func(p *PolicyReport) bool { return p != stock && !p.clairvoyant() }) == nil {
		return ""
	}
	best := r.best(func(p *PolicyReport) bool { return !p.clairvoyant() && r.refusal(p) == "" })
	name, moves := strings.CutSuffix(best.Name, Rebalanced)
	if placed := r.Policy(name); moves && placed != nil && r.refusal(placed) == "" && withinNoise(best, placed) {
		best, moves = placed, false
	}
	advice := "Recommendation: "
	switch {
	case r.tooFewHot():
		return advice + fmt.Sprintf("stay with stock: fewer than %d hot node-minutes are too few to gain from.", minHotMinutes)
	case withinNoise(best, stock):
		best, moves = stock, false
		advice += "stay with stock: no other policy to choose has fewer hot node-minutes beyond noise"
	default:
		if advice += name; moves {
			advice += " and the rebalancer"
		}
		advice += fmt.Sprintf(": %s hot node-minutes than stock (%s)", best.Compared(stock), r.certainty(best, stock))
	}
	return advice + r.aboutMoves(best, moves) + r.aboutRefused(best) + "."
}

// refusal tells why a policy is none to choose; empty if it is one.
func (r *Report) refusal(p *PolicyReport) string {
	pending := func(r *Run) float64 { return float64(r.Pending) }
	switch more := p.total(pending) - r.Policy(Stock).total(pending); {
	case strings.HasSuffix(p.Name, Rebalanced) && !p.readsLoad():
		return "the rebalancer refuses a profile that reads no load"
	case more > pendingBound*float64(r.Pods*len(p.Runs)):
		return fmt.Sprintf("it leaves %.0f more pods pending", more)
	}
	return ""
}

// aboutMoves tells what moves do beside the recommended policy, or whether to try some.
func (r *Report) aboutMoves(best *PolicyReport, moves bool) string {
	if moves {
		perDay, _, _ := best.Summary(r.MovesPerDay)
		return ", with " + Number(perDay, 0) + " moves a day"
	}
	if moved := r.Policy(best.Name + Rebalanced); moved != nil && r.refusal(moved) == "" {
		if moved.total(func(r *Run) float64 { return float64(r.Moves) }) == 0 {
			return "; nothing moved"
		}
		return "; moves gain nothing beyond noise"
	}
	reader := r.best(func(p *PolicyReport) bool {
		return !p.clairvoyant() && p.readsLoad() && !strings.HasSuffix(p.Name, Rebalanced) && r.refusal(p) == ""
	})
	if r.lasts() && reader != nil && r.Policy(reader.Name+Rebalanced) == nil {
		return fmt.Sprintf("; heat lasts, so replay %s%s too", reader.Name, Rebalanced)
	}
	return ""
}

// aboutRefused tells why the policy with fewer hot node-minutes than the recommended one is none to choose.
func (r *Report) aboutRefused(best *PolicyReport) string {
	least := r.best(func(p *PolicyReport) bool { return !p.clairvoyant() })
	if reason := r.refusal(least); reason != "" && !withinNoise(least, best) {
		return fmt.Sprintf("; %s has fewer, but %s", least.Name, reason)
	}
	return ""
}

// certainty tells how the policy compares with stock on the worst and on the best day.
func (r *Report) certainty(p, stock *PolicyReport) string {
	worst, best, n, unit := 0.0, math.Inf(1), 0, "run"
	for i := range p.Runs {
		if len(p.Runs[i].HotByDay) > 1 {
			unit = "day"
		}
		for day, hot := range p.Runs[i].HotByDay {
			ratio := 1.0
			if ofStock := stock.Runs[i].HotByDay[day]; hot != ofStock {
				ratio = hot / ofStock
			}
			worst, best, n = max(worst, ratio), min(best, ratio), n+1
		}
	}
	switch hours := r.CountedSeconds / time.Hour.Seconds(); {
	case n > 1:
		return fmt.Sprintf("from %s to %s in %s", compared(worst), compared(best), text.Count(n, unit))
	case hours < 12:
		return fmt.Sprintf("of %.1f hours, too short to tell from noise", hours)
	}
	return fmt.Sprintf("of one run, where %.0f %% is noise", 100*noiseBound)
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
