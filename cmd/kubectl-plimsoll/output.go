package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
)

// outputFlags say how results are printed.
type outputFlags struct{ format string }

func (f *outputFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVarP(&f.format, "output", "o", "table", "table, json or yaml")
}

func (f *outputFlags) validate() error {
	switch f.format {
	case "table", "json", "yaml":
		return nil
	}
	return usageError{fmt.Errorf("--output: %q; write table, json or yaml", f.format)}
}

// print writes the result, a pointer to a value with JSON tags, or calls table, which writes the result as text. Before, control
// characters in the result's strings are escaped, in place: names, reasons and errors are free text that others wrote, and must
// neither control the terminal nor forge lines. Colors are added by table.
func (f *outputFlags) print(w io.Writer, result any, table func(io.Writer, style) error) error {
	switch f.format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(result)
	case "yaml":
		text, err := yaml.Marshal(result)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	escapeStrings(result)
	return table(w, styleOf(w))
}

// escape returns the text with characters escaped that are not printable, as Go source would: \n, \x1b, \u202e.
func escape(text string) string {
	if !strings.ContainsFunc(text, isUnprintable) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case isUnprintable(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

func isUnprintable(r rune) bool { return !strconv.IsPrint(r) }

// escapeLines escapes each line of a text.
func escapeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = escape(lines[i])
	}
	return strings.Join(lines, "\n")
}

// escapeStrings escapes all strings that the pointer reaches through exported fields, elements and map values; map keys must not
// need it.
func escapeStrings(pointer any) { escapeValue(reflect.ValueOf(pointer), escape) }

func escapeValue(v reflect.Value, escape func(string) string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(escape(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			escapeValue(v.Elem(), escape)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			escapeValue(v.Index(i), escape)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			switch {
			case !field.IsExported():
			case v.Type() == reflect.TypeFor[doctor.Advice]() && field.Name == "YAML":
				escapeValue(value, escapeLines) // it has several lines
			default:
				escapeValue(value, escape)
			}
		}
	}
}

// style says what the output can show.
type style struct {
	// colour allows ANSI colours and bars. It needs a terminal, and is off with NO_COLOR.
	colour bool
	// width is that of the terminal, in columns; 0 if it is none.
	width int
}

func styleOf(w io.Writer) style {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return style{}
	}
	s := style{colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.width = width
	}
	return s
}
