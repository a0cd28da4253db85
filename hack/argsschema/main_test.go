package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestWrite_ChartIsUpToDate(t *testing.T) {
	chart, dir := "../../manifests/chart", t.TempDir()
	written := map[string]string{"values.schema.json": "", "files/plugins.json": ""}
	for name := range written {
		content := check.Value(os.ReadFile(filepath.Join(chart, name)))(t)
		written[name] = string(content)
	}
	values, plugins := filepath.Join(dir, "values"), filepath.Join(dir, "plugins")
	check.OK(t, os.WriteFile(values, []byte(written["values.schema.json"]), 0o600))
	check.OK(t, write(values, plugins))
	for file, name := range map[string]string{values: "values.schema.json", plugins: "files/plugins.json"} {
		want := check.Value(os.ReadFile(file))(t)
		check.Equal(t, "run make generate: manifests/chart/"+name, string(want), written[name])
	}
}

func TestWrite_KeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	values := filepath.Join(dir, "values")
	const rest = "{\n  \"type\": \"object\","
	check.OK(t, os.WriteFile(values, []byte(rest+"\n  \"definitions\": {\"Old\": {}}\n}\n"), 0o600))
	check.OK(t, write(values, filepath.Join(dir, "args")))
	content := check.Value(os.ReadFile(values))(t)
	if !strings.HasPrefix(string(content), rest+"\n  \"definitions\": {\n") || strings.Contains(string(content), "Old") {
		t.Errorf("write() made %.200s", content)
	}
	check.OK(t, os.WriteFile(values, []byte(rest), 0o600))
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

// The patterns refuse "Gi" and ".", which quantity.Bounded reads as 0.
func TestSchemaOf_PatternsAcceptWhatParses(t *testing.T) {
	for _, tt := range []struct {
		of     reflect.Type
		parse  func(string) error
		values []string
	}{
		{
			reflect.TypeFor[metav1.Duration](), func(s string) error { _, err := time.ParseDuration(s); return err },
			[]string{
				"5m", "1h30m", "1.5h", ".5s", "5.s", "0", "-5m", "+5m", "-0", "10ms", "3us", "3µs", "3μs", "2ns", "1m1m", "0s",
				"", "5 minutes", "5 m", "5", "m", "1d", "5m ", "1h30", "--5m", ".s", "1..5s", "5M", "0m0", "00",
			},
		},
		{
			reflect.TypeFor[resource.Quantity](), func(s string) error {
				return new(quantity.Bounded).UnmarshalJSON([]byte(strconv.Quote(s)))
			},
			[]string{
				"1", "500m", "1Gi", "1.5Gi", "2k", "100u", "3n", "1E", "1Ei", "1e3", "1E3", "1e-3", "12E+2", "1e-999", "-1", "+1", ".5", "5.", "0",
				"", "1 core", "1 Gi", "1K", "1ki", "1GB", "1gi", "one", "1e", "1.5.5", "--1", "1,5", "1e-9999", "1e9999", strings.Repeat("7", 64), strings.Repeat("7", 65),
			},
		},
	} {
		schema := check.Value(schemaOf(tt.of, object{}))(t)
		pattern := regexp.MustCompile(schema["pattern"].(string))
		for _, value := range tt.values {
			longest, bounded := schema["maxLength"].(int)
			accepted := pattern.MatchString(value) && (!bounded || len(value) <= longest)
			if err := tt.parse(value); accepted != (err == nil) {
				t.Errorf("%s %q: the schema accepts it: %t; parsing it: %v", tt.of, value, accepted, err)
			}
		}
	}
}

func TestSchemaOf_Values(t *testing.T) {
	type args struct {
		Type     config.MetricProviderType `json:"type"`
		Requests corev1.ResourceList       `json:"requests"`
	}
	definitions := object{}
	if _, err := schemaOf(reflect.TypeFor[args](), definitions); err != nil {
		t.Fatal(err)
	}
	amount := object{"type": []string{"string", "number", "null"}, "pattern": quantityPattern, "maxLength": 64}
	want := object{
		"type":     object{"enum": []any{config.KubernetesMetricsServer, config.Prometheus, config.SignalFx, config.Datadog, "", nil}},
		"requests": object{"type": []string{"object", "null"}, "properties": object{"cpu": amount, "memory": amount}, "additionalProperties": false},
	}
	check.Equal[any](t, "", want, definitions["args"].(object)["properties"])
}
