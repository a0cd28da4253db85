package learned

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
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
		{
			name: "one pod has no deviation", observations: [][]Observation{{observed("web", start, 100)}},
			want: Moments{PodTime: span, Mean: 100},
		},
		{
			name:         "several observations of one moment are those of all their pods",
			observations: [][]Observation{{observed("web", start, 100, 300), observed("web", start, 500)}},
			want:         Moments{PodTime: 3 * span, Mean: 300, Variance: (200*200 + 0 + 200*200) / 3.0},
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
			name:         "the order does not matter",
			observations: [][]Observation{{observed("web", start.Add(day), 400)}, {observed("web", start, 100)}},
			want: Moments{
				PodTime: time.Duration((1 + share) * float64(span)), Mean: (share*100 + 400) / (1 + share),
				Variance: 300 * 300 * share / (1 + share) / (1 + share),
			},
		},
		{
			name: "time without pods ages what is known",
			observations: [][]Observation{
				{observed("web", start, 100, 300)},
				{observed("other", start.Add(day), 1)},
			},
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
	if s.Len() != 3 {
		t.Errorf("%d workloads, want 3", s.Len())
	}
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
		if s.Len() != len(want) {
			t.Errorf("%d workloads are known, want %d", s.Len(), len(want))
		}
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
	if equal.Len() != 3 {
		t.Errorf("%d of equal workloads are known, want 3", equal.Len())
	}
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
	if got := p.Latest().Len(); got != 1 {
		t.Errorf("%d workloads, want 1", got)
	}
}

func TestLookup_DoesNotAllocate(t *testing.T) {
	s := learn(&Statistics{}, observed("web", start, 100))
	if n := testing.AllocsPerRun(100, func() { s.Lookup(workload("web")) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
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
