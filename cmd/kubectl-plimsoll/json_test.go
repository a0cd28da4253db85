package main

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/shadow"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	replayreport "github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// fieldsOf adds the paths of a type's JSON fields, with their types.
func fieldsOf(t reflect.Type, path string, add func(path, kind string)) {
	marshals := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case t.Kind() == reflect.Pointer:
		fieldsOf(t.Elem(), path, add)
	case marshals(reflect.TypeFor[encoding.TextMarshaler]()) && t.Kind() == reflect.Int:
		add(path, "string")
	case marshals(reflect.TypeFor[json.Marshaler]()) || marshals(reflect.TypeFor[encoding.TextMarshaler]()):
		add(path, strings.ToLower(t.Name()))
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		add(path, "base64")
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		fieldsOf(t.Elem(), path+"[]", add)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Pointer:
		fieldsOf(t.Elem(), path+"{}", add)
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
			case name == "":
				fieldsOf(f.Type, path, add) // embedded
			default:
				fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."), add)
			}
		}
	default:
		words := strings.NewReplacer("float", "number", "uint", "integer", "int", "integer", "bool", "boolean")
		add(path, strings.TrimRight(words.Replace(t.Kind().String()), "0123456789"))
	}
}

var update = flag.Bool("update", false, "write the fields into docs/json.md")

// results holds a pointer to each result.
func results() []output.Result {
	return []output.Result{
		&doctor.Report{},
		&top.Nodes{}, &top.Pods{Node: &top.Row{}},
		&explain.Explanation{}, &explain.LastDecision{Record: &pluginexplain.Record{}},
		&whatif.Report{},
		&shadow.Report{},
		&command.Report{},
		&replayreport.Result{},
	}
}

// docs/json.md lists all fields of all kinds. For a new field, run it with -update. The diff must not remove or rename any.
func TestJSON_FieldsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/json.md")
	check.OK(t, err)
	types := map[string]reflect.Type{ui.Kind: reflect.TypeFor[ui.State](), provider.ServedKind: reflect.TypeFor[provider.Served]()}
	for _, result := range results() {
		types[result.JSONKind()] = reflect.TypeOf(result).Elem()
	}
	var want strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(types)) {
		fmt.Fprintf(&want, "### %s\n\n```text\n", kind)
		fieldsOf(types[kind], "", func(path, kind string) { fmt.Fprintf(&want, "%s: %s\n", path, kind) })
		want.WriteString("```\n\n")
	}
	head, got, _ := strings.Cut(string(document), "<!-- fields -->\n\n")
	if *update {
		text := head + "<!-- fields -->\n\n" + strings.TrimSpace(want.String()) + "\n"
		check.OK(t, os.WriteFile("../../docs/json.md", []byte(text), 0o644))
		return
	}
	check.Equal(t, "docs/json.md (want: types)", strings.TrimSpace(want.String()), strings.TrimSpace(got))
	check.Contains(t, string(document), output.APIVersion)
}

// All results have apiVersion and kind first, and a list without elements is empty: jq '.nodes[]' fails for null.
func TestJSON_Kinds(t *testing.T) {
	for _, result := range append(results(), &whatif.Report{Outcomes: []*whatif.Outcome{{}}}) {
		content := string(check.Value(output.Marshal(result))(t))
		want := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, output.APIVersion, result.JSONKind())
		if !strings.HasPrefix(content, want) {
			t.Errorf("%.80s does not begin with %s", content, want)
		}
		if strings.Contains(content, "null") {
			t.Errorf("%s has null: %s", result.JSONKind(), content)
		}
	}
}
