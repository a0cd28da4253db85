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
	before, failed, present := point(-10), point(-5), point(0)
	before.add(t.Context(), past{}, load.CPU, load.Quantile{Window: 5 * time.Minute})
	failed.add(t.Context(), past{err: errors.New("no answer")}, load.CPU, load.Quantile{Window: 5 * time.Minute})
	present.set("a", load.CPU, 0.30561)
	present.set("a", load.Memory, 0.5)
	present.set("new", load.CPU, 1)
	got := trendOf([]trendPoint{before, failed, present})
	want := map[string]*NodeTrend{
		"a":   {[]*float64{new(20.0), nil, new(30.6)}, []*float64{nil, nil, new(50.0)}},
		"new": {[]*float64{nil, nil, new(100.0)}, []*float64{nil, nil, nil}},
	}
	if diff := cmp.Diff(want, got.Nodes); diff != "" || len(got.Times) != 3 || !got.Times[0].Equal(before.at.Truncate(time.Second)) {
		t.Errorf("times %v, nodes (-want +got):\n%s", got.Times, diff)
	}
}
