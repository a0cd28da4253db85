package refresh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const window = 5 * time.Minute

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	trust = load.Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
)

// fakeSource returns what its function returns.
type fakeSource struct {
	fetch  func(ctx context.Context, request source.Request) (source.Batch, error)
	closed atomic.Bool
}

func (f *fakeSource) Name() string { return "fake" }
func (f *fakeSource) Close() error { f.closed.Store(true); return nil }
func (f *fakeSource) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	return f.fetch(ctx, request)
}

func (f *fakeSource) respond(samples ...load.Sample) {
	f.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{Samples: samples}, nil
	}
}

func known(mean float64) load.Stat { return load.Stat{Mean: mean, Known: true} }

func measurement(mean float64, end time.Time) load.Measurement {
	return load.Measurement{Stat: known(mean), Window: window, End: end}
}

// drifting is a measurement whose mean moves by drift, a fraction of capacity, a minute.
func drifting(mean float64, end time.Time, drift float64) load.Measurement {
	r := measurement(mean, end)
	r.Drift = drift
	return r
}

// cluster has the named nodes. It is synced at once where synced is nil.
type cluster struct {
	names  []string
	synced func() bool
}

func (c cluster) Names() []string { return c.names }
func (c cluster) HasSynced() bool { return c.synced == nil || c.synced() }

// register has the watcher read the windows at the interval of the trust.
func register(w *Watcher, trust load.Trust, windows ...time.Duration) {
	w.Register(load.Requirements{Windows: windows, RefreshInterval: trust.RefreshInterval}, trust)
}

// knownNodes returns which of the named nodes have load over window in the latest snapshot.
func knownNodes(w *Watcher, names ...string) (known []string) {
	for _, name := range names {
		if w.Publisher().Latest().Over(window).Node(name)[load.CPU].Known {
			known = append(known, name)
		}
	}
	return known
}

// newTestWatcher returns a watcher that reads window.
func newTestWatcher(names ...string) (*Watcher, *fakeSource, *clocktesting.FakeClock) {
	src, clock := &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: names}, clock, NewMetrics(metrics.NewKubeRegistry()))
	register(w, trust, window)
	return w, src, clock
}

func TestRefresh(t *testing.T) {
	later := start.Add(time.Minute)
	sample := func(cpu, memory load.Stat) load.Sample {
		return load.Sample{Node: "a", Window: window, End: later, Stats: load.Stats{load.CPU: cpu, load.Memory: memory}}
	}
	old := load.NodeLoad{load.CPU: measurement(0.25, start), load.Memory: measurement(0.5, start)}

	for _, tc := range []struct {
		name    string
		fetch   func(ctx context.Context, request source.Request) (source.Batch, error)
		samples []load.Sample
		want    load.NodeLoad
		failure bool
	}{
		{
			name:    "a valid batch replaces the last measurement",
			samples: []load.Sample{sample(known(0.75), known(0.125))},
			// 50 and 37.5 points in one minute.
			want: load.NodeLoad{load.CPU: drifting(0.75, later, 0.5), load.Memory: drifting(0.125, later, 0.375)},
		},
		{
			name:    "a node that the batch leaves out keeps its measurement and its age",
			samples: []load.Sample{{Node: "b", Window: window, End: later, Stats: load.Stats{load.CPU: known(1)}}}, want: old,
		},
		{
			name: "a resource that the batch leaves out keeps its measurement and its age", samples: []load.Sample{sample(known(0.75), load.Stat{})},
			want: load.NodeLoad{load.CPU: drifting(0.75, later, 0.5), load.Memory: measurement(0.5, start)},
		},
		{name: "impossible values change nothing", samples: []load.Sample{sample(known(math.NaN()), known(-1))}, want: old},
		{
			name:    "a batch older than what is known changes nothing",
			samples: []load.Sample{{Node: "a", Window: window, End: start.Add(-time.Second), Stats: load.Stats{load.CPU: known(1), load.Memory: known(1)}}}, want: old,
		},
		{
			name:    "a source whose clock is ahead does not make load that never expires",
			samples: []load.Sample{{Node: "a", Window: window, End: start.Add(time.Hour), Stats: load.Stats{load.CPU: known(0.75), load.Memory: known(0.125)}}},
			want:    load.NodeLoad{load.CPU: drifting(0.75, later, 0.5), load.Memory: drifting(0.125, later, 0.375)},
		},
		{name: "an empty batch changes nothing", want: old, failure: true},
		{
			name: "a failure changes nothing",
			fetch: func(context.Context, source.Request) (source.Batch, error) {
				return source.Batch{Samples: []load.Sample{sample(known(1), known(1))}}, errors.New("500")
			},
			want: old, failure: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			w, src, clock := newTestWatcher()
			src.respond(
				load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25), load.Memory: known(0.5)}},
			)
			check.OK(t, w.Refresh(ctx))
			clock.SetTime(later)
			src.respond(tc.samples...)
			if tc.fetch != nil {
				src.fetch = tc.fetch
			}
			if err := w.Refresh(ctx); (err != nil) != tc.failure {
				t.Errorf("refresh: %v, want a failure: %v", err, tc.failure)
			}
			check.Equal(t, "load of node a", tc.want, w.Publisher().Latest().Over(window).Node("a"))
		})
	}
}

func TestRefresh_KeepsTheLastDeviation(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	for _, step := range []struct {
		after    time.Duration
		measured float64
		want     float64
	}{
		{0, 0.3, 0.3},
		{time.Minute, math.NaN(), 0.3},       // its query failed
		{trust.MaxAge, math.NaN(), 0.3},      // it is as old as a measurement may be
		{trust.MaxAge + 1, math.NaN(), 0},    // it is beyond maxAge
		{trust.MaxAge + 2, 0.1, 0.1},         // it is measured again
		{trust.MaxAge + 3, math.Inf(1), 0.1}, // and is impossible
		{trust.MaxAge + 4, 0, 0},             // a steady node
		{trust.MaxAge + 5, math.NaN(), 0},    // is still steady
	} {
		clock.SetTime(start.Add(step.after))
		src.respond(load.Sample{Node: "a", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: load.Stat{Mean: 0.5, StdDev: step.measured, Known: true}}})
		check.OK(t, w.Refresh(ctx))
		check.Equal(t, fmt.Sprintf("after %v: deviation", step.after), step.want,
			w.Publisher().Latest().Over(window).Node("a")[load.CPU].StdDev)
	}
}

// TestRefresh_ClockWentBack expects load to be read again, and earlier load to be forgotten also where the source is down.
func TestRefresh_ClockWentBack(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	for _, step := range []struct {
		at   time.Time
		mean float64
	}{
		{start.Add(time.Hour), 0.1}, // the clock is an hour ahead
		{start, 0.95},               // and is set right
		{start.Add(time.Minute), 0.9},
		{start, 0}, // the source is down
	} {
		clock.SetTime(step.at)
		src.respond(load.Sample{Node: "a", Window: window, End: step.at, Stats: load.Stats{load.CPU: known(step.mean)}})
		if step.mean == 0 {
			src.fetch = func(context.Context, source.Request) (source.Batch, error) { return source.Batch{}, errors.New("down") }
		}
		if err := w.Refresh(ctx); (err == nil) != (step.mean > 0) {
			t.Fatal(err)
		}
		got := w.Publisher().Latest().Over(window).Node("a")[load.CPU]
		if got.Mean != step.mean || got.Known && !got.End.Equal(step.at) || got.Known != (step.mean > 0) {
			t.Errorf("at %v: %+v, want %v of now, or nothing", step.at, got, step.mean)
		}
	}
}

// TestRefresh_BatchThatNeverChangesGrowsOld expects one batch from an hour ahead to be expired for good, also when that hour has come.
func TestRefresh_BatchThatNeverChangesGrowsOld(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	stuck := source.Batch{
		Samples: []load.Sample{{Node: "a", Window: window, End: start.Add(time.Hour), Stats: load.Stats{load.CPU: known(0.1)}}},
		Metrics: []source.MetricValues{{Metric: "x", End: start.Add(time.Hour), Values: map[string]float64{"a": 1}}},
	}
	src.fetch = func(context.Context, source.Request) (source.Batch, error) { return stuck, nil }
	for minute := range 70 {
		check.OK(t, w.Refresh(ctx))
		if got := w.Publisher().Latest().Over(window).Node("a")[load.CPU]; !got.Known || !got.End.Equal(start) {
			t.Fatalf("minute %d: the load is %+v, want that of %v, when it was first read", minute, got, start)
		}
		if got := metricOf(w.Publisher().Latest(), "x", "a")["a"]; got.Value != 1 || !got.End.Equal(start) {
			t.Fatalf("minute %d: the metric is %+v, want that of %v, when it was first read", minute, got, start)
		}
		clock.Step(time.Minute)
	}
}

// TestRefresh_MetricReturnsUnchanged expects an old value that was missing for a refresh never to be newer than it was.
func TestRefresh_MetricReturnsUnchanged(t *testing.T) {
	for name, tt := range map[string]struct {
		end  time.Time
		want load.MetricTable
	}{
		"from the past, it is as old as it says": {start, load.MetricTable{"a": {Value: 1, End: start}}},
		"from the future, it stays forgotten":    {start.Add(time.Hour), load.MetricTable{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			w, src, clock := newTestWatcher()
			returned := source.MetricValues{Metric: "x", End: tt.end, Values: map[string]float64{"a": 1}}
			other := source.MetricValues{Metric: "y", End: start, Values: map[string]float64{"a": 2}}
			for _, metrics := range [][]source.MetricValues{{returned, other}, {other}, {returned, other}} {
				src.fetch = func(context.Context, source.Request) (source.Batch, error) {
					return source.Batch{Metrics: metrics}, nil
				}
				check.OK(t, w.Refresh(ctx))
				clock.Step(trust.MaxAge + time.Second)
			}
			check.Equal(t, "values", tt.want, metricOf(w.Publisher().Latest(), "x", "a"))
		})
	}
}

func TestRefresh_SamplesFromTheFuture(t *testing.T) {
	year2200, year3000 := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)
	ahead := func(d time.Duration) func(now time.Time) time.Time {
		return func(now time.Time) time.Time { return now.Add(d) }
	}
	at := func(end time.Time) func(time.Time) time.Time { return func(time.Time) time.Time { return end } }
	type step struct {
		end  func(now time.Time) time.Time
		mean float64
		// want is the mean that is known after the step, and age its age in refreshes.
		want  float64
		age   int
		count float64
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"a clock that is ahead by a refresh interval is no matter", []step{{ahead(trust.RefreshInterval), 0.1, 0.1, 0, 0}, {ahead(trust.RefreshInterval), 0.2, 0.2, 0, 0}}},
		{"a sample from further ahead is read as of now, and counted", []step{{ahead(trust.RefreshInterval + 1), 0.1, 0.1, 0, 1}}},
		{"a later sample with an earlier date wins again", []step{{at(year2200), 0.1, 0.1, 0, 1}, {ahead(0), 0.2, 0.2, 0, 1}, {ahead(0), 0.3, 0.3, 0, 1}}},
		{"any later sample wins, however far ahead", []step{{at(year3000), 0.1, 0.1, 0, 1}, {ahead(0), 0.2, 0.2, 0, 1}}},
		{"the same sample again grows old", []step{{at(year2200), 0.1, 0.1, 0, 1}, {at(year2200), 0.1, 0.1, 1, 2}, {at(year2200), 0.1, 0.1, 2, 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			w, src, clock := newTestWatcher()
			for i, step := range tc.steps {
				clock.Step(trust.RefreshInterval)
				end := step.end(clock.Now())
				src.fetch = func(context.Context, source.Request) (source.Batch, error) {
					return source.Batch{
						Samples: []load.Sample{{Node: "a", Window: window, End: end, Stats: load.Stats{load.CPU: known(step.mean)}}},
						Metrics: []source.MetricValues{{Metric: "x", End: end, Values: map[string]float64{"a": step.mean}}},
					}, nil
				}
				check.OK(t, w.Refresh(ctx))
				wantEnd := clock.Now().Add(-time.Duration(step.age) * trust.RefreshInterval)
				got := w.Publisher().Latest().Over(window).Node("a")[load.CPU]
				if got.Mean != step.want || !got.End.Equal(wantEnd) {
					t.Errorf("refresh %d: load %v of %v, want %v of %v", i+1, got.Mean, got.End, step.want, wantEnd)
				}
				metric := metricOf(w.Publisher().Latest(), "x", "a")["a"]
				if metric.Value != step.want || !metric.End.Equal(wantEnd) {
					t.Errorf("refresh %d: metric %v of %v, want %v of %v", i+1, metric.Value, metric.End, step.want, wantEnd)
				}
				// The sample and the metric count one each.
				wantCounter(t, w.metrics.rejected.WithLabelValues("fake", "FromTheFuture"), 2*step.count)
			}
		})
	}
}

func TestRefresh_KeepsTheLag(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	for _, lag := range []time.Duration{20 * time.Second, 0} {
		src.respond(load.Sample{Node: "a", Window: window, End: start.Add(-lag), Stats: load.Stats{load.CPU: known(0.5)}})
		check.OK(t, w.Refresh(ctx))
		if got := w.Publisher().Latest().Over(window).Node("a")[load.CPU].Lag; got != lag {
			t.Errorf("a window that ended %v before it was read has a lag of %v", lag, got)
		}
	}
}

func TestRefresh_SameSampleReadAgainIsTrustedFromThen(t *testing.T) {
	// The scrape interval is a minute, and refreshes are each 30 s. A node that drifts fast is trusted for two refreshes after its
	// sample was last read.
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	for age := time.Duration(0); age <= time.Minute; age += 30 * time.Second {
		clock.SetTime(start.Add(age))
		src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.5)}})
		check.OK(t, w.Refresh(ctx))
		m := w.Publisher().Latest().Over(window).Node("a")[load.CPU]
		if m.Lag != age || !m.End.Equal(start) {
			t.Errorf("after %v: lag %v and end %v, want %v and %v", age, m.Lag, m.End, age, start)
		}
		m.Drift = 100
		if got, want := m.FreshUntil(trust), start.Add(age+2*trust.RefreshInterval); !got.Equal(want) {
			t.Errorf("after %v: trusted until %v, want %v", age, got, want)
		}
	}
}

func TestRefresh_KeepsTheSpan(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	cpu := known(0.5)
	cpu.Span = 10 * time.Minute
	src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: cpu, load.Memory: known(0.5)}})
	check.OK(t, w.Refresh(ctx))
	got := w.Publisher().Latest().Over(window).Node("a")
	check.Equal(t, "windows of cpu and memory", [2]time.Duration{10 * time.Minute, window},
		[2]time.Duration{got[load.CPU].Window, got[load.Memory].Window})
}

func TestRefresh_DoesNotChangeEarlierSnapshots(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
	check.OK(t, w.Refresh(ctx))
	earlier := w.Publisher().Latest()
	src.respond(load.Sample{Node: "a", Window: window, End: start.Add(time.Nanosecond), Stats: load.Stats{load.CPU: known(0.75)}})
	check.OK(t, w.Refresh(ctx))
	check.Equal(t, "the earlier snapshot says as before", 0.25, earlier.Over(window).Node("a")[load.CPU].Mean)
}

func TestRefresh_ForgetsNodesBeyondMaxAge(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	read := func(node string) {
		t.Helper()
		batch := source.Batch{
			Samples: []load.Sample{{Node: node, Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(0.25)}}},
			Metrics: []source.MetricValues{{Metric: "x", End: clock.Now(), Values: map[string]float64{node: 1}}},
		}
		src.fetch = func(context.Context, source.Request) (source.Batch, error) { return batch, nil }
		check.OK(t, w.Refresh(ctx))
	}
	read("gone")
	for _, step := range []struct {
		age  time.Duration
		want []string
	}{{trust.MaxAge, []string{"gone", "here"}}, {trust.MaxAge + 1, []string{"here"}}} {
		clock.SetTime(start.Add(step.age))
		read("here")
		check.Equal(t, "nodes with load", step.want, knownNodes(w, "gone", "here"))
		latest := w.Publisher().Latest()
		if want := len(step.want); latest.Index().Len() != want || len(metricOf(latest, "x", "gone", "here")) != want {
			t.Errorf("%v after the last measurement of a node, %d nodes and %d values are kept, want %d", step.age, latest.Index().Len(),
				len(metricOf(latest, "x", "gone", "here")), want)
		}
	}
}

// TestRefresh_KeepsOldSamples expects what the source still returns to be expired, however old, and not absent.
func TestRefresh_KeepsOldSamples(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	end := start.Add(-time.Hour)
	src.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{
			Samples: []load.Sample{{Node: "late", Window: window, End: end, Stats: load.Stats{load.CPU: known(0.25)}}},
			Metrics: []source.MetricValues{{Metric: "x", End: end, Values: map[string]float64{"late": 1}}},
		}, nil
	}
	for refresh := range 3 {
		check.OK(t, w.Refresh(ctx))
		got := w.Publisher().Latest().Over(window).Node("late")[load.CPU]
		if state := got.State(clock.Now(), trust); state != load.Expired || !got.End.Equal(end) {
			t.Errorf("refresh %d: %+v is %s, want expired", refresh, got, state)
		}
		if values := metricOf(w.Publisher().Latest(), "x", "late"); !values["late"].End.Equal(end) {
			t.Errorf("refresh %d: the metric is %+v, want one that ended %s", refresh, values, end)
		}
		clock.Step(time.Minute)
	}
}

// TestRefresh_Windows has a source with one window of its own, which serves all, and then one with each of the two.
func TestRefresh_Windows(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	over := func(window time.Duration, end time.Time, mean float64) load.Sample {
		return load.Sample{Node: "a", Window: window, End: end, Stats: load.Stats{load.CPU: known(mean)}}
	}
	w, src, clock := newTestWatcher()
	register(w, load.Trust{RefreshInterval: time.Minute, MaxAge: time.Minute}, 10*time.Minute)
	for _, step := range []struct {
		samples []load.Sample
		want    map[time.Duration]load.Measurement
	}{
		{[]load.Sample{over(15*time.Minute, start, 0.25)}, map[time.Duration]load.Measurement{
			window:           {Stat: known(0.25), Window: 15 * time.Minute, End: start},
			10 * time.Minute: {Stat: known(0.25), Window: 15 * time.Minute, End: start},
		}},
		{[]load.Sample{over(window, start.Add(time.Minute), 0.25), over(10*time.Minute, start.Add(time.Minute), 0.75)}, map[time.Duration]load.Measurement{
			window:           {Stat: known(0.25), Window: window, End: start.Add(time.Minute)},
			10 * time.Minute: {Stat: known(0.75), Window: 10 * time.Minute, End: start.Add(time.Minute), Drift: 0.5}, // 50 points in a minute
		}},
	} {
		src.respond(step.samples...)
		check.OK(t, w.Refresh(ctx))
		for asked, want := range step.want {
			check.Equal(t, asked.String(), want, w.Publisher().Latest().Over(asked).Node("a")[load.CPU])
		}
		clock.Step(time.Minute)
	}
}

func TestRefresh_LogsChangesOnce(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(4), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	w, src, _ := newTestWatcher()
	down := func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{}, errors.New("down")
	}
	for range 2 {
		for range 3 {
			src.fetch = down
			if err := w.Refresh(ctx); err == nil {
				t.Fatal("no error")
			}
		}
		for range 3 {
			src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
			check.OK(t, w.Refresh(ctx))
		}
	}
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for line, want := range map[string]int{"Load cannot be read": 2, "Load still cannot be read": 0, "Load can be read again": 2, "Load read": 6} {
		check.Equal(t, fmt.Sprintf("times that %q is logged: %s", line, logged), want, strings.Count(logged, line))
	}
	if lines := strings.Count(logged, "\n"); lines > 10 {
		t.Errorf("%d lines logged, want 10:\n%s", lines, logged)
	}
}

// TestRefresh_LogsAlternationRarely has a source fail at every other refresh for an hour, and then fail for good.
func TestRefresh_LogsAlternationRarely(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	w, src, clock := newTestWatcher()
	down := func(context.Context, source.Request) (source.Batch, error) { return source.Batch{}, errors.New("down") }
	for i := range 120 {
		if src.fetch = down; i%2 == 0 {
			src.respond(load.Sample{Node: "a", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(0.25)}})
		}
		_ = w.Refresh(ctx)
		clock.Step(30 * time.Second)
	}
	src.fetch = down
	for range 20 {
		_ = w.Refresh(ctx)
		clock.Step(30 * time.Second)
	}
	logged := strings.TrimSpace(logger.GetSink().(ktesting.Underlier).GetBuffer().String())
	lines := strings.Split(logged, "\n")
	// 6 lines at first, then one in 5 minutes.
	if len(lines) > 6+14 || !strings.Contains(logged, "changesNotLogged=") {
		t.Errorf("%d lines in 70 minutes, want at most 20 and the number of changes between them:\n%s", len(lines), logged)
	}
	check.Contains(t, lines[len(lines)-1], "Load cannot be read")
}

func TestWatcher_ServesAllReaders(t *testing.T) {
	w, _, _ := newTestWatcher()
	register(w, load.Trust{RefreshInterval: 10 * time.Second, MaxAge: time.Minute, DriftTolerance: 5}, 15*time.Minute)
	register(w, load.Trust{RefreshInterval: time.Minute, MaxAge: 10 * time.Minute, DriftTolerance: 20}, window)
	requirements, loosest := w.registered()
	want := load.Requirements{Windows: []time.Duration{window, 15 * time.Minute}, RefreshInterval: 10 * time.Second}
	check.Equal(t, "requirements", want, requirements)
	check.Equal(t, "trust", load.Trust{RefreshInterval: time.Minute, MaxAge: 10 * time.Minute, DriftTolerance: 20}, loosest)
}

// run starts the watcher. Each fetch, numbered from 1, sends its number to fetched and fails with the error that next returns.
func run(t *testing.T, w *Watcher, src *fakeSource, next func(n int) error) (fetched chan int, stop func()) {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	fetched, done := make(chan int), make(chan struct{})
	n := 0
	src.fetch = func(ctx context.Context, _ source.Request) (source.Batch, error) {
		n++
		select {
		case fetched <- n:
		case <-ctx.Done():
		}
		return source.Batch{Samples: []load.Sample{{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.5)}}}}, next(n)
	}
	go func() { defer close(done); w.Run(ctx) }()
	return fetched, func() { cancel(); <-done }
}

// waitForTimer waits until the watcher waits for its next refresh.
func waitForTimer(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !clock.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watcher does not wait for its next refresh")
		}
	}
}

func TestRun_Waits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails func(n int) bool
		// waits are in seconds, each lengthened by a tenth at most.
		waits []time.Duration
	}{
		{"at once, then at intervals", func(int) bool { return false }, []time.Duration{30, 30, 30}},
		{"a second, doubled up to the interval, while the source fails", func(int) bool { return true }, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		{"a second again after a success", func(n int) bool { return n != 4 }, []time.Duration{1, 2, 4, 30, 1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, src, clock := newTestWatcher()
			fetched, stop := run(t, w, src, func(n int) error {
				if tt.fails(n) {
					return errors.New("down")
				}
				return nil
			})
			defer stop()
			<-fetched
			for _, wait := range tt.waits {
				wait *= time.Second
				waitForTimer(t, clock)
				clock.Step(wait - time.Nanosecond)
				if !clock.HasWaiters() {
					t.Fatalf("refreshed before %v", wait)
				}
				clock.Step(wait/10 + time.Nanosecond)
				<-fetched
			}
		})
	}
}

func TestRun_HangingSourceEndsWithTheContext(t *testing.T) {
	w, src, _ := newTestWatcher()
	_, stop := run(t, w, src, func(int) error { return nil }) // nothing receives: the fetch hangs
	if got := knownNodes(w, "a"); got != nil {
		t.Errorf("load of %v is known, want of none", got)
	}
	stop()
	if !src.closed.Load() {
		t.Error("the source was not closed")
	}
}

func TestRun_WaitsForTheNodes(t *testing.T) {
	src := &fakeSource{fetch: func(context.Context, source.Request) (source.Batch, error) {
		t.Error("fetched before the nodes were known")
		return source.Batch{}, nil
	}}
	asked := make(chan struct{})
	var once atomic.Bool
	nodes := cluster{synced: func() bool {
		if once.CompareAndSwap(false, true) {
			close(asked)
		}
		return false
	}}
	w := NewWatcher(src, "fake", nodes, clocktesting.NewFakeClock(start), NewMetrics(metrics.NewKubeRegistry()))
	register(w, trust, window)
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	<-asked
	cancel()
	<-done
}

// respondMetrics makes the source return node metrics alone.
func (f *fakeSource) respondMetrics(values ...source.MetricValues) {
	f.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{Metrics: values}, nil
	}
}

// metricOf returns the snapshot's values of a node metric, for those of the named nodes that have one.
func metricOf(s *load.Snapshot, metric string, names ...string) load.MetricTable {
	table := load.MetricTable{}
	for _, name := range names {
		if row, ok := s.Index().Row(name); ok {
			if value, end := s.Metric(metric).Row(row); end != 0 {
				table[name] = load.MetricValue{Value: value, End: time.Unix(0, end).UTC()}
			}
		}
	}
	return table
}

func TestRefresh_NodeMetrics(t *testing.T) {
	later := start.Add(time.Minute)
	was := func(value float64) load.MetricValue { return load.MetricValue{Value: value, End: start} }
	is := func(value float64) load.MetricValue { return load.MetricValue{Value: value, End: later} }
	for _, tc := range []struct {
		name    string
		metrics []source.MetricValues
		want    map[string]load.MetricTable
	}{
		{
			name: "a valid batch replaces the last measurement",
			metrics: []source.MetricValues{
				{Metric: "x", End: later, Values: map[string]float64{"a": 3, "b": -4}},
				{Metric: "w", End: later, Values: map[string]float64{"a": 30}},
			},
			want: map[string]load.MetricTable{"x": {"a": is(3), "b": is(-4)}, "w": {"a": is(30)}},
		},
		{
			name: "a node and a metric that are left out keep their value and its age", metrics: []source.MetricValues{{Metric: "x", End: later, Values: map[string]float64{"a": 3}}},
			want: map[string]load.MetricTable{"x": {"a": is(3), "b": was(2)}, "w": {"a": was(10)}},
		},
		{
			name:    "a value that is not a number is rejected",
			metrics: []source.MetricValues{{Metric: "x", End: later, Values: map[string]float64{"a": math.NaN(), "b": math.Inf(-1), "c": 0}}},
			want:    map[string]load.MetricTable{"x": {"a": was(1), "b": was(2), "c": is(0)}, "w": {"a": was(10)}},
		},
		{
			name: "a batch older than what is known changes nothing", metrics: []source.MetricValues{{Metric: "x", End: start.Add(-1), Values: map[string]float64{"a": 3}}},
			want: map[string]load.MetricTable{"x": {"a": was(1), "b": was(2)}, "w": {"a": was(10)}},
		},
		{
			name:    "a source whose clock is ahead does not make values that never expire",
			metrics: []source.MetricValues{{Metric: "x", End: later.Add(time.Hour), Values: map[string]float64{"a": 3}}},
			want:    map[string]load.MetricTable{"x": {"a": is(3), "b": was(2)}, "w": {"a": was(10)}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			w, src, clock := newTestWatcher()
			src.respondMetrics(
				source.MetricValues{Metric: "x", End: start, Values: map[string]float64{"a": 1, "b": 2}},
				source.MetricValues{Metric: "w", End: start, Values: map[string]float64{"a": 10}})
			check.OK(t, w.Refresh(ctx))
			earlier := w.Publisher().Latest()
			clock.SetTime(later)
			src.respondMetrics(tc.metrics...)
			check.OK(t, w.Refresh(ctx))
			latest := w.Publisher().Latest()
			for metric, want := range tc.want {
				check.Equal(t, fmt.Sprintf("metric %s", metric), want, metricOf(latest, metric, "a", "b", "c"))
			}
			check.Equal(t, "the snapshot of before has changed", load.MetricTable{"a": was(1), "b": was(2)}, metricOf(earlier, "x", "a", "b", "c"))
		})
	}
}

// While load cannot be read, a refresh fails and says so, and load grows old. Node metrics that can be read go on.
func TestRefresh_LoadFailsBesideNodeMetrics(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(4), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	w, src, clock := newTestWatcher("a")
	src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
	check.OK(t, w.Refresh(ctx))
	failure := errors.New("too many samples")
	for minute := range 6 { // beyond maxAge
		clock.Step(time.Minute)
		src.fetch = func(context.Context, source.Request) (source.Batch, error) {
			return source.Batch{Metrics: []source.MetricValues{{Metric: "x", End: clock.Now(), Values: map[string]float64{"a": float64(minute)}}}}, failure
		}
		if err := w.Refresh(ctx); !errors.Is(err, failure) {
			t.Fatalf("error %v, want %v", err, failure)
		}
	}
	if got, want := w.Publisher().Latest().Over(window).Node("a")[load.CPU], measurement(0.25, start); got != want {
		t.Errorf("load %+v, want %+v", got, want)
	}
	want := load.MetricTable{"a": {Value: 5, End: start.Add(6 * time.Minute)}}
	check.Equal(t, "node metric", want, metricOf(w.Publisher().Latest(), "x", "a"))
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for line, want := range map[string]int{"Load cannot be read": 1, "Load can be read again": 0, "Load read": 1} {
		check.Equal(t, fmt.Sprintf("times that %q is logged: %s", line, logged), want, strings.Count(logged, line))
	}
	wantCounter(t, w.metrics.refreshes.WithLabelValues("fake", resultError), 6)
	wantCounter(t, w.metrics.refreshes.WithLabelValues("fake", resultSuccess), 1)
}

func TestRefresh_NodeMetricsAlone(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	registry, src, clock := metrics.NewKubeRegistry(), &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: []string{"a"}}, clock, NewMetrics(registry))
	for _, metrics := range [][]string{{"x", "w"}, {"w", "v"}} {
		w.Register(load.Requirements{Metrics: metrics, RefreshInterval: time.Minute},
			load.Trust{RefreshInterval: time.Minute, MaxAge: time.Minute})
	}
	var asked source.Request
	src.fetch = func(_ context.Context, request source.Request) (source.Batch, error) {
		asked = request
		return source.Batch{
			// Load that was not requested.
			Samples: []load.Sample{{Node: "a", End: start, Stats: load.Stats{load.CPU: known(0.5)}}},
			Metrics: []source.MetricValues{{Metric: "x", End: start, Values: map[string]float64{"a": 1}}},
		}, nil
	}
	w.metrics.register(w)
	check.OK(t, w.Refresh(ctx))
	check.Equal(t, "asked", source.Request{Metrics: []string{"x", "w", "v"}}, asked)
	check.Equal(t, "value", 1, metricOf(w.Publisher().Latest(), "x", "a")["a"].Value)
	if _, err := registry.Gather(); err != nil {
		t.Errorf("metrics of the watcher: %v", err)
	}
}

// Quantiles are kept apart from means, and from one another.
func TestRefresh_Quantiles(t *testing.T) {
	p95, longer := load.Quantile{Window: window, Fraction: 0.95}, load.Quantile{Window: time.Hour, Fraction: 0.95}
	w, src, clock := newTestWatcher("a", "b")
	w.Register(load.Requirements{Quantiles: []load.Quantile{p95, longer}, RefreshInterval: trust.RefreshInterval}, trust)
	var asked source.Request
	of := func(q load.Quantile, mean float64) load.Sample {
		stat := load.Stat{Mean: mean, StdDev: math.NaN(), Span: time.Minute, Known: true}
		return load.Sample{Node: "a", Window: q.Window, Fraction: q.Fraction, End: start, Stats: load.Stats{load.CPU: stat}}
	}
	src.fetch = func(_ context.Context, request source.Request) (source.Batch, error) {
		asked = request
		return source.Batch{Samples: []load.Sample{
			{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}},
			of(p95, 0.5), of(longer, 0.75), of(load.Quantile{Window: window, Fraction: 1}, 0.9), // nobody asked for the last
			{Node: "b", End: start, Stats: load.Stats{load.CPU: known(0.1)}},
		}}, nil
	}
	clock.Step(time.Second)
	check.OK(t, w.Refresh(t.Context()))
	check.Equal(t, "asked for", source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{p95, longer}}, asked)
	latest := w.Publisher().Latest()
	for name, tc := range map[string]struct {
		table *load.Table
		want  float64
		span  time.Duration
	}{
		"the mean":                     {latest.Over(window), 0.25, window},
		"the quantile":                 {latest.Table(p95), 0.5, time.Minute},
		"the quantile over an hour":    {latest.Table(longer), 0.75, time.Minute},
		"the mean over an hour":        {latest.Over(time.Hour), 0, 0},
		"a quantile nobody registered": {latest.Table(load.Quantile{Window: window, Fraction: 1}), 0, 0},
	} {
		if got := tc.table.Node("a")[load.CPU]; got.Mean != tc.want || got.Window != tc.span || got.StdDev != 0 {
			t.Errorf("%s: %+v, want %v over %v", name, got, tc.want, tc.span)
		}
	}
	if got := latest.Table(p95).Node("b")[load.CPU]; got.Known {
		t.Errorf("a sample of the moment became a quantile: %+v", got)
	}
	if newest, states := w.states(); !newest.Equal(start) || states[load.CPU][load.Fresh] != 2 {
		t.Errorf("newest %v, states %v", newest, states)
	}
}

// A watcher that reads quantiles alone tells how many nodes it knows.
func TestStates_QuantilesAlone(t *testing.T) {
	src, clock := &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: []string{"a", "b"}}, clock, NewMetrics(metrics.NewKubeRegistry()))
	w.Register(load.Requirements{Quantiles: []load.Quantile{{Window: window, Fraction: 1}}, RefreshInterval: trust.RefreshInterval},
		trust)
	src.respond(load.Sample{Node: "a", Window: window, Fraction: 1, End: start, Stats: load.Stats{load.CPU: known(0.5)}})
	check.OK(t, w.Refresh(t.Context()))
	if newest, states := w.states(); !newest.Equal(start) || states[load.CPU][load.Fresh] != 1 || states[load.CPU][load.Absent] != 1 {
		t.Errorf("newest %v, states %v; want one node of two", newest, states)
	}
}
