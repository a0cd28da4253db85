package main

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
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
	report, nodes, pods, explanation, outcome := &doctor.Report{}, &top.Nodes{}, &top.Pods{}, &explain.Explanation{}, &whatif.Report{}
	last, daemonSet, namespace := &explain.LastDecision{}, &explain.DaemonSetExplanation{}, &explain.NamespaceExplanation{}
	noNotes := func() []string { return nil }
	for name, tc := range map[string]struct {
		result any
		notes  func() []string
		table  func(*terminal.Printer)
	}{
		"doctor":    {report, noNotes, report.Print},
		"top nodes": {nodes, nodes.Notes, func(p *terminal.Printer) { nodes.Print(p, top.ByLine, true) }},
		"top pods":  {pods, pods.Notes, func(p *terminal.Printer) { pods.Print(p, true) }},
		"explain":   {explanation, noNotes, explanation.Print},
		"last":      {last, noNotes, last.Print},
		"daemonset": {daemonSet, noNotes, daemonSet.Print},
		"namespace": {namespace, noNotes, namespace.Print},
		"what-if":   {outcome, noNotes, outcome.Print},
	} {
		t.Run(name, func(t *testing.T) {
			fill(reflect.ValueOf(tc.result).Elem())
			var b bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetOut(&b)
			cmd.SetErr(&b)
			must(t, (&outputFlags{format: "table"}).print(cmd, tc.result, nodes.Title(), tc.notes(), tc.table))
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

// print writes the format, and no title. validate refuses formats of other commands.
func TestPrint_Formats(t *testing.T) {
	f := &outputFlags{format: "jsonpath={.changes[0]}", formats: []string{"json"}}
	must(t, f.validate())
	var b bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	result := &whatif.Report{Changes: []string{"worker-1 drained"}}
	if err := f.print(cmd, result, "title", nil, result.Print); err != nil || b.String() != "worker-1 drained" {
		t.Errorf("error %v, got %q, want the change alone", err, b.String())
	}
	for _, format := range []string{"name", "jsonpath={", ""} {
		if _, ok := errors.AsType[usageError]((&outputFlags{format: format, formats: []string{"json"}}).validate()); !ok {
			t.Errorf("%q is accepted", format)
		}
	}
}

// Pods of several namespaces have no names alone. The format that the error names adds their namespaces.
func TestPrint_NamesOfSeveralNamespaces(t *testing.T) {
	format := namesWithNamespace("pods", "pod/{.name}")
	_, err := execute(t.Context(), "top", "pods", "worker-1", "-o", "name", "--kubeconfig="+kubeconfigFor(t, "http://127.0.0.1:1"))
	if _, ok := errors.AsType[usageError](err); !ok || !strings.Contains(err.Error(), "-o '"+format+"' | xargs -L1 kubectl get") {
		t.Errorf("%v, which does not name the format %s", err, format)
	}
	var b bytes.Buffer
	must(t, output.Write(&b, format, &top.Pods{Pods: []top.Pod{{Namespace: "shop", Name: "web-0"}, {Namespace: "batch", Name: "job-1"}}}))
	if want := "-n shop pod/web-0\n-n batch pod/job-1\n"; b.String() != want {
		t.Errorf("%s prints %q, want %q", format, b.String(), want)
	}
}

func TestReport_EscapesErrors(t *testing.T) {
	var b bytes.Buffer
	report(&b, newCommand(), errors.New("one \x1b[2J\ntwo"))
	if want := "Error: one \\x1b[2J\ntwo\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
