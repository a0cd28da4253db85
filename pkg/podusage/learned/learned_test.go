package learned

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

const (
	day  = 24 * time.Hour
	span = 5 * time.Minute
)

var bounds = Config{History: day, MaxWorkloads: 100}

func workload(name string) Workload { return Workload{"shop", name} }

// observed is what pods of the workload used of cpu over the five minutes until at, in milliCPU.
func observed(name string, at time.Time, usages ...float64) Observation {
	o := Observation{Workload: workload(name), Resource: load.CPU, At: at, Span: span}
	for _, usage := range usages {
		o.Pods++
		o.Sum += usage
		o.SumSquares += usage * usage
	}
	return o
}

func learn(s *Statistics, observations ...Observation) *Statistics {
	return s.With(observations, ClusterUsage{}, bounds)
}

// checkMoments compares to seven digits, since statistics are kept as float32.
func checkMoments(t *testing.T, got, want Moments) {
	t.Helper()
	near := func(got, want float64) bool { return math.Abs(got-want) <= 2e-6*math.Abs(want) }
	if !near(got.PodTime.Seconds(), want.PodTime.Seconds()) || !near(got.Mean, want.Mean) || !near(got.Variance, want.Variance) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStatistics(t *testing.T) {
	share := math.Exp(-1) // of what was observed a day ago
	for _, tc := range []struct {
		name         string
		observations [][]Observation
		want         Moments
	}{
		{
			name:         "the pods of one moment",
			observations: [][]Observation{{observed("web", start, 100, 300)}},
			want:         Moments{PodTime: 2 * span, Mean: 200, Variance: 10000}, // 100² each
		},
		{name: "one pod has no deviation", observations: [][]Observation{{observed("web", start, 100)}}, want: Moments{PodTime: span, Mean: 100}},
		{
			name: "several observations of one moment are those of all their pods", observations: [][]Observation{{observed("web", start, 100, 300), observed("web", start, 500)}},
			want: Moments{PodTime: 3 * span, Mean: 300, Variance: (200*200 + 0 + 200*200) / 3.0},
		},
		{
			name:         "a pod that was observed for half of the time has half the weight",
			observations: [][]Observation{{observed("web", start, 100), {Workload: workload("web"), At: start, Span: span, Pods: .5, Sum: .5 * 400, SumSquares: .5 * 400 * 400}}},
			// (100 + 200) / 1.5; (100²·1 + 200²·0.5) / 1.5
			want: Moments{PodTime: span * 3 / 2, Mean: 200, Variance: 20000},
		},
		{
			name:         "what was observed a day before has 1/e of the weight",
			observations: [][]Observation{{observed("web", start, 100)}, {observed("web", start.Add(day), 400)}},
			want: Moments{
				PodTime: time.Duration((1 + share) * float64(span)),
				Mean:    (share*100 + 400) / (1 + share),
				// The squared distance of the two, 300², times both shares.
				Variance: 300 * 300 * share / (1 + share) / (1 + share),
			},
		},
		{
			name: "the order does not matter", observations: [][]Observation{{observed("web", start.Add(day), 400)}, {observed("web", start, 100)}},
			want: Moments{PodTime: time.Duration((1 + share) * float64(span)), Mean: (share*100 + 400) / (1 + share), Variance: 300 * 300 * share / (1 + share) / (1 + share)},
		},
		{
			name: "time without pods ages what is known", observations: [][]Observation{{observed("web", start, 100, 300)}, {observed("other", start.Add(day), 1)}},
			want: Moments{PodTime: time.Duration(2 * share * float64(span)), Mean: 200, Variance: 10000},
		},
		{
			name: "what is impossible is left out",
			observations: [][]Observation{{
				observed("web", start, 100),
				observed("web", start, math.NaN()), observed("web", start, math.Inf(1)), observed("web", start, -1),
				observed("web", start, 1e16),
				{Workload: workload("web"), At: start, Span: span},
				{Workload: workload("web"), At: start, Span: span, Pods: math.NaN(), Sum: 1, SumSquares: 1},
				{Workload: workload("web"), At: start, Span: span, Pods: math.Inf(1), Sum: 1, SumSquares: 1},
				{Workload: workload("web"), At: start, Span: -span, Pods: 1, Sum: 1, SumSquares: 1},
				{Workload: workload("web"), At: start, Span: span, Pods: 1, Sum: 1, SumSquares: math.Inf(1)},
			}},
			want: Moments{PodTime: span, Mean: 100},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Statistics{}
			for _, observations := range tc.observations {
				s = learn(s, observations...)
			}
			moments := s.Lookup(workload("web"))
			checkMoments(t, moments[load.CPU], tc.want)
			checkMoments(t, moments[load.Memory], Moments{})
		})
	}
}

func TestStatistics_LargestValuesStayFinite(t *testing.T) {
	s := &Statistics{}
	for i := range 10 {
		s = learn(s, observed("web", start.Add(time.Duration(i)*span), 0, 1e15))
	}
	if m := s.Lookup(workload("web"))[load.CPU]; math.IsInf(m.Variance, 0) || math.IsNaN(m.StdDev()) {
		t.Errorf("got %+v", m)
	}
}

func TestStatistics_IsNotChanged(t *testing.T) {
	before := learn(&Statistics{}, observed("web", start, 100))
	after := learn(before, observed("web", start.Add(span), 300), observed("new", start.Add(span), 1))
	checkMoments(t, before.Lookup(workload("web"))[load.CPU], Moments{PodTime: span, Mean: 100})
	if before.Len() != 1 || after.Len() != 2 || !before.At().Equal(start) || !after.At().Equal(start.Add(span)) {
		t.Errorf("%d workloads at %v, then %d at %v", before.Len(), before.At(), after.Len(), after.At())
	}
}

func TestStatistics_Empty(t *testing.T) {
	for _, s := range []*Statistics{{}, learn(&Statistics{}), NewPublisher().Latest()} {
		if got := s.Lookup(workload("web")); got != [load.ResourceCount]Moments{} || s.Len() != 0 || !s.At().IsZero() {
			t.Errorf("an empty snapshot knows %+v", got)
		}
	}
}

func TestStatistics_Cluster(t *testing.T) {
	want := ClusterUsage{UsagePerRequest: [load.ResourceCount]float64{.4, .7}}
	if got := (&Statistics{}).With(nil, want, bounds).Cluster(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStatistics_NamespacesAreApart(t *testing.T) {
	theirs := observed("web", start, 8000)
	theirs.Workload.Namespace = "mallory"
	// A name that would be that of the other namespace if both were joined.
	joined := observed("", start, 8000)
	joined.Workload = Workload{"", "shop/web"}
	s := learn(&Statistics{}, observed("web", start, 100), theirs, joined)
	checkMoments(t, s.Lookup(workload("web"))[load.CPU], Moments{PodTime: span, Mean: 100})
	check.Equal(t, "workloads", 3, s.Len())
}

func TestStatistics_Forgets(t *testing.T) {
	s := learn(&Statistics{}, observed("ended", start, 100))
	for _, tc := range []struct {
		after time.Duration
		known bool
	}{{day, true}, {2 * day, true}, {3 * day, true}, {3*day + time.Second, false}} {
		later := learn(s, observed("web", start.Add(tc.after), 1))
		if known := later.Lookup(workload("ended"))[load.CPU].PodTime > 0; known != tc.known {
			t.Errorf("%v after its last pod a workload is known: %v, want %v", tc.after, known, tc.known)
		}
	}
}

func TestStatistics_KeepsThoseWithMostPodTime(t *testing.T) {
	bounds := Config{History: day, MaxWorkloads: 3}
	with := func(s *Statistics, observations ...Observation) *Statistics {
		return s.With(observations, ClusterUsage{}, bounds)
	}
	known := func(s *Statistics, want ...string) {
		t.Helper()
		check.Equal(t, "workloads are known", len(want), s.Len())
		for _, name := range want {
			if s.Lookup(workload(name))[load.CPU].PodTime == 0 {
				t.Errorf("%s is not known", name)
			}
		}
	}
	s := with(&Statistics{}, observed("four", start, 1, 1, 1, 1), observed("two", start, 1, 1), observed("one", start, 1),
		observed("three", start, 1, 1, 1))
	known(s, "four", "three", "two")
	// New workloads do not displace live workloads with more pods.
	later := start.Add(span)
	s = with(s, observed("a", later, 1), observed("b", later, 1), observed("c", later, 1),
		observed("four", later, 1, 1, 1, 1), observed("two", later, 1, 1), observed("three", later, 1, 1, 1))
	known(s, "four", "three", "two")
	// But a live workload displaces ended workloads, and gains time from then on.
	for i := range 3 {
		s = with(s, observed("new", later.Add(time.Duration(i+1)*span), 1))
		known(s, "four", "three", "new")
	}
	if got := s.Lookup(workload("new"))[load.CPU].PodTime; got < 2*span || got > 3*span {
		t.Errorf("it was observed three times, but has %v", got)
	}
	// All equal: as many as may be stay.
	equal := &Statistics{}
	for i := range 10 {
		equal = with(equal, observed(fmt.Sprint(i), start, 1))
	}
	check.Equal(t, "equal workloads", 3, equal.Len())
	// The same ones at each start.
	var first []string
	for i := range 5 {
		var all []Observation
		for j := range 20 {
			all = append(all, observed(fmt.Sprint(j), start, 1))
		}
		var kept []string
		for s, j := with(&Statistics{}, all...), 0; j < 20; j++ {
			if s.Lookup(workload(fmt.Sprint(j)))[load.CPU].PodTime > 0 {
				kept = append(kept, fmt.Sprint(j))
			}
		}
		if i == 0 {
			first = kept
		} else if !slices.Equal(kept, first) {
			t.Errorf("start %d keeps %v, the first kept %v", i, kept, first)
		}
	}
}

func TestPublisher_Concurrently(t *testing.T) {
	p := NewPublisher()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 1000 {
				if s := p.Latest(); s.Len() > 1 {
					t.Errorf("%d workloads", s.Len())
				}
			}
		})
	}
	for i := range 100 {
		p.Publish(learn(p.Latest(), observed("web", start.Add(time.Duration(i)*span), 1)))
	}
	readers.Wait()
	check.Equal(t, "workloads", 1, p.Latest().Len())
}

func TestLookup_DoesNotAllocate(t *testing.T) {
	s := learn(&Statistics{}, observed("web", start, 100))
	check.Equal(t, "allocations", 0, testing.AllocsPerRun(100, func() { s.Lookup(workload("web")) }))
}

func BenchmarkLookup(b *testing.B) {
	s := &Statistics{}
	var observations []Observation
	for i := range 20000 {
		observations = append(observations, observed(fmt.Sprint("workload-", i), start, 1))
	}
	s = s.With(observations, ClusterUsage{}, Config{History: day, MaxWorkloads: 20000})
	w := workload("workload-777")
	b.ReportAllocs()
	for b.Loop() {
		s.Lookup(w)
	}
}

// TestLookup_LongPodTime has two billion pods for ten days: a Duration does not hold the time of all pods.
func TestLookup_LongPodTime(t *testing.T) {
	o := observed("web", start, 100)
	o.Pods, o.Sum, o.SumSquares, o.Span = math.MaxInt32, 100*math.MaxInt32, 1e4*math.MaxInt32, 10*day
	// 2³¹ times 864,000 s are 1.9e15 s, and a Duration holds 9.2e9 s.
	if got := learn(&Statistics{}, o).Lookup(workload("web"))[load.CPU]; got.PodTime < 292*365*day || got.Mean != 100 {
		t.Errorf("got %+v, want a mean of 100 over at least 292 years", got)
	}
}

func TestTally(t *testing.T) {
	pod := func(owner string) *corev1.Pod {
		controller := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: &controller}}}}
	}
	tally := NewTally("", podusage.Amounts{})
	tally.Add(pod("web"), load.CPU, 100, 200, 1)
	tally.Add(pod("web"), load.CPU, 400, 0, .5)
	tally.Add(&corev1.Pod{}, load.CPU, 400, 200, .5) // without workload
	tally.Add(pod("web"), load.Memory, 7, 10, 1)
	tally.Discard(load.Memory)
	got := (&Statistics{}).WithTally(tally, start, 5*time.Minute, bounds)

	// Mean (100 + 400/2) / 1.5; variance (100²·1 + 200²·0.5) / 1.5.
	moments := got.Lookup(workload("web"))
	checkMoments(t, moments[load.CPU], Moments{PodTime: span * 3 / 2, Mean: 200, Variance: 20000})
	checkMoments(t, moments[load.Memory], Moments{})
	// 100 of 200, and half of 1.5·200 of 200: 250 / 300.
	check.Equal(t, "usage per request", [load.ResourceCount]float64{250. / 300}, got.Cluster().UsagePerRequest)
}

// TestTally_UsagePerRequest has the pods of the namespace shop use 100 of 200 milliCPU, and those of mallory as given.
func TestTally_UsagePerRequest(t *testing.T) {
	for _, tt := range []struct {
		name                           string
		capacity, usage, request, want float64
	}{
		{"a namespace below the bound counts by its requests", 2400, 0, 600, .125},         // (100 + 0) / (200 + 600)
		{"above it counts a quarter of the cluster", 2400, 0, 9e18, .125},                  // the quarter is 600
		{"its ratio stays", 2400, 4.5e18, 9e18, .5},                                        // (100 + 300) / (200 + 600)
		{"its ratio is at most 1.5", 2400, 9e19, 9e18, 1.25},                               // (100 + 900) / (200 + 600)
		{"a small namespace counts little beside a large one", 400, 15, 10, 65. / 110},     // shop counts 100: (50 + 15) / (100 + 10)
		{"without a known capacity each counts by its requests", 0, 0, 19_800, 100. / 2e4}, // (100 + 0) / (200 + 19800)
		{"no request does not count", 2400, 1e9, 0, .5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tally := NewTally("", podusage.Amounts{load.CPU: tt.capacity})
			in := func(namespace string) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
			}
			tally.Add(in("shop"), load.CPU, 100, 200, 1)
			tally.Add(in("mallory"), load.CPU, tt.usage, tt.request, 1)
			got := (&Statistics{}).WithTally(tally, start, span, bounds).Cluster().UsagePerRequest[load.CPU]
			check.Equal(t, "usage per request", tt.want, got, cmpopts.EquateApprox(0, 1e-12))
		})
	}
}

// TestWithTally_DecaysByTime has one interval of a large request, and many of a usual one.
func TestWithTally_DecaysByTime(t *testing.T) {
	s, at := &Statistics{}, start
	interval := func(usage, request float64) {
		tally := NewTally("", podusage.Amounts{})
		if request > 0 {
			tally.Add(&corev1.Pod{}, load.CPU, usage, request, 1)
		}
		s, at = s.WithTally(tally, at, span, bounds), at.Add(span)
	}
	check := func(when string, want float64) {
		t.Helper()
		check.Equal(t, when+": usage per request", want, s.Cluster().UsagePerRequest[load.CPU], cmpopts.EquateApprox(0, 1e-9))
	}
	interval(0, 400)
	check("the first interval", 0)
	interval(100, 200)
	// The first weighs 400·e^(-5 min/24 h), and the second 200.
	before := math.Exp(-1. / 288)
	check("the second interval", 100/(400*before+200))
	interval(0, 0)
	check("an interval without pods", 100/(400*before+200))
	interval(100, 200)
	// The first is 15 minutes old, the second 10.
	first, second := math.Exp(-3./288), math.Exp(-2./288)
	check("the interval after it", 100*(second+1)/(400*first+200*second+200))
	for range 288 {
		interval(100, 200)
	}
	if got := s.Cluster().UsagePerRequest[load.CPU]; got < .497 {
		t.Errorf("a day later: usage per request %v, want nearly .5", got)
	}
}

// FuzzStatistics adds any observations and any pods: statistics and the usages by them are finite and in order.
func FuzzStatistics(f *testing.F) {
	f.Add(1.0, 100.0, 1e4, int64(300), int64(0), 200.0, 50.0, 100.0, 1.0)
	f.Add(2147483647.0, 2e24, 2e39, int64(math.MaxInt64), int64(1<<32), 9e21, 0.0, 9e21, 0.5)
	f.Add(math.NaN(), math.Inf(1), -1.0, int64(-1), int64(0), 0.0, 1e22, 1e-300, 1.0)
	f.Fuzz(func(t *testing.T, pods, sum, squares float64, span, after int64, usage, request, limit, share float64) {
		for _, v := range []float64{usage, request, limit} {
			if !(v >= 0 && v <= 1e22) {
				t.Skip("no source and no API server has such an amount")
			}
		}
		if !(share > 0 && share <= 1) || after < 0 || after > 1<<32 {
			t.Skip("the watcher has no such share or time")
		}
		s := &Statistics{}
		at := start
		for range 3 {
			o := Observation{Workload: workload("web"), Resource: load.CPU, At: at, Span: time.Duration(span), Pods: pods, Sum: sum, SumSquares: squares}
			tally := NewTally("", podusage.Amounts{load.CPU: 8000})
			tally.Add(podOf("web"), load.Memory, usage, request, share)
			s = s.With([]Observation{o}, s.Cluster(), bounds).WithTally(tally, at, 5*time.Minute, bounds)
			at = at.Add(time.Duration(after))
		}
		cluster := s.Cluster()
		for name, m := range map[string]Moments{"web": s.Lookup(workload("web"))[load.CPU], "pod": s.Lookup(Workload{"ns", "web"})[load.Memory]} {
			if !finite(m.Mean) || !finite(m.Variance) || m.PodTime < 0 {
				t.Errorf("%s: moments %+v", name, m)
			}
			u := known(&m, limit)
			checkUsage(t, &u)
		}
		own := s.Lookup(Workload{"ns", "web"})
		s.narrow(&own, "")
		for _, m := range own {
			u := known(&m, limit)
			checkUsage(t, &u)
		}
		// A pod on a node that was never observed counts at most ten times its request, whatever its workload uses.
		unseen := podOf("web", container("1m", ""))
		unseen.UID = "unseen"
		onNode := Predictor{Multiplier: 1.5, MaxRequestRatio: 10}.At(s).OnNode(unseen)
		for r, claim := range (podusage.Amounts{load.CPU: 10}) {
			for _, u := range []Usage{onNode.Steady[r], onNode.Foreign[r]} {
				if checkUsage(t, &u); u.P95 > claim {
					t.Errorf("%s of a pod that was never observed: %+v, want at most %v", load.Resource(r), u, claim)
				}
			}
		}
		for r, ratio := range cluster.UsagePerRequest {
			if !finite(ratio) || ratio > 1.5*(1+1e-9) {
				t.Errorf("usage per request %v of %v", ratio, load.Resource(r))
			}
			u := unknown(request, usage, limit, ratio)
			checkUsage(t, &u)
		}
	})
}

func finite(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }

// checkUsage checks that 0 ≤ Learned ≤ Mean ≤ P95, all of them finite.
func checkUsage(t *testing.T, u *Usage) {
	t.Helper()
	if !(0 <= u.Learned && u.Learned <= u.Mean && u.Mean <= u.P95) || !finite(u.P95) || !finite(u.Variance) {
		t.Errorf("usage %+v, want 0 ≤ Learned ≤ Mean ≤ P95", *u)
	}
}
