package refresh

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/klog/v2/ktesting"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

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
		{
			cpu: 0.4, five: load.Stat{Mean: 2.6 / 6, StdDev: math.Sqrt(1.0 / 180)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 7)},
			span: [2]time.Duration{5, 6},
		},
	} {
		clock.SetTime(start.Add(time.Duration(minute) * time.Minute))
		src.respond(load.Sample{Node: "a", End: clock.Now(), Stats: load.Stats{load.CPU: known(step.cpu)}})
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		step.five.Known, step.ten.Known = true, true
		five, ten := tables()
		if diff := cmp.Diff(
			load.Measurement{Stat: step.five, Window: step.span[0] * time.Minute, End: clock.Now()}, five, approximately,
		); diff != "" {
			t.Errorf("minute %d, over five minutes (-want +got):\n%s", minute, diff)
		}
		if diff := cmp.Diff(
			load.Measurement{Stat: step.ten, Window: step.span[1] * time.Minute, End: clock.Now()}, ten, approximately,
		); diff != "" {
			t.Errorf("minute %d, over ten minutes (-want +got):\n%s", minute, diff)
		}
	}
}

func TestMoments_StoreASampleOnce(t *testing.T) {
	var m moments
	for range 3 { // metrics-server answers the same until it has scraped again
		m.add(start, load.Stats{load.CPU: known(0.5)}, window, window)
	}
	if len(m) != 1 {
		t.Errorf("%d samples kept, want 1", len(m))
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
	if cpu != 5*time.Minute || memory != time.Minute {
		t.Errorf("cpu spans %v and memory %v, want 5m and 1m", cpu, memory)
	}
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
