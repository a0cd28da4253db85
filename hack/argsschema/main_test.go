package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite_ChartIsUpToDate(t *testing.T) {
	chart, dir := "../../manifests/chart", t.TempDir()
	written := map[string]string{"values.schema.json": "", "files/args.schema.json": ""}
	for name := range written {
		content, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			t.Fatal(err)
		}
		written[name] = string(content)
	}
	values, args := filepath.Join(dir, "values"), filepath.Join(dir, "args")
	if err := os.WriteFile(values, []byte(written["values.schema.json"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(values, args); err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{values: "values.schema.json", args: "files/args.schema.json"} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), written[name]); diff != "" {
			t.Errorf("manifests/chart/%s is out of date: run make generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestWrite_KeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	values := filepath.Join(dir, "values")
	const rest = "{\n  \"type\": \"object\","
	if err := os.WriteFile(values, []byte(rest+"\n  \"definitions\": {\"Old\": {}}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(values, filepath.Join(dir, "args")); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(values)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(content), rest+"\n  \"definitions\": {\n") || strings.Contains(string(content), "Old") {
		t.Errorf("write() made %.200s", content)
	}
	if err := os.WriteFile(values, []byte(rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(values, filepath.Join(dir, "args")); err == nil {
		t.Error("write() accepts a file without definitions")
	}
}

// TestSchemaOf_RefusesUnknownKinds keeps a new kind of argument from being left unchecked.
func TestSchemaOf_RefusesUnknownKinds(t *testing.T) {
	type args struct {
		Inner []struct {
			Ratio float32 `json:"ratio"`
		} `json:"inner"`
	}
	_, err := schemaOf(reflect.TypeFor[args](), object{})
	if want := ".inner[].ratio: no schema for float32: add one to hack/argsschema"; err == nil || err.Error() != want {
		t.Errorf("schemaOf() = %v, want %s", err, want)
	}
}
