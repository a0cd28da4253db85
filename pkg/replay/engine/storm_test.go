package engine

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// A pod uses 90 % of its node for 90 s after each start, and 50 % from then on. It starts at 0:30, and is hot until 2:00. At 10:00 its
// node is lost: it starts again at 10:30 on the other one. At 12:00 that is lost too. The first is back at 25:00. So the pod starts at
// 25:30, and waits in the 26 ticks from 12:00 on. The quarter of an hour after the second storm ends at 27:00. The pod ran for 11
// of its 40 minutes before, and ends at 54:30. From 0:00 to 12:00 and from 25:00 to 54:30, in 83 of 120 ticks, a node has a pod.
func TestReplay_Storms(t *testing.T) {
	in := tiny([]input.Workload{{Namespace: "n", Name: "w", Startup: input.Startup{CPUMillis: 900, Seconds: 90}}},
		steady(0, 0, 40*time.Minute, 500))
	in.Storms = []input.Storm{
		{At: 5 * time.Minute},
		{At: 10 * time.Minute, LostUtilization: 0.6},
		{At: 12 * time.Minute, LostUtilization: 0.1},
	}
	for _, name := range []string{report.Stock, report.Clairvoyant, "stock+rebalance"} {
		p := policy(t, report.Stock)
		if name == "stock+rebalance" {
			p = p.WithRebalancer(small(), halfMinutes)
		} else {
			p = policy(t, name)
		}
		got := replayOne(t, in, p)
		if got.HotMinutes != 4.5 || got.StormMinutes != 3 || got.PendingMinutes != 13 || got.Pending != 0 {
			t.Errorf("%s: hot %v, after storms %v, pending %v minutes and %d pods; want 4.5, 3, 13 and 0", name, got.HotMinutes,
				got.StormMinutes, got.PendingMinutes, got.Pending)
		}
		if got.NodesInUse != 83.0/120 {
			t.Errorf("%s: %v nodes in use, want 83/120", name, got.NodesInUse)
		}
	}
}

// The node at 50 % is closer to 60 % than that at 90 %, and is lost. Its pod joins the other one.
func TestReplay_LosesTheClosestNode(t *testing.T) {
	in := tiny([]input.Workload{{Namespace: "n", Name: "w", Requests: input.Amounts{CPUMillis: 500}}},
		steady(0, 0, 2*time.Hour, 900), steady(0, 0, 2*time.Hour, 500))
	in.Storms = []input.Storm{{At: 40 * time.Minute, LostUtilization: 0.6}}
	got := replayOne(t, in, policy(t, report.Stock))
	// One node has 90 % from 0:30 on, and 140 % from 40:30 to the end. The storm ends at 55:00.
	if got.HotMinutes != 59.5 || got.SevereMinutes != 19.5 || got.StormMinutes != 15 {
		t.Errorf("%v hot and %v severe minutes, %v after storms; want 59.5, 19.5 and 15", got.HotMinutes, got.SevereMinutes,
			got.StormMinutes)
	}
}

// The first pod takes the first node until 5:00, and so the second pod the other node. That is lost at 10:00, and its pod goes to the
// first node. Whoever knows the future places the third pod on the lost node, which is back at 25:00. With both pods, the first node
// would have 90 %.
func TestReplay_StormClairvoyant(t *testing.T) {
	in := tiny([]input.Workload{{Namespace: "n", Name: "w"}},
		steady(0, 0, 4*time.Minute+30*time.Second, 700), steady(0, 0, 2*time.Hour, 600), steady(0, 30*time.Minute, time.Hour, 300))
	in.Storms = []input.Storm{{At: 10 * time.Minute, LostUtilization: 0.6}}
	if got := replayOne(t, in, policy(t, report.Clairvoyant)); got.HotMinutes != 0 {
		t.Errorf("%v hot minutes, want none", got.HotMinutes)
	}
}
