// Argsschema writes the JSON schema of the plugins' arguments, from the Go types in apis/config/v1, into the chart's
// values.schema.json, which Helm reads. The chart's templates read files/plugins.json: the names of each plugin's arguments, and
// the names of plugins that the scheduler does not have. Argsschema runs in the repository's root.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	configv1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
)

func main() {
	if err := write("manifests/chart/values.schema.json", "manifests/chart/files/plugins.json"); err != nil {
		fmt.Fprintln(os.Stderr, "argsschema:", err)
		os.Exit(1)
	}
}

func write(values, plugins string) error {
	definitions, err := definitions()
	if err != nil {
		return err
	}
	old, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	before, _, found := bytes.Cut(old, []byte("\n  \"definitions\": "))
	if !found {
		return fmt.Errorf("%s has no line that begins with two blanks and \"definitions\": ", values)
	}
	content, err := json.MarshalIndent(definitions, "  ", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(values, fmt.Appendf(nil, "%s\n  \"definitions\": %s\n}\n", before, content), 0o644); err != nil {
		return err
	}
	arguments := object{}
	for name, schema := range definitions {
		if plugin, found := strings.CutSuffix(name, "Args"); found {
			arguments[plugin] = slices.Sorted(maps.Keys(schema.(object)["properties"].(object)))
		}
	}
	content, err = json.MarshalIndent(object{"otherPlugins": otherPlugins, "arguments": arguments}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(plugins, append(content, '\n'), 0o644)
}

type object = map[string]any

// otherPlugins are the plugins of sigs.k8s.io/scheduler-plugins that neither this project nor Kubernetes has.
var otherPlugins = []string{
	"CapacityScheduling", "Coscheduling", "CrossNodePreemption", "NetworkOverhead", "NodeResourcesAllocatable",
	"NodeResourcesFitPlus", "NodeResourceTopologyMatch", "PodState", "PreemptionToleration", "QOSSort",
	"ScarceResourceAvoidance", "SySched", "TopologicalSort",
}

// definitions returns a schema for each struct, by the name of its type. The one named pluginConfig is for an entry of
// pluginConfig.
func definitions() (object, error) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	known := scheme.KnownTypes(configv1.SchemeGroupVersion)
	all := object{}
	var plugins []any
	for _, kind := range slices.Sorted(maps.Keys(known)) {
		reference, err := schemaOf(known[kind], all)
		if err != nil {
			return nil, fmt.Errorf("%s%w", kind, err)
		}
		plugins = append(plugins, object{
			"if":   object{"required": []string{"name"}, "properties": object{"name": object{"const": strings.TrimSuffix(kind, "Args")}}},
			"then": object{"properties": object{"args": reference}},
		})
	}
	all["pluginConfig"] = object{"allOf": plugins}
	return all, nil
}

// What time.ParseDuration and quantity.Bounded accept. Quantities need a digit: Bounded reads "Gi" as 0.
const (
	durationPattern = `^[-+]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	quantityPattern = `^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$`
)

// schemaOf returns the schema of a type, and adds the structs in it to definitions. null is allowed everywhere, since null decodes
// as a missing field does.
func schemaOf(t reflect.Type, definitions object) (object, error) {
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return merge(orNull("string"), object{"pattern": durationPattern}), nil
	case reflect.TypeFor[resource.Quantity]():
		return merge(orNull("string", "number"), object{"pattern": quantityPattern, "maxLength": quantity.MaxLength}), nil // of strings
	case reflect.TypeFor[config.MetricProviderType]():
		// An empty type is the default.
		return object{"enum": []any{config.KubernetesMetricsServer, config.Prometheus, config.SignalFx, config.Datadog, "", nil}}, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return orNull("boolean"), nil
	case reflect.Int32, reflect.Int64:
		return orNull("integer"), nil
	case reflect.Float64:
		return orNull("number"), nil
	case reflect.String:
		return orNull("string"), nil
	case reflect.Pointer:
		return schemaOf(t.Elem(), definitions)
	case reflect.Slice, reflect.Map:
		return schemaOfItems(t, definitions)
	case reflect.Struct:
		return schemaOfStruct(t, definitions)
	default:
		return nil, fmt.Errorf(": no schema for %s: add one to hack/argsschema", t)
	}
}

func schemaOfItems(t reflect.Type, definitions object) (object, error) {
	items, err := schemaOf(t.Elem(), definitions)
	if err != nil {
		return nil, fmt.Errorf("[]%w", err)
	}
	if t.Kind() == reflect.Slice {
		return merge(orNull("array"), object{"items": items}), nil
	}
	if t.Key() == reflect.TypeFor[corev1.ResourceName]() {
		properties := object{string(corev1.ResourceCPU): items, string(corev1.ResourceMemory): items} // no plugin reads others
		return merge(orNull("object"), object{"properties": properties, "additionalProperties": false}), nil
	}
	return merge(orNull("object"), object{"additionalProperties": items}), nil
}

// schemaOfStruct returns a reference to the schema of a struct, which it adds to definitions.
func schemaOfStruct(t reflect.Type, definitions object) (object, error) {
	reference := object{"$ref": "#/definitions/" + t.Name()}
	if definitions[t.Name()] != nil {
		return reference, nil
	}
	properties := object{}
	definitions[t.Name()] = merge(orNull("object"), object{"properties": properties, "additionalProperties": false})
	for name, of := range configlint.FieldTypes(t) {
		property, err := schemaOf(of, definitions)
		if err != nil {
			return nil, fmt.Errorf(".%s%w", name, err)
		}
		properties[name] = property
	}
	return reference, nil
}

func orNull(types ...string) object {
	return object{"type": append(types, "null")}
}

func merge(a, b object) object {
	maps.Copy(a, b)
	return a
}
