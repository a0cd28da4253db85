package configlint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

// withFields replaces the decoder's error, which names neither the line of a field nor the path of an invalid value.
func withFields(err error, root *yaml.Node) error {
	known := kubeschedulerscheme.Scheme.KnownTypes(kubeschedulerconfigv1.SchemeGroupVersion)
	errs := fieldErrors(root, known["KubeSchedulerConfiguration"], "")
	for i, profile := range items(entry(root, "profiles")) {
		for j, plugin := range items(entry(profile, "pluginConfig")) {
			if args, ok := known[text(entry(plugin, "name"))+"Args"]; ok {
				errs = append(errs, fieldErrors(entry(plugin, "args"), args, fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j))...)
			}
		}
	}
	return cmp.Or(error(utilerrors.NewAggregate(errs)), err)
}

// CheckFields returns an error for each unknown field of a document, and for each value of another type. Content that is no YAML
// has none.
func CheckFields(content []byte, of reflect.Type) error {
	return utilerrors.NewAggregate(fieldErrors(parse(content), of, ""))
}

// fieldErrors returns an error for each field below the node that the type lacks, and for each value that it does not decode from.
// Errors omit strings, which may be secrets. The path is empty, or ends with a dot.
func fieldErrors(node *yaml.Node, of reflect.Type, path string) (errs []error) {
	if node = resolve(node); node == nil || node.Tag == "!!null" {
		return nil
	}
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	kind := of.Kind()
	if reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		kind = reflect.Invalid // it decodes itself
	}
	switch {
	case kind == reflect.Slice && node.Kind == yaml.SequenceNode:
		for i, item := range items(node) {
			errs = append(errs, fieldErrors(item, of.Elem(), fmt.Sprintf("%s[%d].", strings.TrimSuffix(path, "."), i))...)
		}
	case kind == reflect.Map && node.Kind == yaml.MappingNode:
		for key, value := range pairs(node) {
			if key.Tag != "!!merge" { // the anchor is checked where it is defined
				errs = append(errs, fieldErrors(value, of.Elem(), path+key.Value+".")...)
			}
		}
	case kind == reflect.Struct && node.Kind == yaml.MappingNode:
		return structErrors(node, of, path)
	default:
		if err := decode(node, of); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: want %w", node.Line, strings.TrimSuffix(path, "."), err))
		}
	}
	return errs
}

func structErrors(node *yaml.Node, of reflect.Type, path string) (errs []error) {
	fields := FieldTypes(of)
	for key, value := range pairs(node) {
		if field, ok := fields[key.Value]; ok {
			errs = append(errs, fieldErrors(value, field, path+key.Value+".")...)
		} else if key.Tag == "!!merge" {
			errs = append(errs, fieldErrors(value, of, path)...)
		} else {
			errs = append(errs, unknownField(key, path, fields))
		}
	}
	return errs
}

// decode returns an error that begins with the type if the type does not decode from the node.
func decode(node *yaml.Node, of reflect.Type) error {
	content, _ := yaml.Marshal(node)
	content, err := sigsyaml.YAMLToJSON(content) // the decoder reads YAML 1.1 as JSON
	if err == nil {
		err = json.Unmarshal(content, reflect.New(of).Interface())
	}
	switch {
	case err == nil:
		return nil
	case of == reflect.TypeFor[metav1.Duration]():
		return fmt.Errorf("a duration such as 5m: %w", err)
	}
	return fmt.Errorf("%s: %w", of, err)
}

// unknownField names a key that is none of the fields, and the names similar to it.
func unknownField(key *yaml.Node, path string, fields map[string]reflect.Type) error {
	names := slices.Sorted(maps.Keys(fields))
	advice := "the fields are " + strings.Join(names, ", ")
	if similar := SimilarNames(key.Value, names); len(similar) > 0 {
		advice = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return fmt.Errorf("line %d: %s%s: there is no such field: %s", key.Line, path, key.Value, advice)
}

// FieldTypes returns the types of a struct's fields by their names in JSON. It includes fields of embedded structs without a name.
func FieldTypes(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "":
			fields[name] = field.Type
		case field.Anonymous:
			maps.Copy(fields, FieldTypes(field.Type))
		}
	}
	return fields
}

// checkVersion refuses versions before v1, with what else changed for v1. The decoder refuses those of plugins' arguments.
func checkVersion(root *yaml.Node) error {
	apiVersion := text(entry(root, "apiVersion"))
	if !strings.HasPrefix(apiVersion, kubeschedulerconfigv1.GroupName+"/v1beta") {
		return nil
	}
	return fmt.Errorf("apiVersion: %s is no longer supported: write %s everywhere, and remove healthzBindAddress and "+
		"metricsBindAddress (v1 serves both over HTTPS at --secure-port). Compared with v1beta1 and v1beta2, default weights differ "+
		"in v1: InterPodAffinity has 2 (1 before), NodeAffinity 2 (1) and TaintToleration 3 (1)",
		apiVersion, kubeschedulerconfigv1.SchemeGroupVersion)
}
