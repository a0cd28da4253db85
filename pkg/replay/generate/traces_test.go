package generate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestParseTraces_Invalid(t *testing.T) {
	row := strings.TrimSuffix(strings.Repeat("1,", samplesPerDay), ",")
	for _, tc := range []struct{ name, content, want string }{
		{"nothing", "", "no row"},
		{"a short row", "1,2", "line 1: 2 values"},
		{"a word", row + "\n" + strings.Replace(row, "1", "x", 1), `line 2: value 1 is "x"`},
		{"above 100 %", strings.Replace(row, "1", "101", 1), "from 0 to 100"},
		{"not a number", strings.Replace(row, "1", "NaN", 1), "from 0 to 100"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseTraces("day", strings.NewReader(tc.content))
			check.Error(t, err, tc.want)
		})
	}
	if traces, err := parseTraces("day", strings.NewReader(row+"\r\n"+row+"\n")); err != nil || len(traces.Machines) != 2 ||
		traces.Machines[1][0] != 0.01 {
		t.Errorf("%v, %v; want two rows of 1 %%", traces, err)
	}
	_, err := ReadTraces(t.TempDir())
	check.Error(t, err, "*.csv")

	folder := t.TempDir()
	for _, name := range []string{"day.csv", "day.csv.gz"} {
		check.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(row+"\n"), 0o600))
	}
	_, err = ReadTraces(folder)
	check.Error(t, err, "day.csv.gz: a second file of day; leave one")
}

// Three days, of machines with the means 10, 40, 20 and 30 %. The machine of 40 % ends after the first day, and one of 25 % begins on the
// third.
func TestInARow(t *testing.T) {
	day := func(percents ...float32) *Traces {
		d := &Traces{Name: "day"}
		for _, p := range percents {
			d.Machines = append(d.Machines, slices.Repeat([]float32{p / 100}, samplesPerDay))
		}
		return d
	}
	joined := InARow([]*Traces{day(10, 40, 20, 30), day(11, 21, 31), day(12, 25, 22, 32)})
	var got []string
	for _, row := range joined.Machines {
		got = append(got, fmt.Sprintf("%.0f %.0f %.0f", 100*row[0], 100*row[samplesPerDay], 100*row[2*samplesPerDay]))
	}
	check.Equal(t, "machines by day, then the same machines from another day on", []string{
		"10 11 12", "20 21 22", "30 31 32", "11 12 10", "21 22 20", "31 32 30", "12 10 11", "22 20 21", "32 30 31",
	}, got)
	in := check.Value(Input(joined, Scenarios()[0], 1, 1))(t)
	check.Equal(t, "length and counted time", []time.Duration{72 * time.Hour, 48 * time.Hour}, []time.Duration{in.Length, in.Counted})
	if last := in.Pods[len(in.Pods)-1]; last.Arrival < 60*time.Hour {
		t.Errorf("the last pod arrives at %v, want pods on all days", last.Arrival)
	}
}

// Policies must not learn, on the first day, the values of days on which they are counted: a workload's pods begin on one day. The first
// value of each machine's first day is 100 %, so the place of the largest value tells where a row begins. One of the four machines is
// always idle. Its row is missing from each of the three blocks.
func TestInARow_WorkloadsBeginOnOneDay(t *testing.T) {
	var days []*Traces
	for i := range 3 {
		day := &Traces{Name: "day"}
		for _, mean := range []float32{0.1, 0.2, 0, 0.3} {
			row := slices.Repeat([]float32{mean}, samplesPerDay)
			if i == 0 && mean > 0 {
				row[0] = 1
			}
			day.Machines = append(day.Machines, row)
		}
		days = append(days, day)
	}
	in := check.Value(Input(InARow(days), Scenarios()[0], 10, 1))(t)
	begins, found := map[int]int{}, map[int]bool{}
	for _, p := range in.Pods {
		at := slices.Index(p.Trace, 1)
		if begin, ok := begins[p.Workload]; ok && begin != at {
			t.Fatalf("workload %d has rows that begin %d and %d steps before the first day's start", p.Workload, begin, at)
		}
		begins[p.Workload], found[at] = at, true
	}
	check.Equal(t, "steps before the first day's start", map[int]bool{0: true, samplesPerDay: true, 2 * samplesPerDay: true}, found)
}
