package config

import (
	"fmt"
	"math"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
		check.Equal(t, fmt.Sprintf("%q rejects 4, 5, 6", tc.text), [...]bool{tc.below, tc.at, tc.above},
			[...]bool{r.RulesOut(4), r.RulesOut(5), r.RulesOut(6)})
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

// FuzzRejectRule checks that a rule can be written and parsed again. It rejects the values on one side of a finite bound: never
// NaN, and one of the two infinities.
func FuzzRejectRule(f *testing.F) {
	for _, seed := range []string{
		"> 5", ">=5.0", " < -0 ", "<= 5e0", "", " ", "5", "= 5", "> NaN", "> -Inf", ">> 5", "> 1e309", "> 5e-324", "> 0x1p-2", "> 1_0", "<=\u00a05", ">\x00",
	} {
		f.Add(seed, 5.0)
	}
	f.Fuzz(func(t *testing.T, text string, value float64) {
		rule, err := ParseRejectRule(text)
		if err != nil {
			if !rule.IsZero() {
				t.Errorf("%q is refused (%v), but is the rule %q", text, err, rule)
			}
			return
		}
		again, err := ParseRejectRule(rule.String())
		if err != nil || again != rule {
			t.Errorf("%q is the rule %q, which is parsed as %q (%v)", text, rule, again, err)
		}
		if rule.RulesOut(math.NaN()) {
			t.Errorf("%q rejects NaN", rule)
		}
		above, below := rule.RulesOut(math.Inf(1)), rule.RulesOut(math.Inf(-1))
		if rule.IsZero() {
			if above || below || rule.RulesOut(value) {
				t.Errorf("%q rejects a node, but is no rule", text)
			}
			return
		}
		if above == below {
			t.Errorf("%q rejects infinity: %v, and its negative: %v", rule, above, below)
		}
		if math.IsNaN(value) || !rule.RulesOut(value) {
			return
		}
		further := math.Nextafter(value, math.Inf(1))
		if below {
			further = math.Nextafter(value, math.Inf(-1))
		}
		if !rule.RulesOut(further) {
			t.Errorf("%q rejects %g, but not %g", rule, value, further)
		}
	})
}
