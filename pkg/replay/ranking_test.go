//go:build quality

package replay

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// TestSynthetic_RanksPoliciesAsRealTracesDo compares with the ratios of hot minutes on three real days. Synthetic is made after
// these days. Smaller or shorter replays say too little: one large burst decides them. It takes about a minute of processor time;
// make quality runs it.
func TestSynthetic_RanksPoliciesAsRealTracesDo(t *testing.T) {
	const nodes, seeds = 100, 3
	o := Options{Policies: []engine.Policy{policy(t, report.Stock), policy(t, report.Clairvoyant)}}
	known, err := engine.ReadPolicies(t.Context(), "testdata/known.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range known {
		if p.Name == "TLP 40" || p.Name == "PredictedPeak" {
			o.Policies = append(o.Policies, p)
		}
	}
	for seed := range uint64(seeds) {
		in, err := generate.Day(generate.Synthetic(seed+1), generate.Scenarios()[0], nodes, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		o.Inputs = append(o.Inputs, in)
	}
	r, err := Replay(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	hot := map[string]float64{}
	for _, p := range r.Policies {
		for _, run := range p.Runs {
			hot[p.Name] += run.HotMinutes
		}
	}
	for _, m := range []struct {
		policy   string
		measured float64 // hot minutes over those of stock, on the real days
	}{{report.Clairvoyant, 0.12}, {"PredictedPeak", 0.43}, {"TLP 40", 0.66}} {
		ratio := hot[m.policy] / hot[report.Stock]
		t.Logf("%s: %.2f of stock, on real traces %.2f", m.policy, ratio, m.measured)
		// The real days differ by as much from their mean.
		if ratio < 0.75*m.measured || ratio > 1.3*m.measured {
			t.Errorf("%s has %.2f of the hot minutes of stock; on real traces it is %.2f", m.policy, ratio, m.measured)
		}
	}
}
