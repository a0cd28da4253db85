package predictedpeak

import (
	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
)

// Terms are the terms of one node's score.
type Terms struct {
	// Resources are what the peaks are predicted from, by load.Resource.
	Resources [load.ResourceCount]peak.Resource
	// Largest names the pod of the largest excess, by load.Resource, as namespace/name; empty for the pod to place. Only Explain
	// sets it.
	Largest [load.ResourceCount]string
	// Strategy and TargetPercent, in [1, 99], are the settings of the score.
	Strategy      config.Strategy
	TargetPercent float64
}

// Peak is the predicted peak of the resource that is closest to full, as a fraction of capacity.
func (t *Terms) Peak() float64 {
	return max(t.Resources[load.CPU].Peak(), t.Resources[load.Memory].Peak())
}

// Score is the score of the peak, in [0, 100].
func (t *Terms) Score() float64 { return Score(t.Strategy, 100*t.Peak(), t.TargetPercent) }

// List implements explain.Terms.
func (t *Terms) List() (terms []explain.Term) {
	for r := range load.ResourceCount {
		terms = append(terms, explain.Peak(r, &t.Resources[r], t.Largest[r])...)
	}
	if t.Strategy == config.StrategyPack {
		terms = append(terms, explain.Term{Name: "target", Value: t.TargetPercent, Unit: "%"})
	}
	return terms
}

// atFull is the score of a peak of 100 percent.
const atFull = 20.0

// Score scores a peak, in percent, which may exceed 100. The target is in [1, 99].
//
//   - Spread falls in a line from 100 at a peak of 0 to atFull at 100.
//   - Pack is TargetLoadPacking's score, scaled to [atFull, 100]. That rises from target at a peak of 0 to 100 at the target. It
//     falls from there to target, and on to 0 at a peak of 100.
//
// Above 100 percent both are atFull over the peak: where all peaks are above, the lowest is still preferred.
func Score(strategy config.Strategy, percent, target float64) float64 {
	if percent > 100 {
		return atFull * 100 / percent
	}
	score := 100 - percent
	if strategy == config.StrategyPack {
		score = loadscore.Packing(percent, target)
	}
	return atFull + (100-atFull)*score/100
}
