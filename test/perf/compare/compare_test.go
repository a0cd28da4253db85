package compare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func TestOf_RatioOfSums(t *testing.T) {
	// (2 + 4 + 3) / (1 + 4 + 4) = 1. The mean of the ratios would be (2 + 1 + 0.75) / 3 = 1.25.
	e := Of([]Block{{{2, 1}, {4, 4}}, {{3, 4}}})
	if !near(e.Ratio, 1) {
		t.Errorf("ratio %v, want 1", e.Ratio)
	}
	// A sample is twice the first block (6/5), one of each (1), or twice the second (3/4). Each of the outer ones has a probability
	// of a quarter, more than 2.5 %, so these are the ends. Of two blocks they are widened by 12.7062/1.95996 x √(2/1) = 9.16815:
	// 1 - 9.16815 x 0.25 and 1 + 9.16815 x 0.2.
	if math.Abs(e.Low+1.29204) > 1e-4 || math.Abs(e.High-2.83363) > 1e-4 {
		t.Errorf("interval %v to %v, want -1.29204 to 2.83363", e.Low, e.High)
	}
	// (2.83363 + 1.29204) / 2 / 1
	if math.Abs(e.HalfWidth()-2.06283) > 1e-4 {
		t.Errorf("half width %v, want 2.06283", e.HalfWidth())
	}
	if e.Differs() {
		t.Error("an interval around 1 differs")
	}
}

func TestOf_AlikeBlocksLeaveNoDoubt(t *testing.T) {
	block := Block{{1.03, 1}, {2.06, 2}}
	e := Of([]Block{block, block, block})
	if !near(e.Ratio, 1.03) || !near(e.Low, 1.03) || !near(e.High, 1.03) || !e.Differs() {
		t.Errorf("%+v, want 1.03 without a scatter", e)
	}
}

func TestOf_WithoutPairs(t *testing.T) {
	if e := Of([]Block{{}, nil}); e != (Estimate{}) {
		t.Errorf("%+v of no pairs", e)
	}
}

func TestDiffers(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		want      bool
	}{{0.97, 0.99, true}, {1.01, 1.04, true}, {0.99, 1.01, false}, {1, 1.02, false}} {
		if got := (Estimate{Ratio: 1, Low: tc.low, High: tc.high}).Differs(); got != tc.want {
			t.Errorf("%v to %v: %v", tc.low, tc.high, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	sorted := []float64{1, 2, 4}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.5, 0.5: 2, 0.75: 3, 1: 4} { // at 0, 0.5, 1, 1.5 and 2
		if got := quantile(sorted, q); !near(got, want) {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := quantile([]float64{7}, 0.5); got != 7 {
		t.Errorf("of one value: %v", got)
	}
}

// TestRule_Coverage draws blocks whose true ratio is known, until the rule ends the comparison. That ends it early where blocks
// happen to agree, so a little less than 95 % of the intervals hold the truth. Without the widening it would be 86 %.
func TestRule_Coverage(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	rule := Rule{Within: 0.02, Limit: 10 * time.Minute, MinBlocks: 6}
	const cases, truth = 400, 1.03
	held := 0
	for range cases {
		var blocks []Block
		var e Estimate
		for verdict := GoesOn; verdict == GoesOn; {
			machine := 1 + random.Float64() // other work makes both sides dearer
			blocks = append(blocks, Block{{truth * machine * (1 + 0.02*random.NormFloat64()), machine * (1 + 0.02*random.NormFloat64())}})
			e = Of(blocks)
			verdict = rule.Decide(e, len(blocks), time.Duration(len(blocks))*time.Minute)
		}
		if e.Low <= truth && truth <= e.High {
			held++
		}
	}
	if share := float64(held) / cases; share < 0.92 || share > 0.98 {
		t.Errorf("%v of the intervals hold the truth, want about 0.95", share)
	}
}

func TestRule(t *testing.T) {
	rule := Rule{Within: 0.02, Limit: time.Minute, MinBlocks: 6}
	narrow, wide := Estimate{1, 0.981, 1.019}, Estimate{1, 0.979, 1.021} // ± 1.9 % and ± 2.1 %
	for _, tc := range []struct {
		name     string
		estimate Estimate
		blocks   int
		elapsed  time.Duration
		want     Verdict
	}{
		{"narrow", narrow, 6, time.Second, Exact},
		{"narrow when the time is up", narrow, 6, time.Minute, Exact},
		{"narrow by few blocks", narrow, 5, time.Second, GoesOn},
		{"few blocks when the time is up", narrow, 5, time.Minute, TimeIsUp},
		{"wide", wide, 60, 59 * time.Second, GoesOn},
		{"wide when the time is up", wide, 60, time.Minute, TimeIsUp},
		// 52 s for 6 blocks, and 8.7 s for another one, are more than a minute.
		{"wide without the time for another block", wide, 6, 52 * time.Second, TimeIsUp},
		{"few blocks without the time for another one", narrow, 5, 52 * time.Second, GoesOn},
		{"nothing measured", Estimate{}, 6, time.Second, GoesOn},
	} {
		if got := rule.Decide(tc.estimate, tc.blocks, tc.elapsed); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestFinding(t *testing.T) {
	rule, differs, alike := Rule{Within: 0.02, MinBlocks: 6}, Estimate{1.02, 1.01, 1.03}, Estimate{1, 0.99, 1.01}
	wide := Estimate{1, 0.97, 1.03}
	for _, tc := range []struct {
		estimate Estimate
		blocks   int
		want     string
	}{{differs, 6, "it differs"}, {alike, 6, "no difference found"},
		{wide, 6, "no difference found, but one of 2 % may be there"}, {differs, 5, "too few blocks to tell"}} {
		if got := rule.Finding(tc.estimate, tc.blocks); got != tc.want {
			t.Errorf("%+v from %d blocks: %q, want %q", tc.estimate, tc.blocks, got, tc.want)
		}
	}
}
