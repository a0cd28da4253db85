package shadow

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestReport_Print(t *testing.T) {
	r := &Report{From: start, CoreShare: 0.0123, Workloads: []WorkloadCounts{
		{Namespace: "shop", Workload: "web", Counts: Counts{Pods: 3, Elsewhere: 2, Skipped: 1, HotMinutesMade: 30, HotMinutesPlimsoll: 12}},
		{Namespace: "shop", Counts: Counts{Pods: 1}},
		{Namespace: "build", Workload: "ci", Counts: Counts{Pods: 9}},
	}}
	r.keep("shop")
	p := &terminal.Printer{}
	r.Print(p)
	want := `NAMESPACE  WORKLOAD  PODS  ELSEWHERE  NOWHERE  SKIPPED  HOT-MINUTES  PLIMSOLL-HOT-MINUTES
shop       web       3     2          0        1        30           12
shop       -         1     0          0        0        0            0

Since 2026-01-02T03:58:30Z: 4 pods. Plimsoll would have placed 2 elsewhere, and 0 nowhere.
Plimsoll's choices have 60 % fewer predicted hot minutes: 12 in place of 30.
Skipped: 1 pod, because the share of the core was spent, no load was known, or the decision failed.
The shadow spends 1.2 % of a core.
`
	check.Equal(t, "text", want, p.String())
	empty := &Report{From: start.Add(time.Hour)}
	p = &terminal.Printer{}
	empty.Print(p)
	want = `Since 2026-01-02T04:58:30Z: 0 pods. Plimsoll would have placed 0 elsewhere, and 0 nowhere.
No pod was on a hot node, and none would have been.
The shadow spends 0.0 % of a core.
`
	check.Equal(t, "nothing counted", want, p.String())
}

func TestCounts_Verdict(t *testing.T) {
	for _, tc := range []struct {
		made, plimsoll int
		want           string
	}{
		{0, 5, "Plimsoll's choices have 5 predicted hot minutes, and those made have none."},
		{4, 5, "Plimsoll's choices have 25 % more predicted hot minutes: 5 in place of 4."},
		{5, 5, "Plimsoll's choices have as many predicted hot minutes: 5."},
		{5, 0, "Plimsoll's choices have 100 % fewer predicted hot minutes: 0 in place of 5."},
	} {
		check.Equal(t, fmt.Sprintf("%d made, %d of Plimsoll", tc.made, tc.plimsoll), tc.want,
			(&Counts{HotMinutesMade: tc.made, HotMinutesPlimsoll: tc.plimsoll}).verdict())
	}
}
