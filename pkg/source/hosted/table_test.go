package hosted

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

func TestTable_Hosts(t *testing.T) {
	rng := Range{Step: time.Minute, Windows: []time.Duration{time.Minute}}
	now := time.Unix(60, 0)
	type series struct {
		host  string
		value float64
	}
	for _, tt := range []struct {
		name, suffix string
		nodes        []string
		series       []series
		// want are the means by node.
		want      map[string]float64
		unmatched int
	}{
		{"names with dots are not cut", "", []string{"n1.a", "n1.b"}, []series{{"n1.a", 0.1}, {"n1.b", 0.2}}, map[string]float64{"n1.a": 0.1, "n1.b": 0.2}, 0},
		{"a host of another cluster does not stand for a node", "", []string{"n1"}, []series{{"n1", 0.1}, {"n1.other", 0.9}}, map[string]float64{"n1": 0.1}, 1},
		{"the suffix is dropped", ".example.com", []string{"n1.eu"}, []series{{"n1.eu.example.com", 0.1}}, map[string]float64{"n1.eu": 0.1}, 0},
		{"a suffix without a dot", "-prod", []string{"n1.eu"}, []series{{"n1.eu-prod", 0.1}}, map[string]float64{"n1.eu": 0.1}, 0},
		{"a node may be called as the host", ".example.com", []string{"n1.example.com"}, []series{{"n1.example.com", 0.1}}, map[string]float64{"n1.example.com": 0.1}, 0},
		{"the node's own name wins", "", []string{"n1"}, []series{{"N1", 0.9}, {"n1", 0.1}}, map[string]float64{"n1": 0.1}, 0},
		{"of two series of a host the greater one counts", "", []string{"n1"}, []series{{"n1", 0.1}, {"n1", 0.3}, {"n1", 0.2}}, map[string]float64{"n1": 0.3}, 0},
		{"a series without a host", "", []string{"n1"}, []series{{"n1", 0.1}, {"", 0.3}}, map[string]float64{"n1": 0.1}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []*corev1.Node
			for _, name := range tt.nodes {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			table := NewTable(nodes, tt.suffix, text.Excerpt)
			for _, one := range tt.series {
				table.Offer(one.host, load.CPU, rng, now, rng.Summarize([]Point{{Time: now, Value: one.value}}, now))
			}
			got := map[string]float64{}
			for _, sample := range table.Samples(rng.Windows) {
				got[sample.Node] = sample.Stats[load.CPU].Mean
			}
			if !maps.Equal(got, tt.want) || len(table.Unmatched()) != tt.unmatched {
				t.Errorf("means %v, want %v; unmatched %q, want %d", got, tt.want, table.Unmatched(), tt.unmatched)
			}
		})
	}
}

// A sum of huge values is infinite. The series must not displace another one of the node.
func TestTable_ImpossibleSeries(t *testing.T) {
	now, rng := time.Unix(600, 0), Range{Step: time.Minute, Windows: []time.Duration{time.Hour}}
	for _, hugeFirst := range []bool{false, true} {
		table := NewTable([]*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, "", text.Excerpt)
		for _, huge := range []bool{hugeFirst, !hugeFirst} {
			value := 0.5
			if huge {
				value = math.MaxFloat64
			}
			points := []Point{{now, value}, {now.Add(-time.Minute), value}, {now.Add(-2 * time.Minute), -value}}
			table.Offer("n1", load.CPU, rng, now, rng.Summarize(points, now))
		}
		samples := table.Samples(rng.Windows)
		if len(samples) != 1 || samples[0].Stats[load.CPU].Mean != 0.5 {
			t.Errorf("huge first: %t: samples %+v, want 0.5", hugeFirst, samples)
		}
		check.Equal(t, "rejected", source.Rejected{load.RejectedNotANumber: 1, load.RejectedNegative: 2}, table.rejected)
	}
}

func TestTable_UnmatchedAreBounded(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	table := NewTable([]*corev1.Node{node}, ".example.com", text.Excerpt)
	rng := Range{Step: time.Minute, Windows: []time.Duration{time.Minute}}
	one := rng.Summarize([]Point{{Time: time.Unix(60, 0), Value: 0.5}}, time.Unix(60, 0))
	for i := range source.MaxUnmatched + 100 {
		table.Offer(fmt.Sprint("x", i), load.CPU, rng, time.Time{}, one)
	}
	table.Offer("n1.EXAMPLE.com", load.CPU, rng, time.Time{}, one)
	unmatched := table.Unmatched()
	if len(unmatched) != source.MaxUnmatched || !slices.IsSorted(unmatched) {
		t.Errorf("%d names, sorted: %t", len(unmatched), slices.IsSorted(unmatched))
	}
	if samples := table.Samples(rng.Windows); len(samples) != 1 || samples[0].Node != "n1" {
		t.Errorf("samples %v", samples)
	}
}

// TestTable_ForgedHost lets a tenant name n1 as the host of a series, beside the node's own series of 0.5. The source cannot know who
// sent a series. The cases are the bound in docs/security.md.
func TestTable_ForgedHost(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	rng := Range{Step: time.Minute, Windows: []time.Duration{time.Minute}}
	now := time.Unix(600, 0)
	for _, tt := range []struct {
		name, host, forgedHost string
		forged                 float64
		at                     time.Time
		want                   float64
	}{
		{"a lower value", "n1", "n1", 0.1, now, 0.5},
		{"a lower value by address", "n1", "10.0.0.1", 0.1, now, 0.5},
		{"a higher value by address", "n1", "10.0.0.1", 0.9, now, 0.5},
		{"an expired value", "n1", "n1", 0.9, now.Add(-time.Hour), 0.5},
		{"a value of the future", "n1", "n1", 0.9, now.Add(time.Hour), 0.5},
		{"a higher value", "n1", "n1", 0.9, now, 0.9},
		{"a lower value by name, where the agent sends the address", "10.0.0.1", "n1", 0.1, now, 0.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, first := range []bool{false, true} {
				table := NewTable([]*corev1.Node{node, other}, "", text.Excerpt)
				offer := func(host string, value float64, at time.Time) {
					table.Offer(host, load.CPU, rng, now, rng.Summarize([]Point{{Time: at, Value: value}}, now))
				}
				if first {
					offer(tt.forgedHost, tt.forged, tt.at)
				}
				offer(tt.host, 0.5, now)
				offer("n2", 0.25, now)
				if !first {
					offer(tt.forgedHost, tt.forged, tt.at)
				}
				got := map[string]float64{}
				for _, sample := range table.Samples(rng.Windows) {
					got[sample.Node] = sample.Stats[load.CPU].Mean
				}
				if len(got) != 2 || got["n1"] != tt.want || got["n2"] != 0.25 {
					t.Errorf("forged first: %t: %v, want %v for n1 and 0.25 for n2", first, got, tt.want)
				}
			}
		})
	}
}

func TestMain(m *testing.M) { leak.Main(m) }

func TestRanges(t *testing.T) {
	got := Ranges([]time.Duration{15 * time.Minute, time.Hour, 24 * time.Hour, 5 * time.Minute, 10 * time.Second, 5 * time.Minute},
		15*time.Second)
	want := []Range{
		{Step: 15 * time.Second, Windows: []time.Duration{10 * time.Second}},
		{Step: time.Minute, Windows: []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}},
		{Step: 5 * time.Minute, Windows: []time.Duration{24 * time.Hour}},
	}
	check.Equal(t, "result", want, got)
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
		// Averaged, −10 would make a busy node idle.
		"an impossible point": {[]Point{at(9, -10), at(10, 0.9)}, time.Unix(600, 0), []load.Stat{
			{Mean: 0.9, StdDev: nan, Span: time.Minute, Known: true}, {Mean: 0.9, StdDev: nan, Span: time.Minute, Known: true},
		}},
		"a gap within the window": {[]Point{at(7, 1), at(8, nan), at(9, nan), at(10, 3)}, time.Unix(600, 0), []load.Stat{
			{Mean: 3, StdDev: nan, Span: time.Minute, Known: true}, {Mean: 2, StdDev: 1, Known: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Range{Step: time.Minute, Windows: []time.Duration{2 * time.Minute, 4 * time.Minute}}.Summarize(tt.points, time.Unix(660, 0))
			if !got.newest.Equal(tt.newest) {
				t.Errorf("newest %v, want %v", got.newest, tt.newest)
			}
			check.Equal(t, "result", tt.want, got.stats, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12))
		})
	}
}

func TestRateLimit(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		name, retryAfter, reset string
		want                    time.Duration
	}{
		{"nothing", "", "", time.Minute},
		{"seconds to wait", "17", "", 17 * time.Second},
		{"seconds until the reset", "", "42", 42 * time.Second},
		{"both", "2", "30", 2 * time.Second},
		{"text beside seconds", "soon", "30", 30 * time.Second},
		{"an hour", "3600", "", time.Hour},
		{"more than an hour", "3601", "", time.Minute},
		{"a negative number", "-5", "", time.Minute},
		{"NaN", "NaN", "", time.Minute},
		{"Inf", "", "Inf", time.Minute},
	} {
		header, limit := http.Header{}, RateLimit{}
		header.Set("Retry-After", tt.retryAfter)
		header.Set("X-RateLimit-Reset", tt.reset)
		_ = limit.Observe(now, &httpclient.StatusError{Code: http.StatusTooManyRequests, Header: header})
		check.Equal(t, tt.name+": wait", tt.want, limit.reset.Sub(now))
	}
}
