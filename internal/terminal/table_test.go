package terminal

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestTable(t *testing.T) {
	type row struct{ name, cpu, state string }
	columns := []Column[row]{
		{Header: "NAME", Text: func(r row) string { return r.name }},
		{Header: "CPU(%)", Text: func(r row) string { return r.cpu }, Color: func(r row) Color {
			if r.cpu == "90.0" {
				return Red
			}
			return 0
		}},
		{Header: "MEM(%)", HideEmpty: true, Text: func(row) string { return "-" }},
		{Header: "STATE", HideEmpty: true, Text: func(r row) string { return r.state }},
	}
	table := NewTable(columns, []row{{"a", "9.0", "Fresh"}, {"bbbbb", "90.0", "Absent"}})
	check.Equal(t, "width", 5+2+6+2+6, table.Width())
	for _, tc := range []struct {
		name    string
		s       Style
		headers bool
		want    string
	}{
		{"without a terminal", Style{}, true, `
NAME   CPU(%)  STATE
a      9.0     Fresh
bbbbb  90.0    Absent
`},
		{"colors take no room", Style{Color: true}, false, `
a      9.0     Fresh
bbbbb  ` + "\x1b[31m90.0\x1b[m" + `    Absent
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Printer{Style: tc.s}
			table.Print(p, tc.headers)
			check.Equal(t, "table", tc.want, "\n"+p.String())
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
