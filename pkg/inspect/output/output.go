// Package output prints results as tables, JSON or YAML, or by a template.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"
)

// ErrProblems ends a command that has found something, and has printed it.
var ErrProblems = errors.New("found something")

// Formats of results beside templates.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
)

// Result is a pointer to a value with JSON tags. docs/json.md lists the fields of each kind.
type Result interface {
	JSONKind() string
}

// Write writes a result in the format: JSON, YAML or a template of kubectl.
func Write(w io.Writer, format string, result Result) error {
	object, err := Marshal(result)
	if err != nil {
		return err
	}
	switch format {
	case JSON:
		var indented bytes.Buffer
		if err := json.Indent(&indented, object, "", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, indented.String())
		return err
	case YAML:
		text, err := yaml.JSONToYAML(object)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(format)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(object, &fields); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: fields}, w)
}

// APIVersion is the version of all JSON. Within a version, fields are added, and never renamed or removed.
const APIVersion = "inspect.plimsoll.io/v1"

// Marshal returns the JSON of a result with apiVersion and kind first. It makes missing lists of the result empty.
func Marshal(result Result) ([]byte, error) { return MarshalKind(result.JSONKind(), result) }

// MarshalKind is Marshal for a part of a result.
func MarshalKind(kind string, result any) ([]byte, error) {
	fillLists(reflect.ValueOf(result))
	head, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}{APIVersion, kind})
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head[:len(head)-1], []byte(","), fields[1:]), nil
}

// fillLists makes missing lists and maps empty in all fields of JSON, because scripts cannot iterate over null.
// It changes the result, which nobody else may have.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Slice:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for _, element := range v.Seq2() {
			fillLists(element)
		}
	case reflect.Struct:
		fillFields(v)
	}
}

func fillFields(v reflect.Value) {
	for f, field := range v.Fields() {
		if (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" {
			fillLists(field)
		}
	}
}
