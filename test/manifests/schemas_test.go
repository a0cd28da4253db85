package manifests_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

// schemas is a folder of JSON schemas for kubeconform, of the Kubernetes version in go.mod and of testdata's CRDs. They refuse
// unknown fields.
type schemas struct{ dir string }

func newSchemas(t *testing.T) schemas {
	t.Helper()
	s := schemas{t.TempDir()}
	s.addKubernetes(t)
	crds, err := filepath.Glob("testdata/crds/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("CRDs: %v, %v", crds, err)
	}
	for _, file := range crds {
		s.addCRD(t, file)
	}
	return s
}

func (s schemas) addKubernetes(t *testing.T) {
	t.Helper()
	module := check.Value(exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output())(t)
	data := check.Value(os.ReadFile(filepath.Join(string(bytes.TrimSpace(module)), "api", "openapi-spec", "swagger.json")))(t)
	var swagger struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	check.OK(t, json.Unmarshal(data, &swagger))
	definitions := swagger.Definitions
	definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = map[string]any{"type": []string{"string", "number"}}
	definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = map[string]any{"type": []string{"string", "integer"}}
	for name, definition := range definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 { // such as DeleteOptions, which belongs to all groups
			continue
		}
		reached := map[string]any{}
		var reach func(any)
		reach = func(value any) {
			switch v := value.(type) {
			case map[string]any:
				if ref, ok := v["$ref"].(string); ok {
					name := strings.TrimPrefix(ref, "#/definitions/")
					if reached[name] == nil {
						reached[name] = strict(definitions[name])
						reach(definitions[name])
					}
				}
				for _, child := range v {
					reach(child)
				}
			case []any:
				for _, child := range v {
					reach(child)
				}
			}
		}
		reach(definition)
		schema := strict(definition)
		schema["definitions"] = reached
		kind := kinds[0].(map[string]any)
		s.write(t, kind["group"].(string), kind["version"].(string), kind["kind"].(string), schema)
		if reached[name] != nil {
			t.Fatalf("%s refers to itself", name)
		}
	}
}

func (s schemas) addCRD(t *testing.T, file string) {
	t.Helper()
	data := check.Value(os.ReadFile(file))(t)
	for _, crd := range objects(t, data) {
		spec := crd.Object["spec"].(map[string]any)
		kind := spec["names"].(map[string]any)["kind"].(string)
		for _, v := range spec["versions"].([]any) {
			version := v.(map[string]any)
			schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
			schema = strict(schema)
			// The metadata of objects has no schema in a CRD.
			schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
			s.write(t, spec["group"].(string), version["name"].(string), kind, schema)
		}
	}
}

func (s schemas) write(t *testing.T, group, version, kind string, schema map[string]any) {
	t.Helper()
	data := check.Value(json.Marshal(schema))(t)
	// kubeconform names a group by its first label.
	if group, _, _ = strings.Cut(group, "."); group != "" {
		version = group + "-" + version
	}
	name := strings.ToLower(fmt.Sprintf("%s-%s.json", kind, version))
	check.OK(t, os.WriteFile(filepath.Join(s.dir, name), data, 0o644))
}

// strict returns a copy of a schema that refuses properties that it does not name.
func strict(schema map[string]any) map[string]any {
	result := make(map[string]any, len(schema)+1)
	for key, value := range schema {
		switch v := value.(type) {
		case map[string]any:
			if key == "properties" {
				properties := make(map[string]any, len(v))
				for name, property := range v {
					properties[name] = strict(property.(map[string]any))
				}
				result[key] = properties
			} else {
				result[key] = strict(v)
			}
		default:
			if key != "description" && key != "format" {
				result[key] = v
			}
		}
	}
	if _, ok := schema["properties"]; ok {
		result["additionalProperties"] = false
	}
	if isEither, _ := schema["x-kubernetes-int-or-string"].(bool); isEither {
		result["type"] = []string{"string", "integer"}
	}
	return result
}

func (s schemas) check(t *testing.T, stream []byte) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kubeconform"), "-strict", "-summary",
		"-schema-location", s.dir+"/{{ .ResourceKind }}{{ .KindSuffix }}.json")
	cmd.Stdin = bytes.NewReader(stream)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubeconform: %w\n%s", err, out)
	}
	count := fmt.Sprintf("%d resource", len(objects(t, stream)))
	if !strings.Contains(string(out), count) {
		return fmt.Errorf("kubeconform has not checked %ss:\n%s", count, out)
	}
	return nil
}

func TestSchemas_RefuseUnknown(t *testing.T) {
	s := newSchemas(t)
	tests := []struct{ name, manifest, want string }{
		{"an unknown field", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n", "port"},
		{
			"an unknown field of a CRD",
			"apiVersion: operator.openshift.io/v1\nkind: SecondaryScheduler\nmetadata: {name: a}\nspec: {image: a}\n", "image",
		},
		{
			"a value of another type",
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: two, selector: {}, template: {}}\n", "replicas",
		},
		{"an unknown kind", "apiVersion: v1\nkind: Server\nmetadata: {name: a}\n", "could not find schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := manifests.Objects([]byte(tt.manifest)); err != nil {
				t.Fatal(err)
			}
			check.Error(t, s.check(t, []byte(tt.manifest)), tt.want)
		})
	}
}
