package learned

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// podShare is the cpu usage of a pod, in milliCPU, over a share of an interval.
type podShare struct {
	uid          string
	usage, share float64
}

// startedPods are the statistics of a pod that uses 100m for an hour, and of the intervals after it.
func startedPods(intervals ...[]podShare) *Statistics {
	s := &Statistics{}
	for range 12 {
		s = measure(s, start, map[string]float64{"old": 100})
	}
	for i, pods := range intervals {
		tally := NewTally("", podusage.Amounts{})
		for _, p := range pods {
			tally.Add(running(p.uid), load.CPU, p.usage, 0, p.share)
		}
		s = s.WithTally(tally, start.Add(time.Duration(i+1)*span), span, noDecay)
	}
	return s
}

func TestStartup(t *testing.T) {
	old := podShare{"old", 100, 1}
	for _, tc := range []struct {
		name      string
		intervals [][]podShare
		want      Startup
	}{
		{"none started", [][]podShare{{old}}, Startup{}},
		// (3600 · 100 + 300 · 100 + 150 · 1000) / 4050 = 133.33, and 1000 − 133.33 = 866.67.
		{"a pod that ran for half an interval", [][]podShare{{old, {"new", 1000, 0.5}}}, Startup{866.667, 150 * time.Second}},
		// (4050 · 133.33 + 600 · 100) / 4650 = 129.03
		{
			"that ends with the interval", [][]podShare{{old, {"new", 1000, 0.5}}, {old, {"new", 100, 1}}},
			Startup{870.968, 150 * time.Second},
		},
		// (4050 · 133.33 + 600 · 450) / 4650 = 174.19; (800 − 174.19) / (1000 − 174.19) = 0.7578, and 150 s + 0.7578 · 300 s.
		{
			"that lasts", [][]podShare{{old, {"new", 1000, 0.5}}, {old, {"new", 800, 1}}},
			Startup{825.806, 377344 * time.Millisecond},
		},
		// (3600 · 100 + 300 · 100 + 300 · 1000) / 4200 = 164.29; 1000 − 164.29
		{"of two pods", [][]podShare{{old, {"new", 700, 0.5}, {"other", 1300, 0.5}}}, Startup{835.714, 150 * time.Second}},
		// No start is observed of a pod that ran for 105 s of its first interval.
		{"what follows too short a run", [][]podShare{{old, {"new", 1000, 0.35}}, {old, {"new", 800, 1}}}, Startup{}},
		{"a pod that ran for less than two minutes", [][]podShare{{old, {"new", 1000, 0.3}}}, Startup{}},
		{"a pod that ran before the first observation", [][]podShare{{old, {"new", 1000, 1}}}, Startup{}},
		{"as much as later", [][]podShare{{old, {"new", 100, 0.5}}}, Startup{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, got := startedPods(tc.intervals...).lookup(Workload{"shop", "web"})
			if math.Abs(got.Excess-tc.want.Excess) > 1e-2 || (got.Length-tc.want.Length).Abs() > 10*time.Millisecond {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// The first pods of a workload show no startup: all that was observed of them is one. It shows once others start.
func TestStartup_IsKeptForNewWorkloads(t *testing.T) {
	s := &Statistics{}
	add := func(after time.Duration, usage, share float64) {
		tally := NewTally("", podusage.Amounts{})
		tally.Add(running("new"), load.CPU, usage, 0, share)
		s = s.WithTally(tally, start.Add(after), span, noDecay)
	}
	add(0, 1000, 0.5)
	if _, got := s.lookup(Workload{"shop", "web"}); got != (Startup{}) || len(s.startups) != 1 {
		t.Errorf("%+v of %d workloads, want none of one", got, len(s.startups))
	}
	add(span, 100, 1)
	// (150 · 1000 + 300 · 100) / 450 = 400, with a deviation of 424: 1000 − 400 = 600 are more.
	if _, got := s.lookup(Workload{"shop", "web"}); math.Abs(got.Excess-600) > 1e-2 {
		t.Errorf("%+v, want 600", got)
	}
	add(2*time.Hour, 1000, 1)
	add(3*time.Hour, 1000, 1)
	// (450 · 400 + 600 · 1000) / 1050 = 743: 257 are within the deviation.
	if len(s.startups) != 0 {
		t.Errorf("%d startups, want none: it does not differ from usage in general", len(s.startups))
	}
}

// With a history of an hour, a full interval decays to 300 · e^(−1/12) = 276 s. The next one is not that after a start. One pod
// starts in the first interval, with 500m, and uses 100m after that.
func TestStartup_ShortHistory(t *testing.T) {
	s := &Statistics{}
	for i, pods := range [][]podShare{
		{{"old", 100, 1}, {"starts", 500, 0.5}},
		{{"old", 900, 1}, {"starts", 100, 1}, {"new", 100, 1}},
		{{"old", 900, 1}, {"new", 900, 1}},
	} {
		tally := NewTally("", podusage.Amounts{})
		for _, p := range pods {
			tally.Add(running(p.uid), load.CPU, p.usage, 0, p.share)
		}
		s = s.WithTally(tally, start.Add(time.Duration(i)*span), span, Config{History: time.Hour, MaxWorkloads: 10})
	}
	if e := s.startups[s.hash(Workload{"shop", "web"})]; e.first != 500 || e.next != 100 {
		t.Errorf("%vm in the interval of a start, and %vm in the next; want 500m and 100m", e.first, e.next)
	}
}

// metrics-server measures some seconds. They say little of the minutes after a start.
func TestStartup_Momentary(t *testing.T) {
	tally := NewTally("", podusage.Amounts{})
	tally.Momentary()
	tally.Add(running("new"), load.CPU, 1000, 0, 0.5)
	if s := new(Statistics).WithTally(tally, start, span, noDecay); len(s.startups) != 0 {
		t.Errorf("%+v, want none", s.startups)
	}
}

// A tenant fakes a startup of a hundred cores. A pod counts up to its limit. On a node it counts up to ten times its request, as
// without statistics.
func TestStartup_WithinTheClaim(t *testing.T) {
	s := startedPods([]podShare{{"old", 100, 1}, {"new", 1e5, 0.5}})
	p := predictor(0).At(s)
	mean := s.Lookup(Workload{"shop", "web"})[load.CPU].Mean
	all := s.startups[s.hash(Workload{"shop", "web"})]
	for _, tc := range []struct {
		name             string
		container        corev1.Container
		incoming, onNode float64
	}{
		{"a request", container("2", ""), float64(all.first) - mean, 20000 - mean},
		{"a limit", container("2", "15"), 15000 - mean, 15000 - mean},
		{"a limit beyond ten times the request", container("2", "30"), 30000 - mean, 20000 - mean},
		{"neither", container("", ""), float64(all.first) - mean, 0},
		{"a request below the mean", container("100m", ""), float64(all.first) - mean, 0},
	} {
		pod := running("another")
		pod.Spec.Containers[0] = tc.container
		incoming, onNode := p.Incoming(pod)[load.CPU].Startup, p.OnNode(pod).Startup.Excess
		if math.Abs(incoming-tc.incoming) > 1 || math.Abs(onNode-tc.onNode) > 1 {
			t.Errorf("%s: %v of the pod to place and %v on a node, want %v and %v", tc.name, incoming, onNode, tc.incoming, tc.onNode)
		}
	}
	p.MinHistory = 24 * time.Hour
	if got := p.OnNode(running("another")).Startup; got != (Startup{}) {
		t.Errorf("%v without MinHistory, want none", got)
	}
}
