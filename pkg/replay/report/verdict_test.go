package report

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			// 450/1000 = 0.45, 900/450 = 2, 450/225 = 2; the second run has more than stock's.
			hotReport(hot(Stock, 900, 100), hot("B", 800, 100), hot("A", 300, 150), hot(Clairvoyant, 150, 75)),
			[]string{
				"A has 0.45 × the hot node-minutes of stock; fewer in 1 of 2 runs.",
				"The next best, B, has 2.00 × as many as A.",
				"A has 2.00 × as many as clairvoyant, which knows the future.",
			}},
		{"a difference to stock of 10 % is noise",
			hotReport(hot(Stock, 1000), hot("A", 900)),
			[]string{"No policy has fewer hot node-minutes than stock beyond noise. A has the fewest, 0.90 × stock."}},
		{"a difference to stock of 11 % on one day is not",
			hotReport(hot(Stock, 1000), hot("A", 890)),
			[]string{"A has 0.89 × the hot node-minutes of stock."}},
		{"a difference to the next best below 10 % is noise",
			hotReport(hot(Stock, 1000), hot("B", 520), hot("A", 500)),
			[]string{
				"A has 0.50 × the hot node-minutes of stock.",
				"B and A differ only within noise.",
			}},
		{"stock may be the best",
			hotReport(hot(Stock, 500), hot("A", 1000)),
			[]string{"No policy has fewer hot node-minutes than stock.", "The next best, A, has 2.00 × as many as stock."}},
		{"without stock, policies are compared with each other",
			hotReport(hot("A", 500), hot("B", 1000)),
			[]string{"A has the fewest hot node-minutes.", "The next best, B, has 2.00 × as many as A."}},
		{"one policy is compared with nothing", hotReport(hot("A", 500, 600)), []string{"A has 1,100 hot node-minutes in 2 runs."}},
		{"of an interrupted replay, common runs are compared",
			hotReport(hot(Stock, 1000, 3000), hot("A", 500)),
			[]string{"A has 0.50 × the hot node-minutes of stock."}},
		{"few hot node-minutes say nothing", hotReport(hot(Stock, 60, 39), hot("A", 10, 20)),
			[]string{"Fewer than 100 hot node-minutes: too few to compare policies."}},
		{"clairvoyant without hot node-minutes has no ratio",
			hotReport(hot(Stock, 1000), hot("A", 500), hot(Clairvoyant, 0)),
			[]string{"A has 0.50 × the hot node-minutes of stock.", "Clairvoyant, which knows the future, has none."}},
		{"a report may be empty", hotReport(), []string{"No policy has a finished run."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.report.Verdict()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
