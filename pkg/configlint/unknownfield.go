package configlint

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// unknownFields returns a sentence for each field that the decoder does not know: its line, its path, and the similar names.
func unknownFields(root *yaml.Node) []string {
	known := kubeschedulerscheme.Scheme.KnownTypes(kubeschedulerconfigv1.SchemeGroupVersion)
	var u fieldCheck
	u.check(root, known["KubeSchedulerConfiguration"], "")
	for i, profile := range items(entry(root, "profiles")) {
		for j, plugin := range items(entry(profile, "pluginConfig")) {
			if args, ok := known[text(entry(plugin, "name"))+"Args"]; ok {
				u.check(entry(plugin, "args"), args, fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j))
			}
		}
	}
	return u.found
}

type fieldCheck struct{ found []string }

// check adds the fields of the node that values of the type do not have. The path is empty, or ends with a dot.
func (u *fieldCheck) check(node *yaml.Node, of reflect.Type, path string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	switch of.Kind() {
	case reflect.Slice:
		for i, item := range items(node) {
			u.check(item, of.Elem(), fmt.Sprintf("%s[%d].", strings.TrimSuffix(path, "."), i))
		}
	case reflect.Map:
		for key, value := range pairs(node) {
			u.check(value, of.Elem(), path+key.Value+".")
		}
	case reflect.Struct:
		fields := fieldTypes(of)
		for key, value := range pairs(node) {
			field, ok := fields[key.Value]
			switch {
			case ok:
				u.check(value, field, path+key.Value+".")
			case key.Tag == "!!merge":
				u.check(value, of, path)
			default:
				names := slices.Sorted(maps.Keys(fields))
				advice := "the fields are " + strings.Join(names, ", ")
				if similar := SimilarNames(key.Value, names); len(similar) > 0 {
					advice = "did you mean " + strings.Join(similar, " or ") + "?"
				}
				u.found = append(u.found, fmt.Sprintf("line %d: %s%s: there is no such field: %s", key.Line, path, key.Value, advice))
			}
		}
	}
}

// fieldTypes returns the types of a struct's fields by their names in JSON.
func fieldTypes(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(of) {
		// An embedded struct has no name; its fields are visible too.
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			fields[name] = field.Type
		}
	}
	return fields
}
