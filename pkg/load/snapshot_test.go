package load_test

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

func TestSnapshot_Over(t *testing.T) {
	measured := load.NodeLoad{load.CPU: {Stat: load.Stat{Mean: 0.5, Known: true}}}
	s := loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{time.Minute: {"a": measured}}, nil)
	for _, tc := range []struct {
		name   string
		window time.Duration
		node   string
		want   load.NodeLoad
	}{
		{"a node that was measured", time.Minute, "a", measured},
		{"a node that was not measured", time.Minute, "b", load.NodeLoad{}},
		{"a window that is not read", time.Hour, "a", load.NodeLoad{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "load", tc.want, s.Over(tc.window).Node(tc.node))
		})
	}
	if got := s.Over(time.Hour).Index(); got != s.Index() {
		t.Error("the table of a window that is not read has another index than the snapshot")
	}
}

func TestSnapshot_Metric(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	index := load.NewIndex([]string{"a", "b"})
	s := load.NewSnapshot(index, nil, map[string]load.MetricTable{
		"x": {
			"a":         {Value: 3, End: end},
			"b":         {Value: -1, End: end.Add(-time.Minute)},
			"elsewhere": {Value: 100, End: end.Add(time.Hour)},
		},
		"y": {"b": {Value: 7, End: end}},
	})
	rowOf := func(node string) int { row, _ := index.Row(node); return row }
	for _, tc := range []struct {
		metric, node string
		value        float64
		end          time.Time
	}{
		{"x", "a", 3, end},
		{"x", "b", -1, end.Add(-time.Minute)},
		{"y", "a", 0, time.Time{}},
		{"y", "b", 7, end},
		{"not read", "a", 0, time.Time{}},
	} {
		want := int64(0)
		if !tc.end.IsZero() {
			want = tc.end.UnixNano()
		}
		if value, end := s.Metric(tc.metric).Row(rowOf(tc.node)); value != tc.value || end != want {
			t.Errorf("%s of %s is %v at %d, want %v at %d", tc.metric, tc.node, value, end, tc.value, want)
		}
	}
	// A value of a node that is not in the index is left out.
	if lowest, highest, ok := s.Metric("x").Range(); lowest != -1 || highest != 3 || !ok {
		t.Errorf("values of x range from %v to %v, %v; want from -1 to 3", lowest, highest, ok)
	}
	check.Equal(t, "the newest value of x is", end.UnixNano(), s.Metric("x").Newest())
	if _, _, ok := s.Metric("not read").Range(); ok {
		t.Error("a metric that is not read has values")
	}
}

func TestPublisher(t *testing.T) {
	p := load.NewPublisher()
	first, published := p.Latest(), p.Published()
	var previous []*load.Snapshot
	p.OnPublish(func(s *load.Snapshot) { previous = append(previous, s) })
	second, third := loadtest.Snapshot(nil, nil), loadtest.Snapshot(nil, nil)
	p.Publish(second)
	select {
	case <-published:
	default:
		t.Error("Published is not closed by Publish")
	}
	if p.Latest() != second {
		t.Error("Latest is not what was published last")
	}
	p.Publish(third)
	if len(previous) != 2 || previous[0] != first || previous[1] != second {
		t.Errorf("the hook got %v, want the snapshots before each Publish: %v", previous, []*load.Snapshot{first, second})
	}
}

func TestSnapshot_With(t *testing.T) {
	const window = time.Minute
	end := time.Unix(1000, 0)
	mean := func(m float64) load.NodeLoad {
		return load.NodeLoad{load.CPU: load.Measurement{Stat: load.Stat{Mean: m, Known: true}, End: end}}
	}
	before := loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{window: {"a": mean(0.5), "b": mean(0.25)}},
		map[string]load.MetricTable{"latency": {"b": {Value: 3, End: end}}})
	p95 := load.Quantile{Window: window, Fraction: 0.95}
	before = before.WithQuantiles(map[load.Quantile]*load.Table{
		p95: load.NewTable(before.Index(), func(node string) load.NodeLoad { return map[string]load.NodeLoad{"a": mean(0.75)}[node] }),
	})
	after := before.With([]string{"c"}, func(of load.Quantile, node string, measured load.NodeLoad) load.NodeLoad {
		switch {
		case of.Window != window:
			t.Errorf("called for a window of %v", of.Window)
		case of == p95 && node == "c":
			return mean(0.125)
		case of == p95:
		case node == "c":
			return mean(0)
		case node == "a":
			measured[load.CPU].Mean -= 0.125
		}
		return measured
	})
	for node, want := range map[string]float64{"a": 0.375, "b": 0.25, "c": 0} {
		if got := after.Over(window).Node(node)[load.CPU]; got.Mean != want || !got.Known {
			t.Errorf("%s: %+v, want a mean of %v", node, got, want)
		}
	}
	for node, want := range map[string]float64{"a": 0.75, "b": 0, "c": 0.125} {
		if got := after.Table(p95).Node(node)[load.CPU]; got.Mean != want {
			t.Errorf("%s: %+v, want a 95th percentile of %v", node, got, want)
		}
	}
	for of, want := range map[load.Quantile]*load.Table{{Window: window}: after.Over(window), p95: after.Table(p95)} {
		if got := after.Table(of); got != want {
			t.Errorf("%+v has the table %p, want %p", of, got, want)
		}
	}
	check.Equal(t, "the snapshot itself has a mean of now", 0.5, before.Over(window).Node("a")[load.CPU].Mean)
	for node, want := range map[string]int64{"b": end.UnixNano(), "c": 0} {
		row, _ := after.Index().Row(node)
		if _, got := after.Metric("latency").Row(row); got != want {
			t.Errorf("%s: a node metric of moment %d, want %d", node, got, want)
		}
	}
}
