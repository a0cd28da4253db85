package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestEstimate(t *testing.T) {
	// The logarithms of 2 and 1/2 are ±0.693147: their mean is 0, their deviation √(2 · 0.693147²) = 0.980258, and the error of the mean
	// 0.980258/√2 = 0.693147. Student's quantile for one degree of freedom is 12.7062: e^(±8.80727).
	e := estimateOf([]pair{{2, 1}, {3, 6}})
	for what, values := range map[string][2]float64{
		"ratio": {e.ratio, 1}, "high": {e.high, 6683}, "low": {1 / e.low, 6683}, "inverse": {e.inverse().high, 6683},
		"half width": {e.halfWidth(), 3341},
	} {
		if got, want := values[0], values[1]; math.Abs(got/want-1) > 1e-3 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if e := estimateOf([]pair{{1.03, 1}, {2.06, 2}, {1.03, 1}}); math.Abs(e.low-1.03) > 1e-9 || math.Abs(e.high-1.03) > 1e-9 {
		t.Errorf("%v of lives that agree, want 1.03", e)
	}
}

// TestRule_Coverage draws lives whose true ratio is known, until the rule ends the comparison. That ends it early where lives
// happen to agree, so a little less than 95 % of the intervals hold the truth.
func TestRule_Coverage(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := rule{within: 0.02, limit: 10 * time.Minute}
	const cases, truth = 400, 1.03
	held := 0
	for range cases {
		var lives []pair
		var e estimate
		for verdict := ""; verdict == ""; verdict = r.verdict(e, len(lives), time.Duration(len(lives))*time.Minute) {
			machine := 1 + random.Float64() // other work makes both sides dearer
			lives = append(lives, pair{truth * machine * (1 + 0.02*random.NormFloat64()), machine * (1 + 0.02*random.NormFloat64())})
			e = estimateOf(lives)
		}
		if e.low <= truth && truth <= e.high {
			held++
		}
	}
	if share := float64(held) / cases; share < 0.92 || share > 0.98 {
		t.Errorf("%v of the intervals hold the truth, want about 0.95", share)
	}
}

func TestRule(t *testing.T) {
	const exact, late = "the interval is narrow enough", "the time is up"
	r := rule{within: 0.02, limit: time.Minute}
	narrow, wide := estimate{1, 0.981, 1.019}, estimate{1, 0.979, 1.021} // ± 1.9 % and ± 2.1 %
	for _, tc := range []struct {
		name     string
		estimate estimate
		lives    int
		elapsed  time.Duration
		verdict  string
		finding  string
	}{
		{"narrow", narrow, 6, time.Second, exact, "no difference found"},
		{"narrow, and another ratio", estimate{1.02, 1.01, 1.03}, 6, time.Second, exact, "it differs"},
		{"narrow when the time is up", narrow, 6, time.Minute, exact, "no difference found"},
		{"narrow by few lives", narrow, 5, time.Second, "", "too few lives to tell"},
		{"few lives when the time is up", narrow, 5, time.Minute, late, "too few lives to tell"},
		{"wide", wide, 60, 59 * time.Second, "", "no difference found, but one of 2 % may be there"},
		{"wide when the time is up", wide, 60, time.Minute, late, "no difference found, but one of 2 % may be there"},
		// 52 s for 6 lives, and 8.7 s for another one, are more than a minute.
		{"wide without the time for another life", wide, 6, 52 * time.Second, late, "no difference found, but one of 2 % may be there"},
		{"few lives without the time for another one", narrow, 5, 52 * time.Second, "", "too few lives to tell"},
	} {
		check.Equal(t, tc.name+": verdict", tc.verdict, r.verdict(tc.estimate, tc.lives, tc.elapsed))
		check.Equal(t, tc.name+": found", tc.finding, r.finding(tc.estimate, tc.lives))
	}
}
