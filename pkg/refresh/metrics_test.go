package refresh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestMetrics(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	registry := metrics.NewKubeRegistry()
	src, clock := &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: []string{"a", "b", "c"}}, clock, NewMetrics(registry))
	register(w, trust, window)
	w.metrics.register(w)

	refresh := func() {
		if err := w.Refresh(ctx); err != nil && !strings.Contains(err.Error(), "down") {
			t.Fatal(err)
		}
	}
	compare := func(want string, names ...string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
	}

	compare(`
# HELP plimsoll_load_nodes [ALPHA] Nodes by load over the shortest window: Fresh, Expired (too old for all plugins), or Absent (never measured).
# TYPE plimsoll_load_nodes gauge
plimsoll_load_nodes{resource="cpu",source="fake",state="Absent"} 3
plimsoll_load_nodes{resource="cpu",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="cpu",source="fake",state="Fresh"} 0
plimsoll_load_nodes{resource="memory",source="fake",state="Absent"} 3
plimsoll_load_nodes{resource="memory",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="memory",source="fake",state="Fresh"} 0
`, "plimsoll_load_nodes", "plimsoll_load_age_seconds") // nothing has an age yet

	src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.5)}})
	refresh()
	clock.Step(trust.MaxAge) // a is as old as it may be
	src.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{
			Samples: []load.Sample{
				{Node: "b", Window: window, End: clock.Now().Add(-time.Minute), Stats: load.Stats{load.CPU: known(1.5)}},
				{Node: "c", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(math.NaN()), load.Memory: known(-1)}},
			},
			UnmatchedCount: 4,
			Contested:      []source.Contested{{Node: "a"}, {Node: "d"}, {Node: "e"}},
		}, nil
	}
	refresh()
	clock.Step(time.Second)
	src.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{}, errors.New("down")
	}
	refresh()

	check.Equal(t, "durations observed", 3,
		check.Value(testutil.GetHistogramMetricCount(w.metrics.durations.WithLabelValues("fake")))(t))
	compare(`
# HELP plimsoll_contested_nodes [ALPHA] Nodes of the last refresh about which sets of scrape targets differ. Their pods' requests decide.
# TYPE plimsoll_contested_nodes gauge
plimsoll_contested_nodes{source="fake"} 3
# HELP plimsoll_load_age_seconds [ALPHA] Age of the newest load of any node.
# TYPE plimsoll_load_age_seconds gauge
plimsoll_load_age_seconds{source="fake"} 61
# HELP plimsoll_load_nodes [ALPHA] Nodes by load over the shortest window: Fresh, Expired (too old for all plugins), or Absent (never measured).
# TYPE plimsoll_load_nodes gauge
plimsoll_load_nodes{resource="cpu",source="fake",state="Absent"} 2
plimsoll_load_nodes{resource="cpu",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="cpu",source="fake",state="Fresh"} 1
plimsoll_load_nodes{resource="memory",source="fake",state="Absent"} 3
plimsoll_load_nodes{resource="memory",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="memory",source="fake",state="Fresh"} 0
# HELP plimsoll_refresh_total [ALPHA] Refreshes of the load source, by result: Success or Error.
# TYPE plimsoll_refresh_total counter
plimsoll_refresh_total{result="Error",source="fake"} 1
plimsoll_refresh_total{result="Success",source="fake"} 2
# HELP plimsoll_rejected_samples_total [ALPHA] Measured values that were rejected: not a number (NotANumber), Negative, above the node's capacity and read as full (AboveCapacity), or dated more than a refresh interval ahead and read as of now (FromTheFuture). Also responses that lack data, as the server says (PartialResponse) or as many missing nodes or pods show (IncompleteResponse).
# TYPE plimsoll_rejected_samples_total counter
plimsoll_rejected_samples_total{reason="AboveCapacity",source="fake"} 1
plimsoll_rejected_samples_total{reason="FromTheFuture",source="fake"} 0
plimsoll_rejected_samples_total{reason="IncompleteResponse",source="fake"} 0
plimsoll_rejected_samples_total{reason="Negative",source="fake"} 1
plimsoll_rejected_samples_total{reason="NotANumber",source="fake"} 1
plimsoll_rejected_samples_total{reason="PartialResponse",source="fake"} 0
# HELP plimsoll_unmatched_series [ALPHA] Series of the last refresh that belong to no node of the cluster.
# TYPE plimsoll_unmatched_series gauge
plimsoll_unmatched_series{source="fake"} 4
`, "plimsoll_load_age_seconds", "plimsoll_load_nodes", "plimsoll_refresh_total", "plimsoll_rejected_samples_total", "plimsoll_unmatched_series", "plimsoll_contested_nodes")
}

// A response lacks more than a tenth of the nodes that were measured, and that are still there.
func TestMetrics_IncompleteResponse(t *testing.T) {
	for name, tt := range map[string]struct {
		before, again, nodes int
		after                time.Duration
		want                 float64
	}{
		"half of the nodes":              {20, 10, 20, time.Minute, 1},
		"three of twenty":                {20, 17, 20, time.Minute, 1},
		"two of twenty":                  {20, 18, 20, time.Minute, 0},
		"one of three":                   {3, 2, 3, time.Minute, 0},
		"two of three":                   {3, 1, 3, time.Minute, 1},
		"nodes that left":                {20, 10, 10, time.Minute, 0},
		"nodes whose load is too old":    {20, 10, 20, trust.MaxAge + time.Second, 0},
		"more nodes than were there ago": {10, 20, 20, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			names := make([]string, 20)
			for i := range names {
				names[i] = fmt.Sprint("node-", i)
			}
			w, src, clock := newTestWatcher(names[:tt.nodes]...)
			for _, n := range []int{tt.before, tt.again} {
				var samples []load.Sample
				for _, name := range names[:n] {
					samples = append(samples, load.Sample{Node: name, Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(0.5)}})
				}
				src.respond(samples...)
				check.OK(t, w.Refresh(t.Context()))
				clock.Step(tt.after)
			}
			got, err := testutil.GetCounterMetricValue(w.metrics.rejected.WithLabelValues("fake", string(load.IncompleteResponse)))
			check.OK(t, err)
			check.Equal(t, "incomplete responses", tt.want, got)
		})
	}
}

// The first refresh has load, the second panics in a goroutine, a second of backoff later the third has load again.
func TestRun_SurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{}
		w := NewWatcher(src, "fake", cluster{names: []string{"a"}}, clock.RealClock{}, NewMetrics(metrics.NewKubeRegistry()))
		register(w, trust, window)
		var fetches atomic.Int64
		src.fetch = func(context.Context, source.Request) (source.Batch, error) {
			fetch := fetches.Add(1)
			if fetch == 2 {
				var group source.Group
				group.Go(func() { panic("a number that is no number") })
				group.Wait()
			}
			return source.Batch{Samples: []load.Sample{{Node: "a", Window: window, End: time.Now(), Stats: load.Stats{load.CPU: known(float64(fetch) / 10)}}}}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		mean := func() float64 { return w.Publisher().Latest().Over(window).Node("a")[load.CPU].Mean }
		panics := w.metrics.panics.WithLabelValues("fake")
		for fetches.Load() < 2 {
			time.Sleep(time.Second / 2)
			synctest.Wait()
		}
		if wantCounter(t, panics, 1); mean() != 0.1 {
			t.Errorf("after a panic the mean is %v, want 0.1 as before", mean())
		}
		time.Sleep(3 * retryAfter)
		synctest.Wait()
		if wantCounter(t, panics, 1); mean() != 0.3 {
			t.Errorf("at the next refresh the mean is %v, want 0.3", mean())
		}
		cancel()
		<-ended
	})
}

// Commands refresh on demand, without Run.
func TestRefresh_ReturnsAPanic(t *testing.T) {
	src := &fakeSource{fetch: func(context.Context, source.Request) (source.Batch, error) { panic("x") }}
	w := NewWatcher(src, "fake", cluster{names: []string{"a"}}, clock.RealClock{}, NewMetrics(metrics.NewKubeRegistry()))
	register(w, trust, window)
	if err := w.Refresh(t.Context()); err == nil || err.Error() != "panic: x" {
		t.Errorf("Refresh returned %v, want the panic", err)
	}
	check.Error(t, w.Outcome().Err, "panic: x")
	pods := newPodCluster(t, &fakeHistory{history: func(source.Period) ([]source.WorkloadUsage, error) { panic("x") }}, "")
	check.OK(t, pods.Refresh(t.Context()))
	if err := pods.Outcome().HistoryErr; err == nil || err.Error() != "panic: x" {
		t.Errorf("HistoryErr returned %v, want the panic", err)
	}
}

// A panic while the history is read is a failed attempt: in an hour, there are as many as for a source that is down.
func TestWorkloads_RestAfterAPanic(t *testing.T) {
	attempts := func(fail func() error) (asked int) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			c := newPodCluster(t, &fakeHistory{history: func(source.Period) ([]source.WorkloadUsage, error) {
				if asked++; asked == 100 {
					cancel()
				}
				return nil, fail()
			}}, "")
			c.Clock = clock.RealClock{}
			c.Run(ctx)
		})
		return asked
	}
	down := attempts(func() error { return errors.New("down") })
	if panics := attempts(func() error { panic("x") }); panics != down || down < 2 || down > 20 {
		t.Errorf("%d attempts with panics, %d with errors", panics, down)
	}
}

func TestMoments_MakeWindows(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	register(w, load.Trust{RefreshInterval: time.Minute, MaxAge: 5 * time.Minute}, 10*time.Minute)
	tables := func() (five, ten load.Measurement) {
		s := w.Publisher().Latest()
		return s.Over(window).Node("a")[load.CPU], s.Over(10 * time.Minute).Node("a")[load.CPU]
	}
	approximately := cmp.Options{cmpopts.EquateApprox(0, 1e-6), cmpopts.IgnoreFields(load.Measurement{}, "Drift")}

	for minute, step := range []struct {
		cpu       float64
		five, ten load.Stat
		span      [2]time.Duration
	}{
		// One sample is its own mean, without deviation; its span is 0.
		{cpu: 0.2, five: load.Stat{Mean: 0.2}, ten: load.Stat{Mean: 0.2}},
		// Mean of 0.2 and 0.6; each is 0.2 from it.
		{cpu: 0.6, five: load.Stat{Mean: 0.4, StdDev: 0.2}, ten: load.Stat{Mean: 0.4, StdDev: 0.2}, span: [2]time.Duration{1, 1}},
		// 0.2, 0.6, 0.4: squares 0.04, 0.04, 0, of which the mean is 0.08/3.
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 3)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 3)}, span: [2]time.Duration{2, 2}},
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 4)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 4)}, span: [2]time.Duration{3, 3}},
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 5)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 5)}, span: [2]time.Duration{4, 4}},
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 6)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 6)}, span: [2]time.Duration{5, 5}},
		// The first sample has left the five minutes: 0.6 and five times 0.4, mean 2.6/6. 0.6 is 1/6 away from it, and 0.4 1/30. The mean
		// of the squares 1/36 and 5/900 is 1/180. Of all seven the mean is 2.8/7.
		{cpu: 0.4, five: load.Stat{Mean: 2.6 / 6, StdDev: math.Sqrt(1.0 / 180)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 7)}, span: [2]time.Duration{5, 6}},
	} {
		clock.SetTime(start.Add(time.Duration(minute) * time.Minute))
		src.respond(load.Sample{Node: "a", End: clock.Now(), Stats: load.Stats{load.CPU: known(step.cpu)}})
		check.OK(t, w.Refresh(ctx))
		step.five.Known, step.ten.Known = true, true
		five, ten := tables()
		check.Equal(t, fmt.Sprintf("minute %d, over five minutes", minute),
			load.Measurement{Stat: step.five, Window: step.span[0] * time.Minute, End: clock.Now()}, five, approximately)
		check.Equal(t, fmt.Sprintf("minute %d, over ten minutes", minute),
			load.Measurement{Stat: step.ten, Window: step.span[1] * time.Minute, End: clock.Now()}, ten, approximately)
	}
}

func TestMoments_StoreASampleOnce(t *testing.T) {
	var m moments
	for range 3 { // metrics-server answers the same until it has scraped again
		m.add(start, load.Stats{load.CPU: known(0.5)}, window, window)
	}
	check.Equal(t, "samples kept", 1, len(m))
}

// A moment that is itself a mean reaches back by its span: what began within the last minute is not measured for all of it.
func TestMoments_OfAMeanReachBack(t *testing.T) {
	src, clock := &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: []string{"a"}}, clock, NewMetrics(metrics.NewKubeRegistry()))
	w.Register(load.Requirements{Windows: []time.Duration{window}, RefreshInterval: trust.RefreshInterval}, trust)
	for i, want := range []time.Duration{time.Minute, time.Minute + 15*time.Second} {
		mean := known(0.5)
		mean.Span = time.Minute
		src.respond(load.Sample{Node: "a", End: start.Add(time.Duration(i) * 15 * time.Second), Stats: load.Stats{load.CPU: mean}})
		clock.SetTime(start.Add(time.Duration(i) * 15 * time.Second))
		check.OK(t, w.Refresh(t.Context()))
		check.Equal(t, fmt.Sprintf("refresh %d: measured over", i), want, w.Publisher().Latest().Over(window).Node("a")[load.CPU].Window)
	}
}

func TestMoments_MissingResourceIsNotKnown(t *testing.T) {
	var m moments
	m.add(start, load.Stats{known(0.5), known(0.25)}, window, window)
	m.add(start.Add(time.Minute), load.Stats{load.CPU: known(0.7)}, window, window)
	cpu, _ := m.over(window, load.CPU)
	memory, _ := m.over(window, load.Memory)
	if !cpu.Known || memory.Known {
		t.Errorf("cpu %+v, memory %+v; want cpu alone", cpu, memory)
	}
}

func TestMoments_EachResourceHasItsOwnSpan(t *testing.T) {
	var m moments
	for minute := range 6 {
		memory := load.Stat{}
		if minute >= 4 {
			memory = known(0.5)
		}
		m.add(start.Add(time.Duration(minute)*time.Minute), load.Stats{known(0.5), memory}, window, window)
	}
	_, cpu := m.over(window, load.CPU)
	_, memory := m.over(window, load.Memory)
	check.Equal(t, "spans of cpu and memory", [2]time.Duration{5 * time.Minute, time.Minute}, [2]time.Duration{cpu, memory})
}

func TestMoments_AreWeightedByTime(t *testing.T) {
	var m moments
	for _, r := range []struct {
		after time.Duration
		cpu   float64
	}{{0, 0.1}, {time.Minute, 0.1}, {2 * time.Minute, 0.1}, {5 * time.Minute, 0.6}} {
		m.add(start.Add(r.after), load.Stats{load.CPU: known(r.cpu)}, window, window)
	}
	cpu, _ := m.over(window, load.CPU)
	// Weights 1, 1, 1 and 3 minutes: (0.3 + 1.8) / 6 = 0.35, from which all are 0.25 away.
	if math.Abs(cpu.Mean-0.35) > 1e-6 || math.Abs(cpu.StdDev-0.25) > 1e-6 {
		t.Errorf("mean %v and deviation %v, want 0.35 and 0.25", cpu.Mean, cpu.StdDev)
	}
}

func TestMoments_LongWindowTakesNothingFromAShortOne(t *testing.T) {
	alone, beside := moments{}, moments{}
	for i := range 400 {
		at, stats := start.Add(time.Duration(i)*10*time.Second), load.Stats{load.CPU: known(0.2 + 0.6*float64(i%2))}
		alone.add(at, stats, time.Minute, time.Minute)
		beside.add(at, stats, time.Minute, time.Hour)
		want, wantSpan := alone.over(time.Minute, load.CPU)
		got, span := beside.over(time.Minute, load.CPU)
		if got != want || span != wantSpan {
			t.Fatalf("after %d samples: %+v over %v beside a window of an hour, %+v over %v alone", i+1, got, span, want, wantSpan)
		}
	}
}

func TestMoments_AreBounded(t *testing.T) {
	const shortest, longest = 5 * time.Minute, 15 * time.Minute
	var m moments
	for second := range 3600 {
		m.add(start.Add(time.Duration(second)*time.Second), load.Stats{known(0.5), known(0.5)}, shortest, longest)
		if bound := 2*momentsPerWindow + 2; len(m) > bound {
			t.Fatalf("%d samples kept after %d s, want at most %d", len(m), second, bound)
		}
	}
	newest := time.Unix(0, m[len(m)-1].unixNano)
	if !newest.Equal(start.Add(3599 * time.Second)) {
		t.Errorf("the newest sample kept is of %v, want the last", newest)
	}
	// Thinned out they still span the window, but for the spacing of 15 m / 40.
	if span := newest.Sub(time.Unix(0, m[0].unixNano)); span < longest-longest/momentsPerWindow-time.Second {
		t.Errorf("the samples kept span %v, want nearly %v", span, longest)
	}
	if c := cap(m); c > 4*momentsPerWindow {
		t.Errorf("room for %d samples is kept, want about %d", c, 2*momentsPerWindow)
	}
}
