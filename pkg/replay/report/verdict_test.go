package report

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// hotReport has policies with these hot node-minutes, run by run.
func hotReport(policies ...PolicyReport) *Report {
	return &Report{HotAbove: 0.8, SevereAbove: 0.95, Policies: policies}
}

func hot(name string, minutes ...float64) PolicyReport {
	p := PolicyReport{Name: name}
	for i, m := range minutes {
		p.Runs = append(p.Runs, Run{Name: fmt.Sprint("run ", i+1), HotMinutes: m})
	}
	return p
}

func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		name   string
		report *Report
		want   []string
	}{
		{"the best policy is compared with stock, the next best and clairvoyant",
			// 450/1000 is 55 % fewer, 450/900 and 225/450 are 50 % fewer; the second run has more than stock's.
			hotReport(hot(Stock, 900, 100), hot("B", 800, 100), hot("A", 300, 150), hot(Clairvoyant, 150, 75)),
			[]string{
				"A has 55 % fewer hot node-minutes than stock; fewer in 1 of 2 runs.",
				"A has 50 % fewer than the next best, B.",
				"Clairvoyant, which knows the future, has 50 % fewer than A.",
			}},
		{"a difference to stock of 10 % is noise",
			hotReport(hot(Stock, 1000), hot("A", 900)),
			[]string{"No policy has fewer hot node-minutes than stock, beyond noise. A has the fewest."}},
		{"a difference to stock of 11 % on one day is not", hotReport(hot(Stock, 1000), hot("A", 890)), []string{"A has 11 % fewer hot node-minutes than stock."}},
		{"a difference to the next best below 10 % is noise",
			hotReport(hot(Stock, 1000), hot("B", 520), hot("A", 500)),
			[]string{
				"A has 50 % fewer hot node-minutes than stock.",
				"B and A differ only within noise.",
			}},
		{"stock may be the best",
			hotReport(hot(Stock, 500), hot("A", 1000)),
			[]string{"No policy has fewer hot node-minutes than stock.", "stock has 50 % fewer than the next best, A."}},
		{"without stock, policies are compared with each other",
			hotReport(hot("A", 500), hot("B", 1000)),
			[]string{"A has the fewest hot node-minutes.", "A has 50 % fewer than the next best, B."}},
		{"one policy is compared with nothing", hotReport(hot("A", 500, 600)), []string{"A has 1,100 hot node-minutes in 2 runs."}},
		{"few hot node-minutes say nothing", hotReport(hot(Stock, 60, 39), hot("A", 10, 20)), []string{"Fewer than 100 hot node-minutes: too few to compare policies."}},
		{"clairvoyant without hot node-minutes has no ratio",
			hotReport(hot(Stock, 1000), hot("A", 500), hot(Clairvoyant, 0)),
			[]string{"A has 50 % fewer hot node-minutes than stock.", "Clairvoyant, which knows the future, has none."}},
		{"a report may be empty", hotReport(), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.report.Verdict()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCompared(t *testing.T) {
	for _, tc := range []struct {
		a, b      PolicyReport
		cell, all string
	}{
		{hot("a", 370), hot("b", 1000), "63 % fewer", "63 % fewer than b"},
		{hot("a", 1004), hot("b", 1000), "as many", "as many as b"}, // 0.4 % rounds to 0
		{hot("a", 1320), hot("b", 1000), "32 % more", "32 % more than b"},
		{hot("a", 2320), hot("b", 1000), "2.3 times as many", "2.3 times as many as b"},
		{hot("a", 5), hot("b", 0), "", ""},
		{hot("a", 0), hot("b", 5), "100 % fewer", "100 % fewer than b"},
	} {
		if cell, all := tc.a.Compared(&tc.b, Hot), tc.a.ComparedTo(&tc.b, Hot); cell != tc.cell || all != tc.all {
			t.Errorf("%v beside %v: %q and %q, want %q and %q", tc.a.Runs, tc.b.Runs, cell, all, tc.cell, tc.all)
		}
	}
}

func TestRecommendation(t *testing.T) {
	lasting := &Autocorrelation{FiveMinutes: 0.93, Hour: 0.59}
	moved := func(minutes float64) PolicyReport {
		return PolicyReport{Name: "A+rebalance", Runs: []Run{{HotMinutes: minutes, Moves: 35}}}
	}
	for _, tc := range []struct {
		name   string
		report *Report
		want   string
	}{
		{"without stock, gains are unknown", hotReport(hot("A", 500), hot("B", 900)), ""},
		{"clairvoyant is no policy to choose", hotReport(hot(Stock, 500), hot(Clairvoyant, 100)), ""},
		{"few hot node-minutes", hotReport(hot(Stock, 60), hot("A", 10)),
			"Recommendation: stay with stock: fewer than 100 hot node-minutes are too few to gain from."},
		{"noise", hotReport(hot(Stock, 1000), hot("A", 900)),
			"Recommendation: stay with stock: no policy has fewer hot node-minutes beyond noise."},
		// (1000 − 400)/1000 is 60 %.
		{"one run", hotReport(hot(Stock, 1000), hot("A", 400)),
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
		// 1 − 900/2000 is 55 %; the runs have 1 − 300/1000 and 1 − 600/1000.
		{"the range of several runs", hotReport(hot(Stock, 1000, 1000), hot("A", 300, 600)),
			"Recommendation: A: 55 % fewer hot node-minutes than stock (40 to 70 % fewer in 2 runs)."},
		// 35 moves in 21 of 24 hours are 40 a day.
		{"moves that gain", hotReport(hot(Stock, 1000), hot("A", 400), moved(200)),
			"Recommendation: A and the rebalancer: 80 % fewer hot node-minutes than stock (of one run, where 10 % is noise), with 40 moves a day."},
		{"moves that gain noise", hotReport(hot(Stock, 1000), hot("A", 400), moved(370)),
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); moves gain nothing beyond noise."},
		{"heat that lasts, without moves", &Report{Autocorrelation: lasting, Policies: []PolicyReport{hot(Stock, 1000), hot("A", 400)}},
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); heat lasts, so replay A+rebalance too."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.report.CountedSeconds = 21 * 3600
			check.Equal(t, "recommendation", tc.want, tc.report.Recommendation())
		})
	}
}

func TestHeat(t *testing.T) {
	check.Equal(t, "unknown", "", (&Report{}).Heat())
	of := func(fiveMinutes, hour float64) *Report {
		return &Report{Autocorrelation: &Autocorrelation{FiveMinutes: fiveMinutes, Hour: hour}}
	}
	check.Equal(t, "PlanetLab", "The pods' CPU usages have an autocorrelation of 0.10 after five minutes and 0.08 after an hour: "+
		"heat passes within minutes, so moves help little.", of(0.1, 0.08).Heat())
	check.Contains(t, printed(of(0.93, 0.59)), "0.93 after five minutes and 0.59 after an hour: heat lasts, so moves help.\n")
}
