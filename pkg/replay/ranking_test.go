//go:build quality

package replay

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Predictions that know time do not pay. Hot minutes of PredictedPeak over those of stock, days 1 to 6 of Bitbrains in a row,
// 40 nodes, four seeds:
//
//	0.77        as it is
//	0.77, 0.79  the node's largest mean of the last hour, as far as the autocorrelation of all nodes, or of the node, keeps it
//	0.84, 0.85  the same in full, as a floor of the mean, or of the peak
//	0.78        means of the hour of the day, which explain 3 % of a machine's variance on these days and none on the next six
//	0.77, 0.80  excesses of at least half, or all, of the workload's largest step in some three hours

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
