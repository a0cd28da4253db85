package report

import (
	"fmt"
	"testing"

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
	lasting := &Autocorrelation{FiveMinutes: 0.93}
	moved := func(minutes float64) PolicyReport {
		return PolicyReport{Name: "on+rebalance", Runs: []Run{{HotMinutes: minutes, Moves: 35}}}
	}
	for _, tc := range []struct {
		name   string
		report *Report
		want   string
	}{
		{"without stock, gains are unknown", hotReport(hot("A", 500), hot("B", 900)), ""},
		{"clairvoyant is no policy to choose", hotReport(hot(Stock, 500), hot(Clairvoyant, 100)), ""},
		{"nor with moves", hotReport(hot(Stock, 500), hot("A", 300), hot(Clairvoyant+Rebalanced, 100)),
			"Recommendation: A: 40 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
		{"stock may be the best", hotReport(hot(Stock, 500), hot("A", 1000)),
			"Recommendation: stay with stock: no policy has fewer hot node-minutes beyond noise."},
		{"11 % are no noise", hotReport(hot(Stock, 1000), hot("A", 890)),
			"Recommendation: A: 11 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
		{"few hot node-minutes", hotReport(hot(Stock, 60), hot("A", 10)),
			"Recommendation: stay with stock: fewer than 100 hot node-minutes are too few to gain from."},
		{"noise", hotReport(hot(Stock, 1000), hot("A", 900)),
			"Recommendation: stay with stock: no policy has fewer hot node-minutes beyond noise."},
		// (1000 − 400)/1000 is 60 %.
		{"one run", hotReport(hot(Stock, 1000), hot("A", 400)),
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
		// 1 − 900/2000 is 55 %; the runs have 1 − 300/1000 and 1 − 600/1000.
		{"the range of several runs", hotReport(hot(Stock, 1000, 1000), hot("A", 300, 600)),
			"Recommendation: A: 55 % fewer hot node-minutes than stock (40 to 70 % fewer in 2 of 2 runs)."},
		// 1 − 460/1000 is 54 %; the second run has hot nodes that stock has not.
		{"a run without hot nodes of stock", hotReport(hot(Stock, 1000, 0), hot("A", 400, 60)),
			"Recommendation: A: 54 % fewer hot node-minutes than stock (60 to 60 % fewer in 1 of 2 runs)."},
		// 35 moves in 21 of 24 hours are 40 a day.
		{"moves that gain", hotReport(hot(Stock, 1000), hot("on", 400), moved(200)),
			"Recommendation: on and the rebalancer: 80 % fewer hot node-minutes than stock (of one run, where 10 % is noise), with 40 moves a day."},
		{"moves that gain noise", hotReport(hot(Stock, 1000), hot("on", 400), moved(370)),
			"Recommendation: on: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); moves gain nothing beyond noise."},
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
	of := func(fiveMinutes float64) *Report { return &Report{Autocorrelation: &Autocorrelation{fiveMinutes}} }
	check.Equal(t, "PlanetLab", "The pods' CPU usages have an autocorrelation of 0.10 after five minutes: "+
		"heat passes within minutes, so moves help little.", of(0.1).Heat())
	check.Contains(t, printed(of(0.86)), "0.86 after five minutes: heat lasts, so moves can help.\n")
}
