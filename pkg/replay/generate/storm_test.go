package generate

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

func TestInput_Storms(t *testing.T) {
	var storm Scenario
	for _, s := range Scenarios() {
		if s.Storms {
			storm = s
		}
	}
	in := generated(t, storm, 100, 1)
	created := map[time.Duration]int{}
	workloadAt := map[time.Duration]int{}
	for i := range in.Pods {
		p := &in.Pods[i]
		created[p.Arrival]++
		workloadAt[p.Arrival] = p.Workload
	}
	// The counted 21 hours have room for 32 storms, 40 minutes apart.
	if len(in.Storms) != 32 {
		t.Errorf("%d storms, want 32", len(in.Storms))
	}
	for i, s := range in.Storms {
		earliest := 3*time.Hour + time.Duration(i)*40*time.Minute
		switch {
		case s.At < earliest.Truncate(input.Tick) || s.At > earliest+5*time.Minute || s.At%input.Tick != 0:
			t.Errorf("storm %d is at %s, want a tick from %s to 5 minutes later", i, s.At, earliest)
		case i%2 == 1 && s.LostUtilization != 0.6, i%2 == 0 && s.LostUtilization != 0:
			t.Errorf("storm %d loses a node of %v; want 0.6 in every second one", i, s.LostUtilization)
		case i%2 == 0 && created[s.At] != 50:
			t.Errorf("%d pods are created in storm %d, want 50", created[s.At], i)
		}
	}
	// Two services take turns: that of the first storm is created again in the fifth. It requests its mean, and starts with 4 times it.
	first, again := workloadAt[in.Storms[0].At], workloadAt[in.Storms[4].At]
	if other := workloadAt[in.Storms[2].At]; first != again || first == other {
		t.Errorf("workload %d in the first storm, %d in the third and %d in the fifth", first, other, again)
	}
	if w := &in.Workloads[first]; math.Abs(w.Startup.CPUMillis/w.Requests.CPUMillis-4) > 0.01 || w.Limits.CPUMillis != 0 {
		t.Errorf("%+v; want a startup of 4 times the request, and no limit", w)
	}
	startups := 0
	for i := range in.Workloads {
		if s := in.Workloads[i].Startup; s.Seconds == 90 && s.CPUMillis > 0 {
			startups++
		}
	}
	if share := float64(startups) / float64(len(in.Workloads)); share < 0.45 || share > 0.55 {
		t.Errorf("%.2f of the workloads have a startup, want half", share)
	}
}
