package promql

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

func TestPodQueries_Parse(t *testing.T) {
	check := func(promql string) {
		t.Helper()
		if parse(promql) == nil {
			t.Errorf("%s: does not parse", promql)
		}
		// Proxies that allow GET alone need queries in a URL: encoded, at most 6 KiB.
		if len(promql) > 3<<10 {
			t.Errorf("%d bytes: %s", len(promql), promql)
		}
	}
	check(PodCount(PodOwners))
	for _, q := range PodFamilies() {
		check(PodCount(q.Selector(load.CPU)))
		check(q.In([]string{"shop", "team-a"}).Usage(load.CPU))
		for r := range load.ResourceCount {
			check(q.Usage(r))
			for i := range SumCount {
				for _, period := range []time.Duration{10 * time.Minute, 6 * time.Hour, 7*time.Hour + 11*time.Second, 180 * time.Hour} {
					for _, owners := range []bool{false, true} {
						check(q.History(r, i, period, 35*time.Minute, owners))
					}
					check(RecordedLooks(r, period))
					check(RecordedHistory(r, i, period, nil))
					check(RecordedHistory(r, i, period, []string{"a", "\"}|.*\n"}))
				}
			}
		}
	}
	for _, rule := range RecordingRules() {
		check(rule.Expr)
	}
}
