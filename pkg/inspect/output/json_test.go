package output_test

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

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// fieldsOf adds the paths of a type's JSON fields, with their types.
func fieldsOf(t reflect.Type, path string, add func(path, kind string)) {
	marshals := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case t.Kind() == reflect.Pointer:
		fieldsOf(t.Elem(), path, add)
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

// docs/json.md lists all fields of all kinds. For a new field, run it with -update. The diff must not remove or rename any.
func TestJSON_FieldsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../../docs/json.md")
	check.OK(t, err)
	types := map[string]reflect.Type{ui.Kind: reflect.TypeFor[ui.State]()}
	for result, kind := range output.Kinds() {
		types[kind] = result
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
		check.OK(t, os.WriteFile("../../../docs/json.md", []byte(text), 0o644))
		return
	}
	if diff := cmp.Diff(strings.TrimSpace(want.String()), strings.TrimSpace(got)); diff != "" {
		t.Errorf("docs/json.md (-types +documented):\n%s", diff)
	}
	if !strings.Contains(string(document), output.APIVersion) {
		t.Errorf("docs/json.md does not name %s", output.APIVersion)
	}
}

// All results have apiVersion and kind first, whichever format.
func TestJSON_Kinds(t *testing.T) {
	for result, kind := range output.Kinds() {
		want := fmt.Sprintf("{\n  \"apiVersion\": %q,\n  \"kind\": %q,\n", output.APIVersion, kind)
		if got := written(t, output.JSON, reflect.New(result).Interface()); !strings.HasPrefix(got, want) {
			t.Errorf("%.80s does not begin with %s", got, want)
		}
		want = output.APIVersion + " " + kind
		if got := written(t, "jsonpath={.apiVersion} {.kind}", reflect.New(result).Interface()); got != want {
			t.Errorf("jsonpath: %s, want %s", got, want)
		}
	}
}
