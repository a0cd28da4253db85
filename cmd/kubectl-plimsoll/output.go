package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/moves"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/requests"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/shadow"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/versions"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
)

// outputFlags say how results are printed.
type outputFlags struct {
	format string
	// formats are those without a template.
	formats []string
}

// Formats of --output beside JSON, YAML and templates. All commands have tableFormat and wideFormat; the others belong to some
// commands.
const (
	tableFormat = "table"
	wideFormat  = "wide"
	nameFormat  = "name"
	csvFormat   = "csv"
	// commandsFormat is shell commands.
	commandsFormat = "commands"
)

// addTo adds the flag. more are formats that only this command has.
func (f *outputFlags) addTo(command *cobra.Command, flags *pflag.FlagSet, more ...string) {
	f.formats = append([]string{tableFormat, wideFormat, "json", "yaml"}, more...)
	flags.StringVarP(&f.format, "output", "o", tableFormat, f.allowed())
	completeValues(command, "output", append(slices.Clone(f.formats), "jsonpath=", "go-template=")...)
}

func (f *outputFlags) allowed() string {
	return strings.Join(f.formats, ", ") + ", jsonpath=TEMPLATE or go-template=TEMPLATE"
}

func (f *outputFlags) validate() error {
	if slices.Contains(f.formats, f.format) {
		return nil
	}
	_, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("%q; write %s", f.format, f.allowed())
	}
	if err != nil {
		return usageError{fmt.Errorf("--output: %w", err)}
	}
	return nil
}

// refuseNames refuses the names of a list whose objects are in several namespaces. kubectl would look for all of them in one.
func (f *outputFlags) refuseNames(list, object string) error {
	if f.format != nameFormat {
		return nil
	}
	return usageError{fmt.Errorf("--output: names lack the namespaces of the %s; write -o '%s' | xargs -L1 kubectl get",
		list, namesWithNamespace(list, object))}
}

// namesWithNamespace is the format that prints kubectl's arguments for each object of a list, one a line.
func namesWithNamespace(list, object string) string {
	return fmt.Sprintf(`jsonpath={range .%s[*]}-n {.namespace} %s{"\n"}{end}`, list, object)
}

func (f *outputFlags) isTable() bool { return f.format == tableFormat || f.format == wideFormat }

// print prints the result, a pointer to a value with JSON tags. A table is printed with its title and notes on standard error.
func (f *outputFlags) print(cmd *cobra.Command, result any, title string, notes []string, table func(*terminal.Printer)) error {
	if !f.isTable() {
		return f.encode(cmd.OutOrStdout(), result)
	}
	if title != "" {
		printLines(cmd.ErrOrStderr(), title)
	}
	p := &terminal.Printer{Style: terminal.StyleOf(cmd.OutOrStdout())}
	if f.format == wideFormat {
		p.Width = 0
	}
	table(p)
	if _, err := io.WriteString(cmd.OutOrStdout(), p.String()); err != nil {
		return err
	}
	printLines(cmd.ErrOrStderr(), notes...)
	return nil
}

func (f *outputFlags) encode(w io.Writer, result any) error {
	if f.format == nameFormat {
		return printNames(w, result)
	}
	object, err := withKind(result)
	if err != nil {
		return err
	}
	switch f.format {
	case "json":
		var indented bytes.Buffer
		if err := json.Indent(&indented, object, "", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, indented.String())
		return err
	case "yaml":
		text, err := yaml.JSONToYAML(object)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.format)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(object, &fields); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: fields}, w)
}

// apiVersion is the version of all JSON. Within a version, fields are added, and never renamed or removed.
const apiVersion = "inspect.plimsoll.io/v1"

// kinds returns the kind of each result. docs/json.md lists their fields.
func kinds() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[top.Nodes]():                    "NodeLoads",
		reflect.TypeFor[top.Pods]():                     "PodLoads",
		reflect.TypeFor[explain.Explanation]():          "Explanation",
		reflect.TypeFor[explain.DaemonSetExplanation](): "DaemonSetExplanation",
		reflect.TypeFor[explain.NamespaceExplanation](): "NamespaceExplanation",
		reflect.TypeFor[explain.LastDecision]():         "LastDecision",
		reflect.TypeFor[whatif.Report]():                "WhatIf",
		reflect.TypeFor[doctor.Report]():                "Diagnosis",
		reflect.TypeFor[requests.Report]():              "RequestRecommendations",
		reflect.TypeFor[replayResult]():                 "Replay",
		reflect.TypeFor[shadow.Report]():                "Shadow",
		reflect.TypeFor[ui.Snapshot]():                  ui.Kind,
		reflect.TypeFor[top.Trend]():                    "LoadTrend",
		reflect.TypeFor[top.History]():                  "NodeHistory",
		reflect.TypeFor[moves.Report]():                 "RebalancePlan",
		reflect.TypeFor[versions.Report]():              "Version",
	}
}

// withKind returns the JSON of a result, a pointer, with apiVersion and kind first. It makes missing lists of the result empty.
func withKind(result any) ([]byte, error) {
	fillLists(reflect.ValueOf(result))
	kind, ok := kinds()[reflect.TypeOf(result).Elem()]
	if !ok {
		return nil, fmt.Errorf("%T has no kind", result)
	}
	head, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}{apiVersion, kind})
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

// printNames prints the objects that a result lists, as kubectl get -o name. They are in one namespace at most.
func printNames(w io.Writer, result any) error {
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
	case *requests.Report:
		for _, workload := range r.Workloads {
			objects = append(objects, objectName{workload.APIVersion, workload.Kind, workload.Name})
		}
	}
	return objects
}

func printLines(w io.Writer, texts ...string) {
	p := &terminal.Printer{Style: terminal.StyleOf(w)}
	for _, text := range texts {
		p.Printf("%s\n", text)
	}
	fmt.Fprint(w, p.String())
}
