package top

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// past knows 20 % cpu of node a, and an impossible value of node b.
type past struct {
	source.Source
	err error
}

func (p past) FetchPast(_ context.Context, r load.Resource, of load.Quantile, at time.Time) ([]load.Sample, error) {
	samples := []load.Sample{{Node: "a", Window: of.Window, End: at}, {Node: "b", Window: of.Window, End: at}}
	samples[0].Stats[r], samples[1].Stats[r] = load.Stat{Mean: 0.2, Known: true}, load.Stat{Mean: -1, Known: true}
	return samples, p.err
}

func TestTrend(t *testing.T) {
	point := func(minutes int) trendPoint {
		return trendPoint{now.Add(time.Duration(minutes) * time.Minute), map[string][load.ResourceCount]float64{}}
	}
	of := load.Quantile{Window: 5 * time.Minute}
	before, unknown, present := point(-10), point(-5), point(0)
	must(t, before.add(t.Context(), pastQuery{past{}, load.CPU, of}))
	present.set("a", load.CPU, 0.30561)
	present.set("a", load.Memory, 0.5)
	present.set("new", load.CPU, 1)
	got := trendOf([]trendPoint{before, unknown, present})
	want := map[string]*NodeTrend{
		"a":   {[]*float64{new(20.0), nil, new(30.6)}, []*float64{nil, nil, new(50.0)}},
		"new": {[]*float64{nil, nil, new(100.0)}, []*float64{nil, nil, nil}},
	}
	if diff := cmp.Diff(want, got.Nodes); diff != "" || len(got.Times) != 3 || !got.Times[0].Equal(before.at.Truncate(time.Second)) {
		t.Errorf("times %v, nodes (-want +got):\n%s", got.Times, diff)
	}
}

// A look at the past that fails is no point, so that it is tried again. One resource is enough for a point.
func TestPastOf(t *testing.T) {
	of := load.Quantile{Window: 5 * time.Minute}
	failing := past{err: errors.New("no answer")}
	for name, tt := range map[string]struct {
		queries []pastQuery
		ok      bool
		nodes   int
	}{
		"no source knows the past": {nil, true, 0},
		"all fail":                 {[]pastQuery{{failing, load.CPU, of}, {failing, load.Memory, of}}, false, 0},
		"one fails":                {[]pastQuery{{failing, load.CPU, of}, {past{}, load.Memory, of}}, true, 1},
	} {
		point, ok := pastOf(t.Context(), tt.queries, now)
		if ok != tt.ok || len(point.nodes) != tt.nodes || !point.at.Equal(now) {
			t.Errorf("%s: %v of %d nodes, want %v of %d", name, ok, len(point.nodes), tt.ok, tt.nodes)
		}
	}
}

// A failed read of the load leaves no gap of five minutes. The next one that succeeds takes its place.
func TestWithPresent(t *testing.T) {
	point := func(seconds int, nodes ...string) trendPoint {
		p := trendPoint{now.Add(time.Duration(seconds) * time.Second), map[string][load.ResourceCount]float64{}}
		for _, node := range nodes {
			p.set(node, load.CPU, 0.5)
		}
		return p
	}
	var trend []trendPoint
	for _, tt := range []struct {
		point   trendPoint
		due     bool
		changed bool
		points  int
	}{
		{point(0), true, true, 1},
		{point(2), true, false, 1},
		{point(4, "a"), true, true, 1},
		{point(302, "a"), false, false, 1}, // 298 s after the last
		{point(304), true, true, 2},        // nothing is fresh for long: a gap
		{point(604), true, true, 3},
		{point(606, "a"), true, true, 3},
	} {
		due, changed := isPresentDue(trend, tt.point.at), false
		if due {
			trend, changed = withPresent(trend, tt.point)
		}
		if due != tt.due || changed != tt.changed || len(trend) != tt.points {
			t.Errorf("at %v: due %v, changed %v, %d points; want %+v", tt.point.at, due, changed, len(trend), tt)
		}
	}
	if last := trend[2].at.Sub(now); last != 606*time.Second {
		t.Errorf("the last point is of %v, want 606 s", last)
	}
}
