package main

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// fill gives each exported string, element and pointer of v a value, as a hostile tenant would.
func fill(v reflect.Value) {
	const hostile = "a\x1b[2J\tb\r\u202e\nFORGED \xff"
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				fill(value)
			}
		}
	}
}

func TestPrint_EscapesHostileStrings(t *testing.T) {
	report, nodes, pods, explanation, outcome := &doctor.Report{}, &top.Nodes{}, &top.Pods{}, &explain.Result{}, &whatIfResult{}
	for name, tc := range map[string]struct {
		result any
		table  func(io.Writer, style) error
	}{
		"doctor":    {report, func(w io.Writer, s style) error { return printReport(w, s, report) }},
		"top nodes": {nodes, func(w io.Writer, s style) error { return writeNodes(w, nodes, s, top.ByLine, true) }},
		"top pods":  {pods, func(w io.Writer, s style) error { return writePods(w, pods, s, true) }},
		"explain":   {explanation, func(w io.Writer, s style) error { return writeExplanation(w, s, explanation) }},
		"what-if":   {outcome, func(w io.Writer, s style) error { return writeWhatIf(w, s, outcome) }},
	} {
		t.Run(name, func(t *testing.T) {
			fill(reflect.ValueOf(tc.result).Elem())
			var b bytes.Buffer
			if err := (&outputFlags{format: "table"}).print(&b, tc.result, tc.table); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), `a\x1b[2J\tb\r\u202e`) {
				t.Errorf("no escaped string in\n%q", b.String())
			}
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(line, "FORGED") {
					t.Errorf("a hostile string is printed: %q", line)
				}
			}
		})
	}
}

func TestReport_EscapesErrors(t *testing.T) {
	var b bytes.Buffer
	report(&b, newCommand(), errors.New("one \x1b[2J\ntwo"))
	if want := "Error: one \\x1b[2J\ntwo\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
