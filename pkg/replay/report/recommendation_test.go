package report

import (
	"fmt"
	"strings"
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
		run := Run{Name: fmt.Sprint("run ", i+1), HotMinutes: m, HotByDay: []float64{m}, ReadsLoad: !strings.HasPrefix(name, Stock)}
		p.Runs = append(p.Runs, run)
	}
	return p
}

func TestCompared(t *testing.T) {
	for _, tc := range []struct {
		a, b PolicyReport
		want string
	}{
		{hot("a", 370), hot("b", 1000), "63 % fewer"},
		{hot("a", 1004), hot("b", 1000), "as many"}, // 0.4 % rounds to 0
		{hot("a", 1320), hot("b", 1000), "32 % more"},
		{hot("a", 2320), hot("b", 1000), "2.3 times as many"},
		{hot("a", 5), hot("b", 0), ""},
		{hot("a", 0), hot("b", 5), "100 % fewer"},
	} {
		check.Equal(t, fmt.Sprint(tc.a.Runs, " beside ", tc.b.Runs), tc.want, tc.a.Compared(&tc.b))
	}
}

func TestRecommendation(t *testing.T) {
	lasting := &Autocorrelation{FiveMinutes: 0.93}
	moved := func(minutes float64) PolicyReport {
		p := hot("on+rebalance", minutes)
		p.Runs[0].Moves = 35
		return p
	}
	// Of 50,000 pods, 1 % may be pending beside the 300 of stock.
	pending := func(p PolicyReport, pods int) PolicyReport {
		p.Runs[0].Pending = pods
		return p
	}
	filled := func(pods int) *Report {
		r := hotReport(pending(hot(Stock, 1000), 300), hot("A", 400), pending(hot("B", 10), pods))
		r.Pods = 50_000
		return r
	}
	days := func(name string, minutes ...float64) PolicyReport {
		p := hot(name, 0)
		p.Runs[0].HotByDay = minutes
		for _, m := range minutes {
			p.Runs[0].HotMinutes += m
		}
		return p
	}
	const stay = "Recommendation: stay with stock: no other policy to choose has fewer hot node-minutes beyond noise"
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
			stay + "."},
		{"11 % are no noise", hotReport(hot(Stock, 1000), hot("A", 890)),
			"Recommendation: A: 11 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
		{"few hot node-minutes", hotReport(hot(Stock, 60), hot("A", 10)),
			"Recommendation: stay with stock: fewer than 100 hot node-minutes are too few to gain from."},
		{"noise", hotReport(hot(Stock, 1000), hot("A", 900)),
			stay + "."},
		// (1000 − 400)/1000 is 60 %.
		{"one run", hotReport(hot(Stock, 1000), hot("A", 400)),
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
		// 1 − 900/2000 is 55 %; the runs have 1 − 300/1000 and 1 − 600/1000.
		{"the range of several runs", hotReport(hot(Stock, 1000, 1000), hot("A", 300, 600)),
			"Recommendation: A: 55 % fewer hot node-minutes than stock (from 40 % fewer to 70 % fewer in 2 runs)."},
		// 1 − 460/1000 is 54 %; the second run has hot nodes that stock has not.
		{"a run without hot nodes of stock", hotReport(hot(Stock, 1000, 0), hot("A", 400, 60)),
			"Recommendation: A: 54 % fewer hot node-minutes than stock (from some where stock has none to 60 % fewer in 2 runs)."},
		// 1 − 840/1400 is 40 %. The days have 1 − 200/500, 450/100, 1 − 190/800 and equal zeros.
		{"the range of several days", hotReport(days(Stock, 500, 100, 800, 0), days("A", 200, 450, 190, 0)),
			"Recommendation: A: 40 % fewer hot node-minutes than stock (from 4.5 times as many to 76 % fewer in 4 days)."},
		// 35 moves in 21 of 24 hours are 40 a day.
		{"moves that gain", hotReport(hot(Stock, 1000), hot("on", 400), moved(200)),
			"Recommendation: on and the rebalancer: 80 % fewer hot node-minutes than stock (of one run, where 10 % is noise), with 40 moves a day."},
		{"moves that gain noise", hotReport(hot(Stock, 1000), hot("on", 400), moved(370)),
			"Recommendation: on: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); moves gain nothing beyond noise."},
		// 950 is within noise of 1000, and beyond noise of 1200.
		{"moves that only make up for placement", hotReport(hot(Stock, 1000), hot("on", 1200), moved(950)), stay + "."},
		{"a rebalancer whose windows are closed", hotReport(hot(Stock, 1000), hot("on", 400), hot("on+rebalance", 400)),
			"Recommendation: on: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); nothing moved."},
		{"heat that lasts, without moves", &Report{Autocorrelation: lasting, Policies: []PolicyReport{hot(Stock, 1000), hot("A", 400)}},
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); heat lasts, so replay A+rebalance too."},
		{"heat that lasts, and placement does not help", &Report{Autocorrelation: lasting, Policies: []PolicyReport{hot(Stock, 1000), hot("A", 990)}},
			stay + "; heat lasts, so replay A+rebalance too."},
		{"heat that lasts, with moves", &Report{Autocorrelation: lasting, Policies: []PolicyReport{hot(Stock, 400), hot("on", 390), moved(380)}},
			stay + "."},
		{"heat that lasts, and nothing reads load", &Report{Autocorrelation: lasting, Policies: []PolicyReport{hot(Stock, 400), hot("stock-2", 390)}},
			stay + "."},
		{"moves that the rebalancer refuses", hotReport(hot(Stock, 1000), hot(Stock+Rebalanced, 200)),
			stay + "; stock+rebalance has fewer, but the rebalancer refuses a profile that reads no load."},
		{"refused moves beside a policy", hotReport(hot(Stock, 1000), hot("A", 400), hot(Stock+Rebalanced, 200)),
			"Recommendation: A: 60 % fewer hot node-minutes than stock (of one run, where 10 % is noise); " +
				"stock+rebalance has fewer, but the rebalancer refuses a profile that reads no load."},
		{"801 pending pods are 501 more than of stock", filled(801), "Recommendation: A: 60 % fewer hot node-minutes than stock " +
			"(of one run, where 10 % is noise); B has fewer, but it leaves 501 more pods pending."},
		{"500 more are 1 % of the pods", filled(800), "Recommendation: B: 99 % fewer hot node-minutes than stock (of one run, where 10 % is noise)."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.report.CountedSeconds = 21 * 3600
			check.Equal(t, "recommendation", tc.want, tc.report.Recommendation())
		})
	}
	hour := hotReport(hot(Stock, 1000), hot("A", 400))
	hour.CountedSeconds = 52.5 * 60 // an hour, without the eighth that fills the cluster
	check.Contains(t, hour.Recommendation(), "than stock (of 0.9 hours, too short to tell from noise).")
}

func TestHeat(t *testing.T) {
	check.Equal(t, "unknown", "", (&Report{}).Heat())
	of := func(fiveMinutes float64) *Report {
		return &Report{Autocorrelation: &Autocorrelation{fiveMinutes}, Policies: []PolicyReport{hot(Stock, 1)}}
	}
	check.Equal(t, "PlanetLab", "The pods' CPU usages have an autocorrelation of 0.10 after five minutes: "+
		"heat passes within minutes, so moves help little.", of(0.1).Heat())
	check.Contains(t, printed(of(0.86)), "0.86 after five minutes: heat lasts, so moves can help.\n")
}
