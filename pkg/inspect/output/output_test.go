package output_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

type result struct {
	Names  []string   `json:"names"`
	Others [][]string `json:"others"`
	Nested []*result  `json:"nested"`
}

func (*result) JSONKind() string { return "Result" }

func (r *result) print(p *terminal.Printer) { p.Printf("%s\n", r.Names[0]) }

func written(t *testing.T, format string, result output.Result) string {
	t.Helper()
	var b strings.Builder
	check.OK(t, output.Write(&b, format, result))
	return b.String()
}

// apiVersion and kind come first. Missing lists are empty, also in lists.
func TestWrite_Formats(t *testing.T) {
	for format, want := range map[string]string{
		output.JSON: "{\n  \"apiVersion\": \"inspect.plimsoll.io/v1\",\n  \"kind\": \"Result\",\n  \"names\": [\n    \"a\"\n  ],\n" +
			"  \"others\": [\n    []\n  ],\n  \"nested\": []\n}\n",
		output.YAML:                      "apiVersion: inspect.plimsoll.io/v1\nkind: Result\nnames:\n- a\nnested: []\nothers:\n- []\n",
		"jsonpath={.kind} {.names[0]}":   "Result a",
		"go-template={{index .names 0}}": "a",
	} {
		check.Equal(t, format+": written", want, written(t, format, &result{Names: []string{"a"}, Others: [][]string{nil}}))
	}
	check.Equal(t, "a list in a list", "[]", written(t, "jsonpath={.nested[0].names}", &result{Nested: []*result{{}}}))
}

// Print writes the format alone. Validate refuses unknown formats.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{"": "a\n", "-o jsonpath={.names[0]}": "a"} {
		var f output.Flags
		command := &cobra.Command{}
		f.AddTo(command.Flags())
		check.OK(t, command.ParseFlags(strings.Fields(args)))
		check.OK(t, f.Validate())
		var b bytes.Buffer
		command.SetOut(&b)
		r := &result{Names: []string{"a"}}
		if err := f.Print(command, r, r.print); err != nil || b.String() != want {
			t.Errorf("%s: error %v, got %q, want %q", args, err, b.String(), want)
		}
		for _, f.Format = range []string{"name", "jsonpath={", ""} {
			if _, ok := errors.AsType[*cluster.OptionError](f.Validate()); !ok {
				t.Errorf("%q is accepted", f.Format)
			}
		}
	}
}
