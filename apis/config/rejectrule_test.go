package config

import (
	"math"
	"testing"
)

func TestParseRejectRule(t *testing.T) {
	for _, tc := range []struct {
		text, shown      string
		below, at, above bool // whether 4, 5 and 6 are rejected
	}{
		{"> 5", "> 5", false, false, true},
		{">=5.0", ">= 5", false, true, true},
		{" < 5 ", "< 5", true, false, false},
		{"<= 5e0", "<= 5", true, true, false},
		{"", "", false, false, false},
	} {
		r, err := ParseRejectRule(tc.text)
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		if got := [...]bool{r.RulesOut(4), r.RulesOut(5), r.RulesOut(6)}; got != [...]bool{tc.below, tc.at, tc.above} {
			t.Errorf("%q rejects 4, 5, 6: %v", tc.text, got)
		}
		if r.RulesOut(math.NaN()) {
			t.Errorf("%q rejects NaN", tc.text)
		}
		if r.String() != tc.shown {
			t.Errorf("%q is shown as %q, want %q", tc.text, r, tc.shown)
		}
	}
	for _, text := range []string{"5", "= 5", "!= 5", "> ", "> five", "> NaN", "> Inf", "> 5 6", ">> 5"} {
		if r, err := ParseRejectRule(text); err == nil {
			t.Errorf("%q is read as %q, want an error", text, r)
		}
	}
}
