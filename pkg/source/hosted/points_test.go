package hosted

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

func TestRanges(t *testing.T) {
	got := Ranges([]time.Duration{15 * time.Minute, time.Hour, 24 * time.Hour, 5 * time.Minute, 10 * time.Second, 5 * time.Minute},
		15*time.Second)
	want := []Range{
		{Step: 15 * time.Second, Windows: []time.Duration{10 * time.Second}},
		{Step: time.Minute, Windows: []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}},
		{Step: 5 * time.Minute, Windows: []time.Duration{24 * time.Hour}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSummarize(t *testing.T) {
	at := func(minute int, value float64) Point {
		return Point{Time: time.Unix(int64(minute)*60, 0), Value: value}
	}
	nan := math.NaN()
	for name, tt := range map[string]struct {
		points []Point
		newest time.Time
		want   []load.Stat // over 2m and 4m
	}{
		"nothing":          {nil, time.Time{}, nil},
		"nothing but gaps": {[]Point{at(1, nan), at(2, nan)}, time.Time{}, nil},
		// 2m has minutes 9 and 10. 4m has 7 to 10: (1+2+3+6)/4 = 3, √((4+1+0+9)/4).
		"full windows in any order": {[]Point{at(10, 6), at(6, 100), at(8, 2), at(9, 3), at(7, 1), at(11, nan)}, time.Unix(600, 0),
			[]load.Stat{
				{Mean: 4.5, StdDev: 1.5, Known: true}, {Mean: 3, StdDev: math.Sqrt(3.5), Known: true},
			}},
		// One point covers a minute, and has no deviation.
		"one point": {[]Point{at(10, 6)}, time.Unix(600, 0), []load.Stat{
			{Mean: 6, StdDev: nan, Span: time.Minute, Known: true}, {Mean: 6, StdDev: nan, Span: time.Minute, Known: true},
		}},
		// A point that begins in a Step may be valid; a later one comes from a wrong clock.
		"the future": {[]Point{at(13, 100), at(10, 6), at(9, 2)}, time.Unix(600, 0), []load.Stat{
			{Mean: 4, StdDev: 2, Known: true}, {Mean: 4, StdDev: 2, Span: 2 * time.Minute, Known: true},
		}},
		"a gap within the window": {[]Point{at(7, 1), at(8, nan), at(9, nan), at(10, 3)}, time.Unix(600, 0), []load.Stat{
			{Mean: 3, StdDev: nan, Span: time.Minute, Known: true}, {Mean: 2, StdDev: 1, Known: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Range{
				Step: time.Minute, Windows: []time.Duration{2 * time.Minute, 4 * time.Minute},
			}.Summarize(tt.points, time.Unix(660, 0))
			if !got.newest.Equal(tt.newest) {
				t.Errorf("newest %v, want %v", got.newest, tt.newest)
			}
			if diff := cmp.Diff(tt.want, got.stats, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
