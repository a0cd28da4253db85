package refresh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const window = 5 * time.Minute

var (
	start  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wanted = load.Settings{Window: window, RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
)

// fakeSource answers each fetch by the function it is set to.
type fakeSource struct {
	fetch  func(ctx context.Context, request source.Request) (source.Batch, error)
	closed atomic.Bool
}

func (f *fakeSource) Name() string { return "fake" }
func (f *fakeSource) Close() error { f.closed.Store(true); return nil }
func (f *fakeSource) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	return f.fetch(ctx, request)
}

func (f *fakeSource) answer(samples ...load.Sample) {
	f.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{Samples: samples}, nil
	}
}

func known(mean float64) load.Stat { return load.Stat{Mean: mean, Known: true} }

func reading(mean float64, end time.Time) load.Measurement {
	return load.Measurement{Stat: known(mean), Window: window, End: end}
}

// drifting is a reading whose mean moves by drift, a fraction of capacity, a minute.
func drifting(mean float64, end time.Time, drift float64) load.Measurement {
	r := reading(mean, end)
	r.Drift = drift
	return r
}

// cluster is a cluster of the nodes of the given names, which are known when synced says so.
type cluster struct {
	names  []string
	synced func() bool
}

func (c cluster) Names() []string { return c.names }
func (c cluster) HasSynced() bool { return c.synced == nil || c.synced() }

func newTestWatcher(names ...string) (*Watcher, *fakeSource, *clocktesting.FakeClock) {
	src, clock := &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: names}, clock, NewMetrics(metrics.NewKubeRegistry()))
	w.Want(wanted)
	return w, src, clock
}

func TestWhatARefreshChanges(t *testing.T) {
	later := start.Add(time.Minute)
	sample := func(cpu, memory load.Stat) load.Sample {
		return load.Sample{Node: "a", Window: window, End: later, Stats: load.Stats{load.CPU: cpu, load.Memory: memory}}
	}
	old := load.NodeLoad{load.CPU: reading(0.25, start), load.Memory: reading(0.5, start)}

	for _, tc := range []struct {
		name    string
		fetch   func(ctx context.Context, request source.Request) (source.Batch, error)
		samples []load.Sample
		want    load.NodeLoad
		failure bool
	}{
		{
			name:    "a good answer replaces the last one",
			samples: []load.Sample{sample(known(0.75), known(0.125))},
			// 50 and 37.5 points in one minute.
			want: load.NodeLoad{load.CPU: drifting(0.75, later, 0.5), load.Memory: drifting(0.125, later, 0.375)},
		},
		{
			name:    "a node that the answer leaves out keeps its reading and its age",
			samples: []load.Sample{{Node: "b", Window: window, End: later, Stats: load.Stats{load.CPU: known(1)}}},
			want:    old,
		},
		{
			name:    "a resource that the answer leaves out keeps its reading and its age",
			samples: []load.Sample{sample(known(0.75), load.Stat{})},
			want:    load.NodeLoad{load.CPU: drifting(0.75, later, 0.5), load.Memory: reading(0.5, start)},
		},
		{
			name:    "impossible values change nothing",
			samples: []load.Sample{sample(known(math.NaN()), known(-1))},
			want:    old,
		},
		{
			name:    "an answer older than what is known changes nothing",
			samples: []load.Sample{{Node: "a", Window: window, End: start.Add(-time.Second), Stats: load.Stats{load.CPU: known(1), load.Memory: known(1)}}},
			want:    old,
		},
		{
			name:    "a source whose clock is ahead does not make load that is never too old",
			samples: []load.Sample{{Node: "a", Window: window, End: start.Add(time.Hour), Stats: load.Stats{load.CPU: known(0.75), load.Memory: known(0.125)}}},
			want:    load.NodeLoad{load.CPU: drifting(0.75, later, 0.5), load.Memory: drifting(0.125, later, 0.375)},
		},
		{
			name:    "an empty answer changes nothing",
			want:    old,
			failure: true,
		},
		{
			name: "a failure changes nothing",
			fetch: func(context.Context, source.Request) (source.Batch, error) {
				return source.Batch{Samples: []load.Sample{sample(known(1), known(1))}}, errors.New("500")
			},
			want:    old,
			failure: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			w, src, clock := newTestWatcher()
			src.answer(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25), load.Memory: known(0.5)}})
			if err := w.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(later)
			src.answer(tc.samples...)
			if tc.fetch != nil {
				src.fetch = tc.fetch
			}
			if err := w.Refresh(ctx); (err != nil) != tc.failure {
				t.Errorf("refresh: %v, want a failure: %v", err, tc.failure)
			}
			if diff := cmp.Diff(tc.want, w.Publisher().Latest().Over(window).Node("a")); diff != "" {
				t.Errorf("load of node a (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADeviationThatWasNotMeasuredIsTheLastOne(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	for _, step := range []struct {
		after    time.Duration
		measured float64
		want     float64
	}{
		{0, 0.3, 0.3},
		{time.Minute, math.NaN(), 0.3},        // its query failed
		{wanted.MaxAge, math.NaN(), 0.3},      // it is as old as anything may be
		{wanted.MaxAge + 1, math.NaN(), 0},    // nobody trusts it any more
		{wanted.MaxAge + 2, 0.1, 0.1},         // it is measured again
		{wanted.MaxAge + 3, math.Inf(1), 0.1}, // and is impossible
		{wanted.MaxAge + 4, 0, 0},             // a steady node
		{wanted.MaxAge + 5, math.NaN(), 0},    // is still steady
	} {
		clock.SetTime(start.Add(step.after))
		src.answer(load.Sample{Node: "a", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: load.Stat{Mean: 0.5, StdDev: step.measured, Known: true}}})
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.Publisher().Latest().Over(window).Node("a")[load.CPU].StdDev; got != step.want {
			t.Errorf("after %v: deviation %v, want %v", step.after, got, step.want)
		}
	}
}

func TestLoadIsReadAnewAfterTheClockWentBack(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	for _, step := range []struct {
		at   time.Time
		mean float64
	}{
		{start.Add(time.Hour), 0.1}, // the clock is an hour ahead
		{start, 0.95},               // and is set right
		{start.Add(time.Minute), 0.9},
	} {
		clock.SetTime(step.at)
		src.answer(load.Sample{Node: "a", Window: window, End: step.at, Stats: load.Stats{load.CPU: known(step.mean)}})
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		got := w.Publisher().Latest().Over(window).Node("a")[load.CPU]
		if got.Mean != step.mean || !got.End.Equal(step.at) {
			t.Errorf("at %v: %v of %v, want %v of now", step.at, got.Mean, got.End, step.mean)
		}
	}
}

func TestLoadFromBeforeTheClockWentBackIsNotFreshWhileTheSourceIsDown(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	clock.SetTime(start.Add(time.Hour))
	src.answer(load.Sample{Node: "a", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(0.1)}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(start)
	src.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{}, errors.New("down")
	}
	if err := w.Refresh(ctx); err == nil {
		t.Fatal("no error")
	}
	if n := w.Publisher().Latest().Over(window).Len(); n != 0 {
		t.Errorf("load of %d nodes is known, want none", n)
	}
}

func TestAnAnswerThatNeverChangesGrowsOldWhateverItsClockSays(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	w.Want(load.Settings{Window: window, RefreshInterval: time.Minute, MaxAge: time.Hour, DriftTolerance: 10})
	stuck := load.Sample{Node: "a", Window: window, End: start.Add(time.Hour), Stats: load.Stats{load.CPU: known(0.1)}} // a clock an hour ahead
	for range 10 {
		src.answer(stuck)
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Minute)
	}
	if end := w.Publisher().Latest().Over(window).Node("a")[load.CPU].End; !end.Equal(start) {
		t.Errorf("the reading is of %v, want %v, when it was first read", end, start)
	}
}

func TestWhatWasMeasuredOverAnotherSpanSaysSo(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	cpu := known(0.5)
	cpu.Span = 10 * time.Minute
	src.answer(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: cpu, load.Memory: known(0.5)}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	got := w.Publisher().Latest().Over(window).Node("a")
	if got[load.CPU].Window != 10*time.Minute || got[load.Memory].Window != window {
		t.Errorf("cpu is over %v and memory over %v, want 10m and 5m", got[load.CPU].Window, got[load.Memory].Window)
	}
}

func TestMemoryPerNodeIsBounded(t *testing.T) {
	const nodes = 2000
	_, ctx := ktesting.NewTestContext(t)
	for name, tc := range map[string]struct {
		bound  int64
		sample func(node string, window, at time.Duration) load.Sample
	}{
		"a source that knows windows": {2 << 10, func(node string, window, at time.Duration) load.Sample {
			return load.Sample{Node: node, Window: window, End: start.Add(at), Stats: load.Stats{load.CPU: known(0.5), load.Memory: known(0.5)}}
		}},
		"a source that knows only the present": {3 << 10, func(node string, _, at time.Duration) load.Sample {
			return load.Sample{Node: node, End: start.Add(at), Stats: load.Stats{load.CPU: known(0.5), load.Memory: known(0.5)}}
		}},
	} {
		before := heap()
		w, src, clock := newTestWatcher()
		windows := []time.Duration{window, 10 * time.Minute, 15 * time.Minute}
		for _, window := range windows[1:] {
			w.Want(load.Settings{Window: window})
		}
		for at := time.Duration(0); at <= 20*time.Minute; at += 15 * time.Second {
			clock.SetTime(start.Add(at))
			var samples []load.Sample
			for i := range nodes {
				for _, window := range windows {
					samples = append(samples, tc.sample(fmt.Sprint("node-", i), window, at))
				}
			}
			src.answer(samples...)
			if err := w.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
		}
		src.answer()
		perNode := (heap() - before) / nodes
		t.Logf("%s: %d bytes per node with three windows", name, perNode)
		if perNode > tc.bound {
			t.Errorf("%s: %d bytes per node with three windows, want at most %d", name, perNode, tc.bound)
		}
		runtime.KeepAlive(w)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestASnapshotIsNotChangedByLaterRefreshes(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	src.answer(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	held := w.Publisher().Latest()
	src.answer(load.Sample{Node: "a", Window: window, End: start.Add(time.Nanosecond), Stats: load.Stats{load.CPU: known(0.75)}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if got := held.Over(window).Node("a")[load.CPU].Mean; got != 0.25 {
		t.Errorf("the held snapshot says %v, want 0.25 as before", got)
	}
}

func TestNodesThatNobodyTrustsAnyMoreAreForgotten(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	src.answer(load.Sample{Node: "gone", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		age  time.Duration
		want int
	}{{wanted.MaxAge, 2}, {wanted.MaxAge + 1, 1}} {
		clock.SetTime(start.Add(step.age))
		src.answer(load.Sample{Node: "here", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(0.25)}})
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.Publisher().Latest().Over(window).Len(); got != step.want {
			t.Errorf("%v after the last reading of a node %d nodes are kept, want %d", step.age, got, step.want)
		}
	}
}

func TestASourceThatKnowsOneWindowAnswersForAll(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	w.Want(load.Settings{Window: 10 * time.Minute, RefreshInterval: time.Minute, MaxAge: time.Minute})
	src.answer(load.Sample{Node: "a", Window: 15 * time.Minute, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	want := load.Measurement{Stat: known(0.25), Window: 15 * time.Minute, End: start}
	for _, asked := range []time.Duration{window, 10 * time.Minute} {
		if diff := cmp.Diff(want, w.Publisher().Latest().Over(asked).Node("a")[load.CPU]); diff != "" {
			t.Errorf("over %v (-want +got):\n%s", asked, diff)
		}
	}
}

func TestEachWindowHasItsOwnLoad(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, _ := newTestWatcher()
	w.Want(load.Settings{Window: 10 * time.Minute, RefreshInterval: time.Minute, MaxAge: time.Minute})
	src.answer(
		load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}},
		load.Sample{Node: "a", Window: 10 * time.Minute, End: start, Stats: load.Stats{load.CPU: known(0.75)}},
	)
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[time.Duration]float64{window: 0.25, 10 * time.Minute: 0.75} {
		if got := w.Publisher().Latest().Over(asked).Node("a")[load.CPU].Mean; got != want {
			t.Errorf("over %v: %v, want %v", asked, got, want)
		}
	}
}

func TestASourceThatGoesAndComesIsLoggedOnceEach(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
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
			src.answer(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.25)}})
			if err := w.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for line, want := range map[string]int{"Load cannot be read": 2, "Load can be read again": 2} {
		if got := strings.Count(logged, line); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, got, want, logged)
		}
	}
	if lines := strings.Count(logged, "\n"); lines > 4 {
		t.Errorf("%d lines logged, want 4:\n%s", lines, logged)
	}
}

func TestWhatReadersWantAddsUp(t *testing.T) {
	w, _, _ := newTestWatcher()
	w.Want(load.Settings{Window: 15 * time.Minute, RefreshInterval: 10 * time.Second, MaxAge: time.Minute, DriftTolerance: 5})
	w.Want(load.Settings{Window: window, RefreshInterval: time.Minute, MaxAge: 10 * time.Minute, DriftTolerance: 20})
	want := demand{
		windows: []time.Duration{window, 15 * time.Minute},
		loosest: load.Settings{RefreshInterval: 10 * time.Second, MaxAge: 10 * time.Minute, DriftTolerance: 20},
	}
	if diff := cmp.Diff(want, w.demand(), cmp.AllowUnexported(demand{})); diff != "" {
		t.Errorf("what all readers want together (-want +got):\n%s", diff)
	}
}

// run starts the watcher and returns a channel that gets a value at each fetch, answered by the error that next returns.
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

func waitForTimer(clock *clocktesting.FakeClock) {
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
}

func TestTheFirstRefreshIsAtOnceAndTheOthersAtIntervals(t *testing.T) {
	w, src, clock := newTestWatcher()
	fetched, stop := run(t, w, src, func(int) error { return nil })
	defer stop()
	<-fetched
	for range 3 {
		waitForTimer(clock)
		clock.Step(wanted.RefreshInterval - time.Nanosecond)
		if !clock.HasWaiters() {
			t.Fatal("refreshed before the interval was over")
		}
		// The interval is lengthened by a tenth at most.
		clock.Step(wanted.RefreshInterval/10 + time.Nanosecond)
		<-fetched
	}
}

func TestAFailedRefreshIsRetriedSoonerWithBackoff(t *testing.T) {
	w, src, clock := newTestWatcher()
	fetched, stop := run(t, w, src, func(int) error { return errors.New("down") })
	defer stop()
	<-fetched
	// 1s doubled up to the refresh interval, each lengthened by a tenth at most.
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		wait *= time.Second
		waitForTimer(clock)
		clock.Step(wait - time.Nanosecond)
		if !clock.HasWaiters() {
			t.Fatalf("retried before %v", wait)
		}
		clock.Step(wait/10 + time.Nanosecond)
		<-fetched
	}
}

func TestAfterASuccessTheBackoffBeginsAnew(t *testing.T) {
	w, src, clock := newTestWatcher()
	fetched, stop := run(t, w, src, func(n int) error {
		if n == 4 {
			return nil
		}
		return errors.New("down")
	})
	defer stop()
	<-fetched
	// Three failures, the success, whose wait is the refresh interval, and two failures more.
	for _, wait := range []time.Duration{1, 2, 4, 30, 1, 2} {
		wait *= time.Second
		waitForTimer(clock)
		clock.Step(wait - time.Nanosecond)
		if !clock.HasWaiters() {
			t.Fatalf("refreshed before %v", wait)
		}
		clock.Step(wait/10 + time.Nanosecond)
		<-fetched
	}
}

func TestASourceThatHangsHoldsUpNobodyAndEndsWithTheContext(t *testing.T) {
	w, src, _ := newTestWatcher()
	_, stop := run(t, w, src, func(int) error { return nil }) // nobody receives: the fetch hangs
	if n := w.Publisher().Latest().Over(window).Len(); n != 0 {
		t.Errorf("%d nodes known, want 0", n)
	}
	stop()
	if !src.closed.Load() {
		t.Error("the source was not closed")
	}
}

func TestNothingIsReadBeforeTheNodesAreKnown(t *testing.T) {
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
	w.Want(wanted)
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	<-asked
	cancel()
	<-done
}

func TestAPoolSharesOneWatcherPerSource(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	registry, clock := metrics.NewKubeRegistry(), clocktesting.NewFakeClock(start)
	pool := NewPool[string](clock, NewMetrics(registry))
	asked := map[string]chan []time.Duration{"a": make(chan []time.Duration), "b": make(chan []time.Duration)}
	var sources []*fakeSource
	begin := make(chan struct{})
	nodes := cluster{synced: func() bool {
		select {
		case <-begin:
			return true
		default:
			return false
		}
	}}
	get := func(key string, window time.Duration) *load.Publisher {
		t.Helper()
		wanted := wanted
		wanted.Window = window
		p, err := pool.Publisher(ctx, key, wanted, nodes, func() (source.Source, error) {
			src := &fakeSource{fetch: func(ctx context.Context, request source.Request) (source.Batch, error) {
				select {
				case asked[key] <- request.Windows:
				case <-ctx.Done():
				}
				return source.Batch{}, errors.New("no answer")
			}}
			sources = append(sources, src)
			return src, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, again, b := get("a", window), get("a", 10*time.Minute), get("b", window)
	if a != again {
		t.Error("the same source has two publishers")
	}
	if a == b {
		t.Error("two sources have one publisher")
	}
	if len(sources) != 2 {
		t.Errorf("%d sources opened, want 2", len(sources))
	}
	close(begin)
	if diff := cmp.Diff([]time.Duration{window, 10 * time.Minute}, <-asked["a"]); diff != "" {
		t.Errorf("windows asked of the shared source (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{window}, <-asked["b"]); diff != "" {
		t.Errorf("windows asked of the other source (-want +got):\n%s", diff)
	}
	if _, err := registry.Gather(); err != nil {
		t.Errorf("two sources of one name cannot be told in the metrics: %v", err)
	}
	cancel()
	for _, src := range sources {
		for !src.closed.Load() {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestASourceThatCannotBeOpenedIsAnError(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	pool := NewPool[string](clocktesting.NewFakeClock(start), NewMetrics(metrics.NewKubeRegistry()))
	want := errors.New("no such file")
	if _, err := pool.Publisher(ctx, "a", wanted, cluster{}, func() (source.Source, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// answerMetrics makes the source answer for metrics alone.
func (f *fakeSource) answerMetrics(answers ...source.MetricValues) {
	f.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{Metrics: answers}, nil
	}
}

func TestWhatAnAnswerForAMetricChanges(t *testing.T) {
	later := start.Add(time.Minute)
	was := func(value float64) load.MetricValue { return load.MetricValue{Value: value, End: start} }
	is := func(value float64) load.MetricValue { return load.MetricValue{Value: value, End: later} }
	for _, tc := range []struct {
		name    string
		answers []source.MetricValues
		want    map[string]load.MetricTable
	}{
		{
			name: "a good answer replaces the last one",
			answers: []source.MetricValues{
				{Metric: "x", End: later, Values: map[string]float64{"a": 3, "b": -4}},
				{Metric: "w", End: later, Values: map[string]float64{"a": 30}},
			},
			want: map[string]load.MetricTable{"x": {"a": is(3), "b": is(-4)}, "w": {"a": is(30)}},
		},
		{
			name:    "a node and a metric that are left out keep their value and its age",
			answers: []source.MetricValues{{Metric: "x", End: later, Values: map[string]float64{"a": 3}}},
			want:    map[string]load.MetricTable{"x": {"a": is(3), "b": was(2)}, "w": {"a": was(10)}},
		},
		{
			name:    "what is no number is not taken",
			answers: []source.MetricValues{{Metric: "x", End: later, Values: map[string]float64{"a": math.NaN(), "b": math.Inf(-1), "c": 0}}},
			want:    map[string]load.MetricTable{"x": {"a": was(1), "b": was(2), "c": is(0)}, "w": {"a": was(10)}},
		},
		{
			name:    "an answer older than what is known changes nothing",
			answers: []source.MetricValues{{Metric: "x", End: start.Add(-1), Values: map[string]float64{"a": 3}}},
			want:    map[string]load.MetricTable{"x": {"a": was(1), "b": was(2)}, "w": {"a": was(10)}},
		},
		{
			name:    "a source whose clock is ahead does not make values that are never too old",
			answers: []source.MetricValues{{Metric: "x", End: later.Add(time.Hour), Values: map[string]float64{"a": 3}}},
			want:    map[string]load.MetricTable{"x": {"a": is(3), "b": was(2)}, "w": {"a": was(10)}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			w, src, clock := newTestWatcher()
			src.answerMetrics(
				source.MetricValues{Metric: "x", End: start, Values: map[string]float64{"a": 1, "b": 2}},
				source.MetricValues{Metric: "w", End: start, Values: map[string]float64{"a": 10}})
			if err := w.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			held := w.Publisher().Latest()
			clock.SetTime(later)
			src.answerMetrics(tc.answers...)
			if err := w.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			latest := w.Publisher().Latest()
			for metric, want := range tc.want {
				if diff := cmp.Diff(want, latest.Metric(metric)); diff != "" {
					t.Errorf("metric %s (-want +got):\n%s", metric, diff)
				}
			}
			if diff := cmp.Diff(load.MetricTable{"a": was(1), "b": was(2)}, held.Metric("x")); diff != "" {
				t.Errorf("the snapshot of before has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesOfMetricsThatNobodyTrustsAnyMoreAreForgotten(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher()
	src.answerMetrics(source.MetricValues{Metric: "x", End: start, Values: map[string]float64{"gone": 1}})
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		age  time.Duration
		want int
	}{{wanted.MaxAge, 2}, {wanted.MaxAge + 1, 1}} {
		clock.SetTime(start.Add(step.age))
		src.answerMetrics(source.MetricValues{Metric: "x", End: clock.Now(), Values: map[string]float64{"here": 1}})
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if got := len(w.Publisher().Latest().Metric("x")); got != step.want {
			t.Errorf("%v after the last value of a node %d are kept, want %d", step.age, got, step.want)
		}
	}
}

func TestAWatcherOfMetricsAloneAsksForNoLoad(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	registry, src, clock := metrics.NewKubeRegistry(), &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: []string{"a"}}, clock, NewMetrics(registry))
	w.Want(load.Settings{Metrics: []string{"x", "w"}, RefreshInterval: time.Minute, MaxAge: time.Minute})
	w.Want(load.Settings{Metrics: []string{"w", "v"}, RefreshInterval: time.Minute, MaxAge: time.Minute})
	var asked source.Request
	src.fetch = func(_ context.Context, request source.Request) (source.Batch, error) {
		asked = request
		return source.Batch{
			// Load that nobody asked for.
			Samples: []load.Sample{{Node: "a", End: start, Stats: load.Stats{load.CPU: known(0.5)}}},
			Metrics: []source.MetricValues{{Metric: "x", End: start, Values: map[string]float64{"a": 1}}},
		}, nil
	}
	w.telemetry.watch(w)
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(source.Request{Metrics: []string{"x", "w", "v"}}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got := w.Publisher().Latest().Metric("x")["a"].Value; got != 1 {
		t.Errorf("value %v, want 1", got)
	}
	if _, err := registry.Gather(); err != nil {
		t.Errorf("metrics of the watcher: %v", err)
	}
}
