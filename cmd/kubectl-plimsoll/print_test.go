package main

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	for _, result := range results() {
		t.Run(result.JSONKind(), func(t *testing.T) {
			fill(reflect.ValueOf(result).Elem())
			var b bytes.Buffer
			p := &terminal.Printer{}
			switch r := result.(type) {
			case interface{ Print(*terminal.Printer) }:
				r.Print(p)
			case *top.Nodes:
				output.Lines(&b, append(r.Notes(), r.Title())...)
				r.Print(p, true)
			case *top.Pods:
				output.Lines(&b, append(r.Notes(), r.Title())...)
				r.Print(p, true)
			default:
				return // for the page alone, or tested there
			}
			written := b.String() + p.String()
			check.Contains(t, written, `a\x1b[2J\tb\r\u202e`)
			for line := range strings.Lines(written) {
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
