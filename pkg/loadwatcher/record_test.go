package loadwatcher

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/klog/v2/ktesting"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

func TestReadingsOfTheMomentMakeWindows(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	w, src, clock := newTestWatcher() // wants five minutes
	w.Want(load.Settings{Window: 10 * time.Minute, RefreshInterval: time.Minute, MaxAge: 5 * time.Minute})
	tables := func() (five, ten load.Reading) {
		s := w.Publisher().Latest()
		return s.Over(window).Node("a").CPU, s.Over(10 * time.Minute).Node("a").CPU
	}
	approximately := cmp.Options{cmpopts.EquateApprox(0, 1e-6), cmpopts.IgnoreFields(load.Reading{}, "Drift")}

	for minute, step := range []struct {
		cpu       float64
		five, ten load.Stat
		span      [2]time.Duration
	}{
		// One reading is its own mean and varies by nothing; its span is a moment.
		{cpu: 0.2, five: load.Stat{Mean: 0.2}, ten: load.Stat{Mean: 0.2}},
		// Mean of 0.2 and 0.6; each is 0.2 from it.
		{cpu: 0.6, five: load.Stat{Mean: 0.4, StdDev: 0.2}, ten: load.Stat{Mean: 0.4, StdDev: 0.2}, span: [2]time.Duration{1, 1}},
		// 0.2, 0.6, 0.4: squares 0.04, 0.04, 0, of which the mean is 0.08/3.
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 3)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 3)}, span: [2]time.Duration{2, 2}},
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 4)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 4)}, span: [2]time.Duration{3, 3}},
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 5)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 5)}, span: [2]time.Duration{4, 4}},
		{cpu: 0.4, five: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 6)}, ten: load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 6)}, span: [2]time.Duration{5, 5}},
		// The first reading has left the five minutes: 0.6 and five times 0.4, mean 2.6/6, from which 0.6 is 1/6 away and 0.4
		// 1/30: squares 1/36 and 5/900, of which the mean is 1/180. Of all seven the mean is 2.8/7.
		{
			cpu:  0.4,
			five: load.Stat{Mean: 2.6 / 6, StdDev: math.Sqrt(1.0 / 180)},
			ten:  load.Stat{Mean: 0.4, StdDev: math.Sqrt(0.08 / 7)},
			span: [2]time.Duration{5, 6},
		},
	} {
		clock.SetTime(start.Add(time.Duration(minute) * time.Minute))
		src.answer(load.Sample{Node: "a", End: clock.Now(), CPU: known(step.cpu)})
		if err := w.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		step.five.Known, step.ten.Known = true, true
		five, ten := tables()
		if diff := cmp.Diff(load.Reading{Stat: step.five, Window: step.span[0] * time.Minute, End: clock.Now()}, five, approximately); diff != "" {
			t.Errorf("minute %d, over five minutes (-want +got):\n%s", minute, diff)
		}
		if diff := cmp.Diff(load.Reading{Stat: step.ten, Window: step.span[1] * time.Minute, End: clock.Now()}, ten, approximately); diff != "" {
			t.Errorf("minute %d, over ten minutes (-want +got):\n%s", minute, diff)
		}
	}
}

func TestAReadingOfTheMomentIsTakenOnce(t *testing.T) {
	var m moments
	for range 3 { // metrics-server answers the same until it has scraped again
		m.add(start, known(0.5), load.Stat{}, window)
	}
	if len(m) != 1 {
		t.Errorf("%d readings kept, want 1", len(m))
	}
}

func TestAResourceThatTheLatestReadingLacksIsNotKnown(t *testing.T) {
	var m moments
	m.add(start, known(0.5), known(0.25), window)
	m.add(start.Add(time.Minute), known(0.7), load.Stat{}, window)
	cpu, memory, _ := m.over(window)
	if !cpu.Known || memory.Known {
		t.Errorf("cpu %+v, memory %+v; want cpu alone", cpu, memory)
	}
}

func TestReadingsOfTheMomentAreBounded(t *testing.T) {
	var m moments
	for second := range 3600 {
		m.add(start.Add(time.Duration(second)*time.Second), known(0.5), known(0.5), 15*time.Minute)
		if len(m) > maxMoments {
			t.Fatalf("%d readings kept after %d s, want at most %d", len(m), second, maxMoments)
		}
	}
	newest, span := m[len(m)-1].at, m[len(m)-1].at.Sub(m[0].at)
	if !newest.Equal(start.Add(3599 * time.Second)) {
		t.Errorf("the newest reading kept is of %v, want the last", newest)
	}
	// Thinned out they still span the window, but for the spacing of 15 s.
	if span < 14*time.Minute+30*time.Second {
		t.Errorf("the readings kept span %v, want nearly 15m", span)
	}
	if c := cap(m); c > 2*maxMoments+8 {
		t.Errorf("room for %d readings is held, want about %d", c, maxMoments)
	}
}
