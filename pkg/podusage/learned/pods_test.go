package learned

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// noDecay makes observations of a few hours count alike.
var noDecay = Config{History: 1e5 * time.Hour, MaxWorkloads: 100}

// running returns a pod of the DaemonSet "web", without limits.
func running(uid string) *corev1.Pod {
	pod := ownedPod("shop", "DaemonSet", "web")
	pod.UID, pod.Spec.Containers = types.UID(uid), []corev1.Container{container("1", "")}
	return pod
}

// measure adds an observation of cpu for each interval of usages, in milliCPU by UID.
func measure(s *Statistics, at time.Time, intervals ...map[string]float64) *Statistics {
	for i, usages := range intervals {
		tally := NewTally("", podusage.Amounts{})
		for uid, usage := range usages {
			tally.Add(running(uid), load.CPU, usage, 0, 1)
		}
		s = s.WithTally(tally, at.Add(time.Duration(i)*span), span, noDecay)
	}
	return s
}

func checkPrediction(t *testing.T, what string, got Usage, mean, variance float64) {
	t.Helper()
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-4*max(want, 1) }
	if !near(got.Mean, mean) || !near(got.Variance, variance) || !near(got.P95, mean+1.64*math.Sqrt(variance)) {
		t.Errorf("%s: got %+v, want mean %v, variance %v", what, got, mean, variance)
	}
}

// TestOnNode_APodIsNotItsSiblings has one pod of twenty use 8 cores for an hour, while the others use nothing.
func TestOnNode_APodIsNotItsSiblings(t *testing.T) {
	usages := map[string]float64{"busy": 8000}
	for i := range 19 {
		usages[fmt.Sprint("idle-", i)] = 0
	}
	s := &Statistics{}
	for i := range 12 {
		s = measure(s, start.Add(time.Duration(i)*span), usages)
	}
	p := predictor(0)
	p.Statistics = s

	// No pod varies: Within is 0, and a pod's own mean counts alone.
	for uid, want := range map[string]float64{"busy": 8000, "idle-7": 0} {
		u := p.OnNode(running(uid))
		checkPrediction(t, uid, u.Starting[load.CPU], want, 0)
		checkPrediction(t, uid+", steady", u.Steady[load.CPU], want, 0)
		checkPrediction(t, uid+", to others", u.Foreign[load.CPU], want, 0)
	}
	// Mean 8000/20 = 400; variance 8000²/20 − 400² = 3040000.
	ofNew := p.OnNode(running("new"))
	checkPrediction(t, "a pod not observed yet", ofNew.Starting[load.CPU], 400, 3040000)
	// Up to ten times its request of 1,000, others see the same.
	if got, want := ofNew.Foreign[load.CPU], ofNew.Starting[load.CPU]; got != want {
		t.Errorf("a pod not observed yet, to others: %v, want %v", got, want)
	}
	// Ten times 20 are 200. The variance of values up to 200 is at most 100².
	small := running("new")
	small.Spec.Containers[0] = container("20m", "")
	if got, want := p.OnNode(small).Foreign[load.CPU], (Usage{Mean: 200, P95: 200, Variance: 10000, Learned: 200}); got != want {
		t.Errorf("a small pod not observed yet, to others: %v, want %v", got, want)
	}
	checkPrediction(t, "another pod to place", p.Incoming(running("idle-7"))[load.CPU], 400, 3040000)
}

// TestOnNode_SiblingsWithinLimits has one pod of 41 use 8 cores every other interval. The others always use 60m of a limit of 100m.
func TestOnNode_SiblingsWithinLimits(t *testing.T) {
	s := &Statistics{}
	for i := range 12 {
		usages := map[string]float64{"busy": 8000 * float64(i%2)}
		for j := range 40 {
			usages[fmt.Sprint("quiet-", j)] = 60
		}
		s = measure(s, start.Add(time.Duration(i)*span), usages)
	}
	p := predictor(0)
	p.Statistics = s
	quiet := running("quiet-0")
	quiet.Spec.Containers[0] = container("10m", "100m")

	// Twice the peak of 60 are 120. The variance of values up to 120 is at most 60², whatever that of the workload is.
	for name, u := range map[string]Usages{"steady": p.OnNode(quiet).Steady, "to others": p.OnNode(quiet).Foreign} {
		if got := u[load.CPU]; got.P95 != 100 || got.Variance != 3600 {
			t.Errorf("%s: got %+v, want the limit of 100 as peak and a variance of 3600", name, got)
		}
	}
}

func TestOnNode_OwnUsageCountsWithTime(t *testing.T) {
	type usages = map[string]float64
	type want struct{ mean, variance float64 }
	for _, tc := range []struct {
		name      string
		intervals []usages
		want      map[string]want
	}{
		// Workload: mean 1000, variance 1000². Within: (0 + 2000²/2)/2 = 2e6/2 a pod, so nothing is between pods.
		// Each pod alone: mean 1000, variance 1000².
		{"alike", []usages{{"a": 0, "b": 0}, {"a": 2000, "b": 2000}}, map[string]want{"a": {1000, 1e6}, "b": {1000, 1e6}}},
		// Workload: mean 500, variance 2000²/4 − 500² = 750000; within 2e6/4 = 500000, between 250000. That is less than within: the
		// workload counts as 30 minutes, the pod as 10. Of a, .75·500 + .25·1000 and .75·750000 + .25·1e6; of b, .75 of both.
		{"more within than between", []usages{{"a": 0, "b": 0}, {"a": 2000, "b": 0}}, map[string]want{"a": {625, 812500}, "b": {375, 562500}}},
		// Workload: mean 3000, variance (2000² + 2·5000²)/4 − 3000² = 4.5e6; within 500000, between 4e6. The workload counts as
		// 30/8 = 3.75 minutes, the pod as 10: 3/11 and 8/11. Of b: 3/11·3000 + 8/11·5000 and 3/11·4.5e6.
		{"more between than within", []usages{{"a": 0, "b": 5000}, {"a": 2000, "b": 5000}}, map[string]want{"b": {49000. / 11, 13.5e6 / 11}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := predictor(0)
			p.MinHistory = 0
			p.Statistics = measure(&Statistics{}, start, tc.intervals...)
			for uid, want := range tc.want {
				usages := p.OnNode(running(uid)).Starting
				checkPrediction(t, uid, usages[load.CPU], want.mean, want.variance)
			}
		})
	}
}

// TestOnNode_Gaps has the idle pod of two, both constant, observed again after some intervals, or not at all.
func TestOnNode_Gaps(t *testing.T) {
	for missed, remembered := range map[int]bool{0: true, 2: true, 3: false} {
		p := predictor(0)
		p.MinHistory = 0
		s := measure(&Statistics{}, start, map[string]float64{"busy": 1000, "idle": 0})
		for i := range missed + 1 {
			s = measure(s, start.Add(time.Duration(i+1)*span), map[string]float64{"busy": 1000})
		}
		p.Statistics = s
		usages := p.OnNode(running("idle")).Starting
		if got := usages[load.CPU].Mean == 0; got != remembered {
			t.Errorf("%d intervals missed: remembered %t, want %t", missed, got, remembered)
		}
	}
}

func TestWithTally_DiscardsPods(t *testing.T) {
	tally := NewTally("", podusage.Amounts{})
	tally.Add(running("a"), load.CPU, 1000, 0, 1)
	tally.Add(running("a"), load.Memory, 7, 0, 1)
	tally.Discard(load.Memory)
	s := (&Statistics{}).WithTally(tally, start, span, noDecay)
	e := s.pods[s.podHash("a")]
	if e.resources[load.CPU].mean != 1000 || e.resources[load.Memory].seconds != 0 {
		t.Errorf("got %+v, want 1000 milliCPU and no memory", e)
	}
}

// TestOnNode_ImpossibleUsage has a pod use nothing, but for an interval with a usage whose square no float32 holds.
func TestOnNode_ImpossibleUsage(t *testing.T) {
	p := predictor(0)
	p.MinHistory = 0
	p.Statistics = measure(&Statistics{}, start, map[string]float64{"a": 0}, map[string]float64{"a": 1e20}, map[string]float64{"a": 0})
	usages := p.OnNode(running("a")).Starting
	checkPrediction(t, "a", usages[load.CPU], 0, 0)
}

// TestWithTally_PodsOfADay bounds what is remembered of pods that end: those of the last three intervals.
func TestWithTally_PodsOfADay(t *testing.T) {
	s := &Statistics{}
	for i := range 288 {
		s = measure(s, start.Add(time.Duration(i)*span), map[string]float64{fmt.Sprint("pod-", i): 100})
	}
	if got := len(s.pods); got != podGap+1 {
		t.Errorf("%d pods are remembered, want %d", got, podGap+1)
	}
}

func TestNarrow_DoesNotAllocate(t *testing.T) {
	s := measure(&Statistics{}, start, map[string]float64{"a": 100, "b": 300})
	moments := s.Lookup(workload("web"))
	if allocations := testing.AllocsPerRun(100, func() { s.narrow(&moments, "a") }); allocations != 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}
