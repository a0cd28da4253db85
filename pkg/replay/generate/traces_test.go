package generate

import (
	"strings"
	"testing"

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
}
