//go:build quality

package replay

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestSynthetic_RanksPoliciesAsRealTracesDo compares with the ratios of hot minutes of three real days, each with two seeds. Synthetic is
// made after these days. Smaller or shorter replays say too little: one large burst decides them. It takes about a minute of processor
// time; make quality runs it.
func TestSynthetic_RanksPoliciesAsRealTracesDo(t *testing.T) {
	const nodes, seeds = 100, 3
	o := Options{Policies: []engine.Policy{policy(t, report.Stock), policy(t, report.Clairvoyant)}}
	known := check.Value(engine.ReadPolicies("testdata/known.yaml"))(t)
	for _, p := range known {
		if p.Name == "TLP 40" || p.Name == "PredictedPeak" {
			o.Policies = append(o.Policies, p)
		}
	}
	for seed := range uint64(seeds) {
		in := check.Value(generate.Input(generate.Synthetic(seed+1), generate.Scenarios()[0], nodes, seed+1))(t)
		o.Inputs = append(o.Inputs, in)
	}
	r := check.Value(Replay(t.Context(), o))(t)
	hot := map[string]float64{}
	for _, p := range r.Policies {
		for _, run := range p.Runs {
			hot[p.Name] += run.HotMinutes
		}
	}
	worse := 1.0
	for _, m := range []struct {
		policy string
		// Hot minutes over those of stock, of all real days together, and of the best and the worst one.
		mean, lowest, highest float64
	}{{"TLP 40", 0.61, 0.36, 0.71}, {"PredictedPeak", 0.37, 0.19, 0.47}, {report.Clairvoyant, 0.09, 0.02, 0.15}} {
		ratio := hot[m.policy] / hot[report.Stock]
		t.Logf("%s: %.2f of stock, on real traces %.2f", m.policy, ratio, m.mean)
		if ratio < m.lowest || ratio > m.highest {
			t.Errorf("%s has %.2f of the hot minutes of stock; on real days %.2f to %.2f", m.policy, ratio, m.lowest, m.highest)
		}
		if ratio > 0.75*worse {
			t.Errorf("%s has %.2f of the hot minutes of stock, and the policy that is worse on real days %.2f", m.policy, ratio, worse)
		}
		worse = ratio
	}
}
