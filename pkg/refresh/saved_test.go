package refresh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// startAgain returns a new watcher of the same cluster, as after a restart, with its log.
func (c *podCluster) startAgain(t *testing.T, change func(*WorkloadConfig)) (*podCluster, func() string) {
	t.Helper()
	registry, config := metrics.NewKubeRegistry(), c.WorkloadConfig
	config.Metrics = NewMetrics(registry)
	change(&config)
	again := &podCluster{WorkloadWatcher: NewWorkloadWatcher(config), clock: c.clock, registry: registry, pods: c.pods}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	again.restore(klog.NewContext(t.Context(), logger))
	return again, func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
}

func unchanged(*WorkloadConfig) {}

// withFile is a cluster of a pod that used 100 milliCPU in the last interval, of which the statistics are in a file.
func withFile(t *testing.T, src source.PodSource, cpu func(map[string]float64)) *podCluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "statistics")
	c, _ := newPodCluster(t, src, "").startAgain(t, func(config *WorkloadConfig) { config.File, config.Origin = file, "Prometheus" })
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	cpu(map[string]float64{"shop/a-aaaaa": 100})
	c.due(t)
	return c
}

// due does what is due.
func (c *podCluster) due(t *testing.T) {
	t.Helper()
	if err := c.refreshDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// readAll does what is due until the history has been read.
func (c *podCluster) readAll(t *testing.T) {
	t.Helper()
	for c.past.remains() {
		c.clock.Step(c.untilDue())
		c.due(t)
	}
}

func noUsage(source.Period) ([]source.WorkloadUsage, error) { return nil, nil }

// TestSaved_Restart reads a day of history, stops for ten minutes, and reads the five minutes before the last interval.
func TestSaved_Restart(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := withFile(t, src, src.cpu)
	c.readAll(t)
	c.save(t.Context())
	if info, err := os.Stat(c.File); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	last, before := c.observed, c.cpuOf("shop", "a")
	c.clock.SetTime(last.Add(10 * time.Minute))
	src.asked, src.pods = nil, nil
	again, log := c.startAgain(t, unchanged)
	if got := again.cpuOf("shop", "a"); got != before || before.Mean != 100 {
		t.Errorf("after the restart: %+v, want %+v", got, before)
	}
	if !strings.Contains(log(), "Continuing with the saved statistics of workloads") {
		t.Errorf("logged %q", log())
	}
	src.cpu(map[string]float64{"shop/a-aaaaa": 300})
	again.due(t)
	again.readAll(t)
	want := []source.Period{{End: last.Add(5 * time.Minute), Length: 5 * time.Minute}}
	if len(src.pods) != 1 || len(src.asked) != 1 || !src.asked[0].End.Equal(want[0].End) || src.asked[0].Length != want[0].Length {
		t.Errorf("%d observations and the periods %+v, want one and %+v", len(src.pods), src.asked, want)
	}
	// What was known counts e^(-10m/24h) as much as when it was last observed.
	known := before.PodTime.Seconds() * math.Exp(-10.0/(24*60))
	wantMoments(t, "one interval more", again.cpuOf("shop", "a"), learned.Moments{
		PodTime: time.Duration((known + 300) * float64(time.Second)), Mean: (100*known + 300*300) / (known + 300),
		Variance: 200 * 200 * known * 300 / (known + 300) / (known + 300),
	})
	if err := testutil.GatherAndCompare(again.registry, strings.NewReader(`
# HELP plimsoll_workload_history_read_ratio [ALPHA] Share of the past usage of workloads that has been read since the start.
# TYPE plimsoll_workload_history_read_ratio gauge
plimsoll_workload_history_read_ratio{source="fake"} 1
`), "plimsoll_workload_history_read_ratio"); err != nil {
		t.Error(err)
	}
}

// TestSaved_RestartWithinAnInterval observes nothing twice.
func TestSaved_RestartWithinAnInterval(t *testing.T) {
	src := &fakePods{}
	c := withFile(t, src, src.cpu)
	c.clock.Step(2 * time.Minute)
	again, _ := c.startAgain(t, unchanged)
	again.due(t)
	if wait := again.untilDue(); len(src.pods) != 1 || wait != 3*time.Minute {
		t.Errorf("%d observations, the next in %v; want one, and the next in 3m", len(src.pods), wait)
	}
	now := again.clock.Now()
	again.clock.SetTime(now.Add(-time.Hour))
	if wait := again.untilDue(); wait != WorkloadInterval {
		t.Errorf("after the clock was set back, the next look is in %v, want 5m at most", wait)
	}
	again.clock.SetTime(now.Add(3 * time.Minute))
	again.due(t)
	aged := time.Duration(float64(window) * math.Exp(-5.0/(24*60)))
	wantMoments(t, "two intervals", again.cpuOf("shop", "a"), learned.Moments{PodTime: window + aged, Mean: 100})
}

// TestSaved_RestartWhileTheHistoryIsRead stops for an hour after two periods of 10 and 20 minutes.
func TestSaved_RestartWhileTheHistoryIsRead(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := withFile(t, src, src.cpu) // reads the first
	c.clock.Step(leastPause)
	c.due(t)
	c.save(t.Context())
	first := c.observed
	now := first.Add(time.Hour)
	c.clock.SetTime(now)
	src.asked = nil
	again, _ := c.startAgain(t, unchanged)
	again.due(t)
	again.readAll(t)
	// The gap of 55 minutes ends where the new observation begins, and its period may be 40 minutes long. The next ones double.
	want := []source.Period{
		{End: now.Add(-5 * time.Minute), Length: 40 * time.Minute, Step: 35 * time.Minute},
		{End: now.Add(-45 * time.Minute), Length: 15 * time.Minute, Step: 5 * time.Minute},
		// From where the earlier process stopped.
		{End: first.Add(-35 * time.Minute), Length: 160 * time.Minute, Step: 35 * time.Minute},
	}
	if diff := cmp.Diff(want, src.asked[:3]); diff != "" {
		t.Errorf("periods (-want +got):\n%s", diff)
	}
	// Of a day before the observation, its own interval, the first one and 30 minutes were read.
	var all time.Duration
	for _, p := range src.asked {
		all += p.Length
	}
	if want := 24*time.Hour - 5*time.Minute - 5*time.Minute - 30*time.Minute; all != want || again.past.read() != 1 {
		t.Errorf("read %v in %d periods, want %v", all, len(src.asked), want)
	}
}

// TestSaved_GivenUpHistoryIsTriedAgain has a source that refuses all of the history until the restart.
func TestSaved_GivenUpHistoryIsTriedAgain(t *testing.T) {
	src := &fakeHistory{history: func(source.Period) ([]source.WorkloadUsage, error) { return nil, errors.New("too many samples") }}
	c := withFile(t, src, src.cpu)
	c.readAll(t)
	c.clock.Step(c.untilDue())
	c.due(t)
	src.asked, src.history = nil, noUsage
	again, _ := c.startAgain(t, unchanged)
	again.readAll(t)
	if len(src.asked) == 0 || again.past.read() != 1 {
		t.Errorf("%d periods are read after the restart, and %v of the history", len(src.asked), again.past.read())
	}
}

func TestSaved_RefusedFiles(t *testing.T) {
	write := func(content []byte) func(*testing.T, *podCluster) {
		return func(t *testing.T, c *podCluster) {
			if err := os.WriteFile(c.File, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	note := func(note string) func(*testing.T, *podCluster) {
		return func(t *testing.T, c *podCluster) { write(c.Publisher().Latest().Encode([]byte(note)))(t, c) }
	}
	times := func(observed, begin, end time.Duration) func(*testing.T, *podCluster) {
		return func(t *testing.T, c *podCluster) {
			at := func(d time.Duration) string { return c.observed.Add(d).Format(time.RFC3339Nano) }
			note(fmt.Sprintf(`{"Origin":"Prometheus","Observed":%q,"Missing":[{"Begin":%q,"End":%q}]}`,
				at(observed), at(begin), at(end)))(t, c)
		}
	}
	untouched := func(*testing.T, *podCluster) {}
	for name, tt := range map[string]struct {
		damage func(*testing.T, *podCluster)
		config func(*WorkloadConfig)
		// after is the time from the last observation to the restart.
		after time.Duration
		// want is logged as an error, unless it is empty: then the file is used.
		want string
	}{
		"an intact file": {untouched, unchanged, time.Minute, ""},
		"intact times":   {times(0, -2, -1), unchanged, time.Minute, ""},
		"a huge file":    {write(make([]byte, maxFileBytes+1)), unchanged, time.Minute, "has more than 4194304 bytes"},
		"another file":   {write([]byte("hello")), unchanged, time.Minute, "it is not a file of statistics"},
		"an empty file":  {write(nil), unchanged, time.Minute, "is empty"},
		"a truncated file": {func(t *testing.T, c *podCluster) {
			if err := os.Truncate(c.File, 200); err != nil {
				t.Fatal(err)
			}
		}, unchanged, time.Minute, "it has 200 bytes instead of"},
		"a folder": {func(t *testing.T, c *podCluster) {
			if err := errors.Join(os.Remove(c.File), os.Mkdir(c.File, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, unchanged, time.Minute, "is not a regular file"},
		"another source":     {untouched, func(c *WorkloadConfig) { c.Origin = "metrics-server" }, time.Minute, "it was learned from Prometheus, and the configuration has metrics-server"},
		"a clock 5 s behind": {untouched, unchanged, -5 * time.Second, ""},
		"a clock set back":   {untouched, unchanged, -6 * time.Second, "and the clock shows"},
		"older than history": {untouched, unchanged, day + time.Second, "longer ago than the history of 24h0m0s"},
		"a note that ends":   {note("{"), unchanged, time.Minute, "its note is damaged"},
		"a note with a long time": {note(`{"Observed":"` + strings.Repeat("9", 1000) + `"}`), unchanged, time.Minute,
			"its note is damaged: parsing time"},
		"observed before":       {times(-1, -2, -1), unchanged, time.Minute, "impossible times"},
		"observed in an hour":   {times(time.Hour, -2, -1), unchanged, time.Minute, "impossible times"},
		"missing in the future": {times(0, -2, 1), unchanged, time.Minute, "impossible times"},
		"missing from its end":  {times(0, -1, -2), unchanged, time.Minute, "impossible times"},
	} {
		t.Run(name, func(t *testing.T) {
			src := &fakePods{}
			c := withFile(t, src, src.cpu)
			tt.damage(t, c)
			refused, err := os.ReadFile(c.File)
			isFile := err == nil
			c.clock.SetTime(c.observed.Add(tt.after))
			again, log := c.startAgain(t, tt.config)
			if tt.want == "" {
				if again.cpuOf("shop", "a").Mean != 100 {
					t.Errorf("the file is not used: %s", log())
				}
				return
			}
			if len(log()) > 1000 {
				t.Errorf("logged %d bytes", len(log()))
			}
			if n := again.Publisher().Latest().Len(); n != 0 || !strings.Contains(log(), tt.want) ||
				!strings.Contains(log(), "cannot be used. They are learned anew") {
				t.Errorf("%d workloads, logged %q; want none and %q", n, log(), tt.want)
			}
			again.due(t)
			wantMoments(t, "learned anew", again.cpuOf("shop", "a"), learned.Moments{PodTime: window, Mean: 100})
			if kept, err := os.ReadFile(c.File + ".refused"); isFile && (err != nil || !bytes.Equal(kept, refused)) {
				t.Errorf("%d bytes are kept, %v; want the %d of the refused file", len(kept), err, len(refused))
			}
			if third, log := again.startAgain(t, unchanged); third.Publisher().Latest().Len() != 1 {
				t.Errorf("the file was not replaced: %s", log())
			}
		})
	}
}

// unreadable makes the file a link to itself until it is called again.
func (c *podCluster) unreadable(t *testing.T) (readable func()) {
	t.Helper()
	if err := errors.Join(os.Rename(c.File, c.File+".away"), os.Symlink(c.File, c.File)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Rename(c.File+".away", c.File); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSaved_FileReadLate reads the file at the third observation, 20 minutes after its last.
func TestSaved_FileReadLate(t *testing.T) {
	src := &fakePods{}
	c := withFile(t, src, src.cpu)
	last := c.observed
	readable := c.unreadable(t)
	c.clock.Step(2 * WorkloadInterval)
	again, log := c.startAgain(t, unchanged)
	for range 2 {
		again.due(t)
		again.clock.Step(WorkloadInterval)
	}
	again.save(t.Context())
	if !strings.Contains(log(), "cannot be read yet. It is kept") || !again.started {
		t.Errorf("started: %v, logged %q", again.started, log())
	}
	readable()
	again.due(t)
	aged := time.Duration(float64(window) * math.Exp(-20.0/(24*60)))
	wantMoments(t, "the file and one observation", again.cpuOf("shop", "a"), learned.Moments{PodTime: window + aged, Mean: 100})
	if gap := again.past.missing[0]; !gap.Begin.Equal(last) || !gap.End.Equal(last.Add(15*time.Minute)) {
		t.Errorf("missing %+v, want the 15m after %v", gap, last)
	}
	if third, log := again.startAgain(t, unchanged); third.cpuOf("shop", "a") != again.cpuOf("shop", "a") {
		t.Errorf("the file was not replaced: %s", log())
	}
}

// TestSaved_FileNeverRead keeps the file for an hour, then renames it. The source is down meanwhile, and so both are tried often.
func TestSaved_FileNeverRead(t *testing.T) {
	src := &fakePods{}
	c := withFile(t, src, src.cpu)
	c.unreadable(t)
	first := c.clock.Now()
	again, _ := c.startAgain(t, unchanged)
	down := errors.New("connection refused")
	src.failed = [load.ResourceCount]error{down, down}
	for i := range 20 {
		again.clock.SetTime(first.Add(time.Hour - time.Duration(20-i)*time.Second))
		if err := again.refreshDue(t.Context()); !errors.Is(err, down) {
			t.Fatalf("error %v, want that the source is down", err)
		}
	}
	if _, err := os.Readlink(c.File); err != nil {
		t.Errorf("the file was replaced: %v", err)
	}
	src.failed = [load.ResourceCount]error{}
	again.clock.SetTime(first.Add(time.Hour))
	again.due(t)
	if _, err := os.Readlink(c.File + ".refused"); err != nil {
		t.Errorf("the file was not renamed: %v", err)
	}
	if third, log := again.startAgain(t, unchanged); third.cpuOf("shop", "a") != again.cpuOf("shop", "a") {
		t.Errorf("the file was not replaced: %s", log())
	}
}

// TestSaved_WriteFails removes the folder of the file for three observations.
func TestSaved_WriteFails(t *testing.T) {
	src := &fakePods{}
	c := withFile(t, src, src.cpu)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	refresh := func() {
		t.Helper()
		c.clock.Step(WorkloadInterval)
		if err := c.refreshDue(ctx); err != nil {
			t.Error(err)
		}
	}
	folder := filepath.Dir(c.File)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		refresh()
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	refresh()
	if got := c.cpuOf("shop", "a").PodTime.Round(time.Minute); got != 5*window {
		t.Errorf("observed for %v, want 25m", got)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, line := range []string{"The statistics of workloads cannot be saved. After a restart they are those of the last write", "The statistics of workloads can be saved again"} {
		if strings.Count(log, line) != 1 {
			t.Errorf("%q is not logged once:\n%s", line, log)
		}
	}
	if err := testutil.GatherAndCompare(c.registry, strings.NewReader(`
# HELP plimsoll_workload_statistics_saves_total [ALPHA] Writes of the statistics of workloads to their file, by result: Success or Error.
# TYPE plimsoll_workload_statistics_saves_total counter
plimsoll_workload_statistics_saves_total{result="Error",source="fake"} 3
plimsoll_workload_statistics_saves_total{result="Success",source="fake"} 2
`), "plimsoll_workload_statistics_saves_total"); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v; want one", entries, err)
	}
}

// TestSaved_TwoReplicas has two processes write one file. Either can continue with it.
func TestSaved_TwoReplicas(t *testing.T) {
	src := &fakePods{}
	leader := withFile(t, src, src.cpu)
	standby, _ := leader.startAgain(t, unchanged)
	for range 3 {
		leader.clock.Step(WorkloadInterval)
		leader.due(t)
		standby.due(t)
		for _, c := range []*podCluster{leader, standby} {
			again, log := c.startAgain(t, unchanged)
			if got, want := again.cpuOf("shop", "a"), standby.cpuOf("shop", "a"); got != want {
				t.Errorf("got %+v, want %+v of the last write: %s", got, want, log())
			}
		}
	}
}

// TestSaved_ClockGoesBack sets the clock back after the restart.
func TestSaved_ClockGoesBack(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := withFile(t, src, src.cpu)
	again, _ := c.startAgain(t, unchanged)
	again.clock.SetTime(c.observed.Add(-30 * time.Minute))
	src.asked = nil
	again.due(t)
	wantMoments(t, "learned anew", again.cpuOf("shop", "a"), learned.Moments{PodTime: window, Mean: 100})
	if p := src.asked[0]; !p.End.Equal(c.observed.Add(-35*time.Minute)) || p.Length != shortestPeriod {
		t.Errorf("first period %+v, want ten minutes before the observation", p)
	}
}

// The metric tells the time of the observations that the file does not have, whatever failed before.
func TestSaved_Unsaved(t *testing.T) {
	src := &fakePods{}
	c := withFile(t, src, src.cpu)
	c.Metrics.registerWorkloads(c.WorkloadWatcher)
	folder := filepath.Dir(c.File)
	unsaved := func(seconds int) {
		t.Helper()
		want := fmt.Sprintf(`
# HELP plimsoll_workload_statistics_unsaved_seconds [ALPHA] Time of the observations of workloads that their file does not have.
# TYPE plimsoll_workload_statistics_unsaved_seconds gauge
plimsoll_workload_statistics_unsaved_seconds{source="fake"} %d
`, seconds)
		if err := testutil.GatherAndCompare(c.registry, strings.NewReader(want), "plimsoll_workload_statistics_unsaved_seconds"); err != nil {
			t.Error(err)
		}
	}
	observe := func(times int) {
		for range times {
			c.clock.Step(WorkloadInterval)
			c.due(t)
		}
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	unsaved(0)
	rename(folder, folder+"-gone")
	observe(3)
	unsaved(900)
	c.clock.Step(time.Hour) // nothing is observed meanwhile
	unsaved(900)
	rename(folder+"-gone", folder)
	c.due(t)
	unsaved(0)
	// After a restart, only failures since then count.
	rename(folder, folder+"-gone")
	observe(2)
	unsaved(600)
	c, _ = c.startAgain(t, unchanged)
	c.Metrics.registerWorkloads(c.WorkloadWatcher)
	unsaved(0)
	c.clock.Step(72 * time.Hour) // a standby
	unsaved(0)
	observe(2)
	unsaved(600)
	rename(folder+"-gone", folder)
	observe(1)
	unsaved(0)
	// The source is down for two hours, then a write fails.
	c.clock.Step(2 * time.Hour)
	rename(folder, folder+"-gone")
	observe(1)
	unsaved(300)
	// The clock goes back a day, before what the file has.
	c.clock.SetTime(c.observed.Add(-24 * time.Hour))
	c.nextRefresh = c.clock.Now()
	c.due(t)
	unsaved(300)
	observe(6)
	unsaved(2100)
}

func TestSaved_OnDemandHasNoFile(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.refresh(t)
	c.save(t.Context())
	if c.saved != nil {
		t.Error("statistics were saved without a file")
	}
}

// TestSaved_Run ends after an observation and a period of the history, which the last write has.
func TestSaved_Run(t *testing.T) {
	src := &fakeHistory{history: func(source.Period) ([]source.WorkloadUsage, error) {
		return []source.WorkloadUsage{{Namespace: "shop", Workload: "past", Resource: load.CPU, Pods: 1, Sum: 100, SumSquares: 10000}}, nil
	}}
	c := withFile(t, src, src.cpu)
	c.clock.Step(WorkloadInterval)
	again, _ := c.startAgain(t, unchanged)
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); again.Run(ctx) }()
	waitForTimer(t, c.clock)
	cancel()
	<-done
	last, log := c.startAgain(t, unchanged)
	if got := last.cpuOf("shop", "past"); got.PodTime < 585*time.Second || got.PodTime > 10*time.Minute {
		t.Errorf("the history counts %v, want nearly the 10m of the first period: %s", got.PodTime, log())
	}
}

// TestSaved_Past ends without a last write: after a minute, and after the last period, the file has the periods so far.
func TestSaved_Past(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := withFile(t, src, src.cpu)
	read := func(want time.Duration) {
		t.Helper()
		again, log := c.startAgain(t, unchanged)
		if got := time.Duration(math.Round(again.past.read()*day.Minutes())) * time.Minute; got != want {
			t.Errorf("after a restart, %v of a day are read, want %v: %s", got, want, log())
		}
	}
	// The day ended five minutes ago. So the restart needs the last five minutes of it no more.
	const end = WorkloadInterval
	read(end) // of 10 minutes
	c.clock.Step(time.Minute)
	c.due(t)
	read(end + 31*time.Minute)
	for c.past.remains() {
		c.clock.Step(leastPause)
		c.due(t)
	}
	read(day)
	if err := testutil.GatherAndCompare(c.registry, strings.NewReader(`
# HELP plimsoll_workload_statistics_saves_total [ALPHA] Writes of the statistics of workloads to their file, by result: Success or Error.
# TYPE plimsoll_workload_statistics_saves_total counter
plimsoll_workload_statistics_saves_total{result="Success",source="fake"} 3
`), "plimsoll_workload_statistics_saves_total"); err != nil {
		t.Error(err)
	}
}

// TestSaved_RunOfAStandby knows the pods ten minutes after its start. The leader writes the file meanwhile.
func TestSaved_RunOfAStandby(t *testing.T) {
	src := &fakePods{}
	leader := withFile(t, src, src.cpu)
	var synced atomic.Bool
	waits, once := make(chan struct{}), sync.Once{}
	config := leader.WorkloadConfig
	config.Metrics = NewMetrics(metrics.NewKubeRegistry())
	config.HasSynced = func() bool {
		once.Do(func() { close(waits) })
		return synced.Load()
	}
	standby := NewWorkloadWatcher(config)
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); standby.Run(ctx) }()
	<-waits
	for range 2 {
		leader.clock.Step(WorkloadInterval)
		leader.due(t)
	}
	want := leader.cpuOf("shop", "a")
	leader.clock.Step(time.Minute)
	synced.Store(true)
	waitForTimer(t, leader.clock)
	cancel()
	<-done
	for what, s := range map[string]*learned.Publisher{"the standby": standby.Publisher(), "the leader": leader.Publisher()} {
		if got := s.Latest().Lookup(learned.Workload{Namespace: "shop", Name: "a"})[load.CPU]; got != want {
			t.Errorf("%s has %+v, want %+v of three observations", what, got, want)
		}
	}
	if again, log := leader.startAgain(t, unchanged); again.cpuOf("shop", "a") != want {
		t.Errorf("the file has %+v, want %+v: %s", again.cpuOf("shop", "a"), want, log())
	}
}

// TestWorkloadWatcher_SourceThatWasAway reads the time from the last observation to the interval before the next.
func TestWorkloadWatcher_SourceThatWasAway(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	src.cpu(map[string]float64{"shop/a-aaaaa": 100})
	c.due(t)
	c.readAll(t)
	last := c.observed
	src.asked = nil
	away := errors.New("connection refused")
	for _, after := range []time.Duration{5 * time.Minute, 20 * time.Minute} {
		c.clock.SetTime(last.Add(after))
		src.failed = [load.ResourceCount]error{away, away}
		if err := c.refreshDue(t.Context()); !errors.Is(err, away) {
			t.Fatalf("error %v, want that the source is down", err)
		}
	}
	src.failed = [load.ResourceCount]error{}
	c.clock.SetTime(last.Add(25 * time.Minute))
	c.due(t)
	c.readAll(t)
	if len(src.asked) != 1 || !src.asked[0].End.Equal(last.Add(20*time.Minute)) || src.asked[0].Length != 20*time.Minute {
		t.Errorf("periods %+v, want one of 20m, until %v", src.asked, last.Add(20*time.Minute))
	}
}

// TestWorkloadWatcher_WallClock starts with a monotonic clock, which goes on if the clock is set. The source and the file do not know it.
func TestWorkloadWatcher_WallClock(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := newPodCluster(t, src, "")
	c.clock.SetTime(time.Now())
	c.due(t)
	c.clock.Step(20 * time.Minute)
	c.due(t)
	for _, at := range []time.Time{c.observed, src.asked[0].End, src.asked[1].End} {
		if strings.Contains(at.String(), "m=") {
			t.Errorf("%v has a monotonic reading", at)
		}
	}
}

func TestBackfill_Add(t *testing.T) {
	b := newBackfill(start, day)
	b.add(span{start.Add(time.Hour), start.Add(time.Hour + WorkloadInterval - 1)})
	if len(b.missing) != 2 { // the newest 30 minutes, and the rest
		t.Error("a time of less than an interval is read")
	}
	b.add(span{start, start.Add(25 * time.Hour)})
	if gap := b.missing[0]; !gap.Begin.Equal(start.Add(time.Hour)) {
		t.Errorf("a time of %v is read, want the history of a day", gap.End.Sub(gap.Begin))
	}
	b = newBackfill(start, day)
	for i := range 40 {
		begin := start.Add(time.Duration(i) * time.Hour)
		b.add(span{begin, begin.Add(WorkloadInterval)})
	}
	if len(b.missing) != maxMissing || !b.missing[0].Begin.Equal(start.Add(39*time.Hour)) || !areMissing(slices.Clone(b.missing), start.Add(40*time.Hour)) {
		t.Errorf("%d times from %v, want %d, the newest first", len(b.missing), b.missing[0].Begin, maxMissing)
	}
}
