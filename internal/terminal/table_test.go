package terminal

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestTable(t *testing.T) {
	type row struct{ name, cpu, extra, state string }
	columns := []Column[row]{
		{Header: "NAME", Text: func(r row) string { return r.name }, Elastic: true},
		{Header: "CPU(%)", Short: "CPU", Text: func(r row) string { return r.cpu }, Color: func(r row) Color {
			if r.cpu == "90.0" {
				return Red
			}
			return 0
		}},
		{Header: "EXTRA", Text: func(r row) string { return r.extra }, Drop: 1},
		{Header: "STATE", Text: func(r row) string { return r.state }},
	}
	short := []row{{"a", "9.0", "1", "Fresh"}, {"b", "90.0", "22", "Absent"}}
	long := []row{{strings.Repeat("n", 30), "9.0", "1", "Fresh"}}
	for _, tc := range []struct {
		name string
		rows []row
		s    Style
		want string
	}{
		{"without a terminal all is printed", long, Style{}, `
NAME                            CPU(%)  EXTRA  STATE
nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn  9.0     1      Fresh`},
		{"what fits is printed", short, Style{Width: 27}, `
NAME  CPU(%)  EXTRA  STATE
a     9.0     1      Fresh
b     90.0    22     Absent`},
		{"headers are shortened first", short, Style{Width: 25}, `
NAME  CPU   EXTRA  STATE
a     9.0   1      Fresh
b     90.0  22     Absent`},
		{"then names are cut, but not at once to the least", long, Style{Width: 43}, `
NAME                      CPU  EXTRA  STATE
nnnnnnnnnnnnnnnnnnnnnnn…  9.0  1      Fresh`},
		{"then columns are dropped", long, Style{Width: 40}, `
NAME                          CPU  STATE
nnnnnnnnnnnnnnnnnnnnnnnnnnn…  9.0  Fresh`},
		{"at last names are cut to the least", long, Style{Width: 10}, `
NAME      CPU  STATE
nnnnnnn…  9.0  Fresh`},
		{"colors take no room", short, Style{Color: true}, `
NAME  CPU(%)  EXTRA  STATE
a     9.0     1      Fresh
b     ` + "\x1b[31m90.0\x1b[m" + `    22     Absent`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Printer{}
			NewTable(columns, tc.rows, tc.s).Print(p, true)
			check.Equal(t, "table", tc.want, "\n"+strings.TrimSuffix(p.String(), "\n"))
		})
	}
}

func TestTable_WideCharacters(t *testing.T) {
	p := &Printer{}
	TextTable([]string{"NAME", "X"}, [][]string{{"大きい", "1"}, {"a", "2"}, {"b"}}).Print(p, true)
	// Three characters of two columns each.
	if want := "NAME    X\n大きい  1\na       2\nb\n"; p.String() != want {
		t.Errorf("got\n%s\nwant\n%s", p, want)
	}
}

func TestPrinter_EscapesStrings(t *testing.T) {
	const hostile = "a\x1b[2J\n\u202e"
	type name string
	p := &Printer{}
	p.Printf("%s %s %d %v\n", hostile, name(hostile), 7, errors.New(hostile))
	p.Printf("%s", p.Bold("%s", hostile))
	TextTable([]string{hostile}, [][]string{{hostile}}).Print(p, true)
	const escaped = `a\x1b[2J\n\u202e`
	want := escaped + " " + escaped + " 7 " + escaped + "\n" + strings.Repeat(escaped, 2) + "\n" + escaped + "\n"
	if p.String() != want {
		t.Errorf("got\n%q\nwant\n%q", p, want)
	}
}

func TestPrinter_Colors(t *testing.T) {
	p := &Printer{Style: Style{Color: true}}
	p.Printf("%s %s", p.Bold("%d", 1), p.Painted(Red, "x\x1b"))
	if want := "\x1b[1m1\x1b[m \x1b[31mx\\x1b\x1b[m"; p.String() != want {
		t.Errorf("got %q, want %q", p, want)
	}
}

func TestStyleOf_File(t *testing.T) {
	file := check.Value(os.CreateTemp(t.TempDir(), ""))(t)
	defer func() { _ = file.Close() }()
	check.Equal(t, "style of a file", Style{}, StyleOf(file))
}
