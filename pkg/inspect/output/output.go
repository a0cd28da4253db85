// Package output writes results as JSON, YAML or names, or by a template.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/moves"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/shadow"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/versions"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	replayreport "github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// Formats of results beside templates.
const (
	JSON  = "json"
	YAML  = "yaml"
	Names = "name"
)

// Write writes a result, a pointer, in the format: JSON, YAML, Names or a template of kubectl.
func Write(w io.Writer, format string, result any) error {
	if format == Names {
		return writeNames(w, result)
	}
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

// Kinds returns the kind of each result. docs/json.md lists their fields.
func Kinds() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[top.Nodes]():                    "NodeLoads",
		reflect.TypeFor[top.Pods]():                     "PodLoads",
		reflect.TypeFor[explain.Explanation]():          "Explanation",
		reflect.TypeFor[explain.DaemonSetExplanation](): "DaemonSetExplanation",
		reflect.TypeFor[explain.NamespaceExplanation](): "NamespaceExplanation",
		reflect.TypeFor[explain.LastDecision]():         "LastDecision",
		reflect.TypeFor[whatif.Report]():                "WhatIf",
		reflect.TypeFor[doctor.Report]():                "Diagnosis",
		reflect.TypeFor[replayreport.Result]():          "Replay",
		reflect.TypeFor[shadow.Report]():                "Shadow",
		reflect.TypeFor[top.Trend]():                    "LoadTrend",
		reflect.TypeFor[top.NodeEvents]():               "NodeHistory",
		reflect.TypeFor[moves.Report]():                 "RebalancePlan",
		reflect.TypeFor[versions.Report]():              "Version",
	}
}

// Marshal returns the JSON of a result, a pointer, with apiVersion and kind first. It makes missing lists of the result empty.
func Marshal(result any) ([]byte, error) {
	kind, ok := Kinds()[reflect.TypeOf(result).Elem()]
	if !ok {
		return nil, fmt.Errorf("%T has no kind", result)
	}
	return MarshalKind(kind, result)
}

// MarshalKind is Marshal for a result of a package above.
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

// writeNames writes the objects that a result lists, as kubectl get -o name. They are in one namespace at most.
func writeNames(w io.Writer, result any) error {
	printer := &printers.NamePrinter{}
	for _, o := range objectsOf(result) {
		object := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: o.apiVersion, Kind: o.kind}, ObjectMeta: metav1.ObjectMeta{Name: text.Escape(o.name)},
		}
		if err := printer.PrintObj(object, w); err != nil {
			return err
		}
	}
	return nil
}

// objectName names an object of the API.
type objectName struct{ apiVersion, kind, name string }

// objectsOf returns the objects that a result is about, in the order of its table.
func objectsOf(result any) (objects []objectName) {
	switch r := result.(type) {
	case *top.Nodes:
		for _, n := range r.Nodes {
			objects = append(objects, objectName{"v1", "Node", n.Name})
		}
	case *whatif.Report:
		for i := range r.Outcomes[0].Nodes {
			objects = append(objects, objectName{"v1", "Node", r.Outcomes[0].Nodes[i].Name})
		}
	}
	return objects
}
