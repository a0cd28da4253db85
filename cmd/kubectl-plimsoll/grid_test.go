package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
)

func TestGrid(t *testing.T) {
	type row struct{ name, cpu, extra, state string }
	columns := []column[row]{
		{header: "NAME", text: func(r row) string { return r.name }, elastic: true},
		{header: "CPU(%)", short: "CPU", text: func(r row) string { return r.cpu }, color: func(r row) string {
			if r.cpu == "90.0" {
				return bar.Red
			}
			return ""
		}},
		{header: "EXTRA", text: func(r row) string { return r.extra }, drop: 1},
		{header: "STATE", text: func(r row) string { return r.state }},
	}
	short := []row{{"a", "9.0", "1", "Fresh"}, {"b", "90.0", "22", "Absent"}}
	long := []row{{strings.Repeat("n", 30), "9.0", "1", "Fresh"}}
	for _, tc := range []struct {
		name string
		rows []row
		s    style
		want string
	}{
		{"without a terminal all is printed", long, style{}, `
NAME                            CPU(%)  EXTRA  STATE
nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn  9.0     1      Fresh`},
		{"what fits is printed", short, style{width: 27}, `
NAME  CPU(%)  EXTRA  STATE
a     9.0     1      Fresh
b     90.0    22     Absent`},
		{"headers are shortened first", short, style{width: 25}, `
NAME  CPU   EXTRA  STATE
a     9.0   1      Fresh
b     90.0  22     Absent`},
		{"then names are cut, but not at once to the least", long, style{width: 43}, `
NAME                      CPU  EXTRA  STATE
nnnnnnnnnnnnnnnnnnnnnnn…  9.0  1      Fresh`},
		{"then columns are dropped", long, style{width: 40}, `
NAME                          CPU  STATE
nnnnnnnnnnnnnnnnnnnnnnnnnnn…  9.0  Fresh`},
		{"at last names are cut to the least", long, style{width: 10}, `
NAME      CPU  STATE
nnnnnnn…  9.0  Fresh`},
		{"colors take no room", short, style{colour: true}, `
NAME  CPU(%)  EXTRA  STATE
a     9.0     1      Fresh
b     ` + "\x1b[31m90.0\x1b[0m" + `    22     Absent`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGrid(columns, tc.rows, tc.s)
			lines := []string{"", g.header()}
			for i := range tc.rows {
				lines = append(lines, g.row(tc.rows[i]))
			}
			if diff := cmp.Diff(tc.want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}
