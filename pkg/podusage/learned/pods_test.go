package learned

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	check.Equal(t, "a pod not observed yet, to others", ofNew.Starting[load.CPU], ofNew.Foreign[load.CPU])
	// Ten times 20 are 200. The variance of values up to 200 is at most 100².
	small := running("new")
	small.Spec.Containers[0] = container("20m", "")
	check.Equal(t, "a small pod not observed yet, to others", Usage{Mean: 200, P95: 200, Variance: 10000, Learned: 200},
		p.OnNode(small).Foreign[load.CPU])
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
		check.Equal(t, fmt.Sprint(missed, " intervals missed: remembered"), remembered, usages[load.CPU].Mean == 0)
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
	check.Equal(t, "pods are remembered", podGap+1, len(s.pods))
}

func TestNarrow_DoesNotAllocate(t *testing.T) {
	s := measure(&Statistics{}, start, map[string]float64{"a": 100, "b": 300})
	moments := s.Lookup(workload("web"))
	check.Equal(t, "allocations", 0, testing.AllocsPerRun(100, func() { s.narrow(&moments, "a") }))
}

// ownedPod returns a pod with a controlling owner, unless kind is empty, and labels as keys and values in turn.
func ownedPod(namespace, kind, owner string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: owner + "-x", Labels: map[string]string{}}}
	if kind != "" {
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{
			{Kind: "Parent", Name: "parent"},
			{Kind: kind, Name: owner, Controller: &controller},
		}
	}
	for i := 0; i < len(labels); i += 2 {
		pod.Labels[labels[i]] = labels[i+1]
	}
	return pod
}

func TestWorkloadOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		// want is empty where the pod has no workload.
		want string
	}{
		{"a Deployment's pod", ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "pod-template-hash", "6d5f8c7b9d"), "web"},
		{"a hash shorter than most", ownedPod("shop", "ReplicaSet", "web-6d", "pod-template-hash", "6d"), "web"},
		{"a Rollout's pod has its hash in another label", ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d"), "web"},
		{"a ReplicaSet of nobody", ownedPod("shop", "ReplicaSet", "web"), "web"},
		{"a ReplicaSet whose name ends in a word", ownedPod("shop", "ReplicaSet", "web-frontend"), "web-frontend"},
		{"a label that is not the hash", ownedPod("shop", "ReplicaSet", "web-front", "pod-template-hash", "other"), "web-front"},
		{"a name that is a hash alone", ownedPod("shop", "ReplicaSet", "-6d5f8c7b9d", "pod-template-hash", "6d5f8c7b9d"), "-6d5f8c7b9d"},
		{"a StatefulSet's pod", ownedPod("shop", "StatefulSet", "db-6d5f8c7b9d"), "db-6d5f8c7b9d"},
		{"a DaemonSet's pod", ownedPod("shop", "DaemonSet", "agent"), "agent"},
		{"a Job's pod", ownedPod("shop", "Job", "migrate"), "migrate"},
		{"a CronJob's pod", ownedPod("shop", "Job", "report-29384756"), "report"},
		{"a Job with a date in its name", ownedPod("shop", "Job", "report-2026"), "report-2026"},
		{"a Job with seven digits and a letter", ownedPod("shop", "Job", "report-2938475a"), "report-2938475a"},
		{"another controller's pod", ownedPod("shop", "Cassandra", "ring-29384756"), "ring-29384756"},
		{"a pod without owner", ownedPod("shop", "", "debug"), ""},
		{"a pod of its node", ownedPod("kube-system", "Node", "worker-1"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := WorkloadOf(tc.pod, "")
			if ok != (tc.want != "") || ok && got != (Workload{tc.pod.Namespace, tc.want}) {
				t.Errorf("got %v, %v, want %q", got, ok, tc.want)
			}
		})
	}
}

func TestWorkloadOf_Label(t *testing.T) {
	const label = "team/app"
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"the label comes before the owner", ownedPod("shop", "DaemonSet", "agent", label, "monitoring"), "monitoring"},
		{"a pod without owner", ownedPod("shop", "", "debug", label, "monitoring"), "monitoring"},
		{"a pod without the label", ownedPod("shop", "DaemonSet", "agent"), "agent"},
		{"an empty label", ownedPod("shop", "DaemonSet", "agent", label, ""), "agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := WorkloadOf(tc.pod, label); !ok || got != workload(tc.want) {
				t.Errorf("got %v, %v, want %s", got, ok, tc.want)
			}
		})
	}
}

func TestWorkloadOf_OtherNamespacesAreOtherWorkloads(t *testing.T) {
	for _, label := range []string{"", "app"} {
		ours, _ := WorkloadOf(ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "app", "web", "pod-template-hash", "6d5f8c7b9d"), label)
		theirs, _ := WorkloadOf(ownedPod("mallory", "ReplicaSet", "web-6d5f8c7b9d", "app", "web", "pod-template-hash", "6d5f8c7b9d"),
			label)
		if ours == theirs {
			t.Errorf("label %q: both are %v", label, ours)
		}
	}
}

func TestWorkloadOf_DoesNotAllocate(t *testing.T) {
	pod := ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "pod-template-hash", "6d5f8c7b9d")
	check.Equal(t, "allocations", 0, testing.AllocsPerRun(100, func() { WorkloadOf(pod, "app") }))
}

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
		{"that ends with the interval", [][]podShare{{old, {"new", 1000, 0.5}}, {old, {"new", 100, 1}}}, Startup{870.968, 150 * time.Second}},
		// (4050 · 133.33 + 600 · 450) / 4650 = 174.19; (800 − 174.19) / (1000 − 174.19) = 0.7578, and 150 s + 0.7578 · 300 s.
		{"that lasts", [][]podShare{{old, {"new", 1000, 0.5}}, {old, {"new", 800, 1}}}, Startup{825.806, 377344 * time.Millisecond}},
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
	check.Equal(t, "startups: it does not differ from usage in general", 0, len(s.startups))
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
	if e := s.startups[s.hash(Workload{"shop", "web"})]; e.First != 500 || e.Next != 100 {
		t.Errorf("%vm in the interval of a start, and %vm in the next; want 500m and 100m", e.First, e.Next)
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
		{"a request", container("2", ""), float64(all.First) - mean, 20000 - mean},
		{"a limit", container("2", "15"), 15000 - mean, 15000 - mean},
		{"a limit beyond ten times the request", container("2", "30"), 30000 - mean, 20000 - mean},
		{"neither", container("", ""), float64(all.First) - mean, 0},
		{"a request below the mean", container("100m", ""), float64(all.First) - mean, 0},
	} {
		pod := running("another")
		pod.Spec.Containers[0] = tc.container
		incoming, onNode := p.Incoming(pod)[load.CPU].Startup, p.OnNode(pod).Startup.Excess
		if math.Abs(incoming-tc.incoming) > 1 || math.Abs(onNode-tc.onNode) > 1 {
			t.Errorf("%s: %v of the pod to place and %v on a node, want %v and %v", tc.name, incoming, onNode, tc.incoming, tc.onNode)
		}
	}
	p.MinHistory = 24 * time.Hour
	check.Equal(t, "startup without MinHistory", Startup{}, p.OnNode(running("another")).Startup)
}
