package configlint

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
)

// withFields adds a sentence for each unknown field to the decoder's error: its line, its path, and similar names.
// Invalid values replace the error, which names neither line nor path.
func withFields(err error, root *yaml.Node) error {
	fields := checkFields(root)
	switch {
	case len(fields.invalid) > 0:
		return fields.err()
	case len(fields.unknown) > 0:
		for _, unknown := range fields.unknown {
			err = fmt.Errorf("%w; %w", err, unknown)
		}
	}
	return err
}

// CheckFields returns an error for each unknown field of a document, and for each value of another type. Content that is no YAML
// has none.
func CheckFields(content []byte, of reflect.Type) error {
	var fields fieldCheck
	fields.check(parse(content), of, "")
	return fields.err()
}

// fieldCheck has each field that is unknown, or whose value is invalid.
type fieldCheck struct{ unknown, invalid []error }

func (u *fieldCheck) err() error { return utilerrors.NewAggregate(slices.Concat(u.invalid, u.unknown)) }

// checkFields checks the fields of a configuration, and of the arguments of its plugins.
func checkFields(root *yaml.Node) (u fieldCheck) {
	known := kubeschedulerscheme.Scheme.KnownTypes(kubeschedulerconfigv1.SchemeGroupVersion)
	u.check(root, known["KubeSchedulerConfiguration"], "")
	for i, profile := range items(entry(root, "profiles")) {
		for j, plugin := range items(entry(profile, "pluginConfig")) {
			if args, ok := known[text(entry(plugin, "name"))+"Args"]; ok {
				u.check(entry(plugin, "args"), args, fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j))
			}
		}
	}
	return u
}

// check adds the node's fields that the type lacks, and values of another type. The path is empty, or ends with a dot.
func (u *fieldCheck) check(node *yaml.Node, of reflect.Type, path string) {
	node = resolve(node)
	if node == nil ||
		node.Tag == "!!null" && slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct}, of.Kind()) {
		return
	}
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	isScalar := of == reflect.TypeFor[metav1.Duration]() || of == reflect.TypeFor[resource.Quantity]()
	// A map that decodes itself, such as a ResourceList, still has keys and values.
	if !isScalar && of.Kind() != reflect.Map && reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	if !decodes(node, of) {
		u.refuse(node, of, path)
	} else if !isScalar {
		u.checkElements(node, of, path)
	}
}

// refuse adds an error for the value. The error omits strings, because a string may be a secret.
func (u *fieldCheck) refuse(node *yaml.Node, of reflect.Type, path string) {
	value := ""
	if node.Kind == yaml.ScalarNode && of.Kind() != reflect.String {
		value = fmt.Sprintf("%q: ", node.Value)
	}
	at := fmt.Sprintf("line %d: ", node.Line)
	if path != "" {
		at += strings.TrimSuffix(path, ".") + ": "
	}
	u.invalid = append(u.invalid, fmt.Errorf("%sInvalid value: %s%s", at, value, allowed(of)))
}

// checkElements checks the elements of a list, map or struct.
func (u *fieldCheck) checkElements(node *yaml.Node, of reflect.Type, path string) {
	switch of.Kind() {
	case reflect.Slice:
		for i, item := range items(node) {
			u.check(item, of.Elem(), fmt.Sprintf("%s[%d].", strings.TrimSuffix(path, "."), i))
		}
	case reflect.Map:
		for key, value := range pairs(node) {
			if key.Tag != "!!merge" { // the anchor is checked where it is defined
				u.check(value, of.Elem(), path+key.Value+".")
			}
		}
	case reflect.Struct:
		u.checkFields(node, of, path)
	}
}

func (u *fieldCheck) checkFields(node *yaml.Node, of reflect.Type, path string) {
	fields := FieldTypes(of)
	for key, value := range pairs(node) {
		field, ok := fields[key.Value]
		switch {
		case ok:
			u.check(value, field, path+key.Value+".")
		case key.Tag == "!!merge":
			if value.Kind == yaml.MappingNode {
				u.check(value, of, path)
			}
		default:
			u.unknown = append(u.unknown, unknownField(key, path, fields))
		}
	}
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

// decodes reports whether the type decodes from the node. Of lists and mappings, only the kind counts.
func decodes(node *yaml.Node, of reflect.Type) bool {
	switch {
	case of == reflect.TypeFor[metav1.Duration]():
	case of.Kind() == reflect.Slice:
		return node.Kind == yaml.SequenceNode
	case of.Kind() == reflect.Map, of.Kind() == reflect.Struct && of != reflect.TypeFor[resource.Quantity]():
		return node.Kind == yaml.MappingNode
	}
	// The decoder reads YAML 1.1 as JSON.
	content, err := yaml.Marshal(node)
	if err == nil {
		content, err = sigsyaml.YAMLToJSON(content)
	}
	if of == reflect.TypeFor[resource.Quantity]() {
		of = reflect.TypeFor[quantity.Bounded]()
	}
	return err != nil || json.Unmarshal(content, reflect.New(of).Interface()) == nil
}

// allowed describes the values that the type decodes from.
func allowed(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[metav1.Duration]():
		return "must be a duration: write numbers with units and without blanks, such as 30s, 5m or 1h30m"
	case reflect.TypeFor[resource.Quantity]():
		return "must be a quantity: write a number with or without a suffix, such as 2, 500m or 1Gi"
	}
	switch of.Kind() {
	case reflect.Bool:
		return "must be true or false, without quotes"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "must be a whole number, without quotes"
	case reflect.Float64:
		return "must be a number, without quotes"
	case reflect.String:
		return "must be a string: write it in quotes"
	case reflect.Slice:
		return "must be a list"
	}
	return "must be a mapping of names to values"
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

// checkVersion returns an error if root has v1beta1, v1beta2 or v1beta3 anywhere. The error lists the lines to change, and what
// else changed for v1. Names that v1 does not have are reported with their lines once the versions are v1.
func checkVersion(root *yaml.Node) error {
	var lines []string
	old := ""
	check := func(apiVersion *yaml.Node, path string) {
		group, version, _ := strings.Cut(text(apiVersion), "/")
		if group == kubeschedulerconfigv1.GroupName && slices.Contains([]string{"v1beta1", "v1beta2", "v1beta3"}, version) {
			old = apiVersion.Value
			lines = append(lines, fmt.Sprintf("line %d: %s: %s", apiVersion.Line, path, version))
		}
	}
	check(entry(root, "apiVersion"), "apiVersion")
	for i, profile := range items(entry(root, "profiles")) {
		for j, plugin := range items(entry(profile, "pluginConfig")) {
			check(entry(entry(plugin, "args"), "apiVersion"), fmt.Sprintf("profiles[%d].pluginConfig[%d].args.apiVersion", i, j))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%s is no longer supported; write %s in\n  %s\nand remove healthzBindAddress and metricsBindAddress "+
		"(v1 serves both over HTTPS at --secure-port). Compared with v1beta1 and v1beta2, default weights differ in v1: "+
		"InterPodAffinity has 2 (1 before), NodeAffinity 2 (1) and TaintToleration 3 (1). Then check again: "+
		"plugins and fields that v1 does not have are reported next",
		old, kubeschedulerconfigv1.SchemeGroupVersion, strings.Join(lines, "\n  "))
}
