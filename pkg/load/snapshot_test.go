package load_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load/loadtest"
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
			if diff := cmp.Diff(tc.want, s.Over(tc.window).Node(tc.node)); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
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
		"x": {"a": {Value: 3, End: end}, "b": {Value: -1, End: end.Add(-time.Minute)}, "elsewhere": {Value: 100, End: end.Add(time.Hour)}},
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
	if got := s.Metric("x").Newest(); got != end.UnixNano() {
		t.Errorf("the newest value of x is of %d, want %d", got, end.UnixNano())
	}
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
