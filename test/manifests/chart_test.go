package manifests_test

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

//go:embed testdata/everything-on.yaml
var everythingOn string

// row is a row of testdata/chart.yaml, which says what its fields mean.
type row struct {
	Name         string          `json:"name"`
	Release      string          `json:"release"`
	Namespace    string          `json:"namespace"`
	Values       json.RawMessage `json:"values"`
	EverythingOn bool            `json:"everythingOn"`
	Flags        []string        `json:"flags"`
	Want         map[string]any  `json:"want"`
	Notes        []string        `json:"notes"`
	NotesLack    []string        `json:"notesLack"`
	LastNote     string          `json:"lastNote"`
	Error        []string        `json:"error"`
}

func TestChart(t *testing.T) {
	var table struct{ Rows []row }
	check.OK(t, yaml.Unmarshal(read(t, "test", "manifests", "testdata", "chart.yaml"), &table))
	for _, row := range table.Rows {
		t.Run(row.Name, func(t *testing.T) {
			values, namespace := cmp.Or(string(row.Values), "{}"), cmp.Or(row.Namespace, "plimsoll-system")
			if row.EverythingOn {
				values = everythingOn
			}
			if row.Error == nil && strings.Contains(values, `"target":"OpenShift"`) {
				namespace = operatorNamespace
			}
			if row.Notes != nil || row.NotesLack != nil || row.LastNote != "" {
				notes := notesOf(t, namespace, values)
				check.Contains(t, notes, row.Notes...)
				check.Lacks(t, notes, row.NotesLack...)
				check.Equal(t, "the notes end", true, strings.HasSuffix(strings.TrimSpace(notes), "\n"+row.LastNote) || row.LastNote == "")
				return
			}
			stream, err := helm(t).Template(t.Context(), cmp.Or(row.Release, "plimsoll"), namespace, values, row.Flags...)
			if row.Error != nil {
				check.Error(t, err, row.Error...)
				check.Lacks(t, err.Error(), "s3cret")
				return
			}
			check.OK(t, err)
			if !strings.Contains(values, "StaticPod") { // whose files are no objects
				check.OK(t, validate(stream))
				if row.Flags == nil {
					check.OK(t, helm(t).Lint(t.Context(), values))
				}
			}
			rendered := objects(t, stream)
			checkIdentities(t, rendered)
			checkPods(t, rendered)
			for of, want := range row.Want {
				checkPart(t, of, want, rendered)
			}
		})
	}
	check.Equal(t, "there are many rows", true, len(table.Rows) > 100)
}

func checkIdentities(t *testing.T, rendered objectList) {
	t.Helper()
	identities := sets.New[string]()
	for _, o := range rendered {
		identity := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if identities.Has(identity) {
			t.Errorf("%s is rendered twice", identity)
		}
		identities.Insert(identity)
	}
}

// checkPods expects that Pod Security's level restricted admits the pods, and that they cannot write to their root file systems.
func checkPods(t *testing.T, rendered objectList) {
	t.Helper()
	evaluator := check.Value(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, d := range find[appsv1.Deployment](t, rendered, "Deployment") {
		for _, result := range evaluator.EvaluatePod(level, &d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec) {
			if !result.Allowed && !d.Spec.Template.Spec.HostNetwork { // which only the level privileged admits
				t.Errorf("Pod Security restricted refuses %s: %s: %s", d.Name, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			if readOnly := c.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Errorf("%s may write to its root file system", d.Name)
			}
		}
	}
}

// checkPart compares the objects of a kind, or of a kind and name, with what a row wants of them.
func checkPart(t *testing.T, of string, want any, rendered objectList) {
	t.Helper()
	found := 0
	for _, o := range rendered {
		if of != o.GetKind() && of != o.GetKind()+" "+o.GetName() {
			continue
		}
		if found++; want != nil {
			for _, problem := range differences(o.GetKind()+" "+o.GetName(), want, fieldsOf(o)) {
				t.Error(problem)
			}
		}
	}
	if (found > 0) != (want != nil) {
		t.Errorf("there are %d of %s, want some: %t", found, of, want != nil)
	}
}

// fieldsOf returns the fields of an object, with its pod and the pod's first container.
func fieldsOf(o *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(o.Object)
	pod, found, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	if o.GetKind() == "Pod" {
		pod, found, _ = unstructured.NestedMap(o.Object, "spec")
	}
	if containers, ok := pod["containers"].([]any); found && ok {
		fields["pod"], fields["container"] = pod, containers[0]
	}
	return fields
}

// differences returns where got, at a path, lacks what is expected of it. See testdata/chart.yaml.
func differences(path string, want, got any) (all []string) {
	switch want := want.(type) {
	case map[string]any:
		if text, ok := got.(string); ok {
			var fields map[string]any
			_ = yaml.Unmarshal([]byte(text), &fields) // without fields, it differs
			got = fields
		}
		fields, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
		}
		for name, value := range want {
			all = append(all, differences(path+"."+name, value, fields[name])...)
		}
		return all
	case []any:
		list, _ := got.([]any)
		if more := len(want) - 1; want[more] == "..." {
			for _, element := range want[:more] {
				if !slices.ContainsFunc(list, func(got any) bool { return differences("", element, got) == nil }) {
					all = append(all, fmt.Sprintf("%s has no %v: %v", path, element, got))
				}
			}
			return all
		}
		if len(list) != len(want) {
			return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
		}
		for i := range want {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), want[i], list[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(want, got) {
		return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
	}
	return nil
}

func TestDifferences(t *testing.T) {
	got := map[string]any{"a": []any{1.0, "x"}, "text": "b: 2"}
	for want, differs := range map[string]bool{
		"a: [1, x]": false, "a: [x, ...]": false, "{text: {b: 2}, none: null}": false, "{}": false,
		"a: [1]": true, "a: [x, 1]": true, "a: [y, ...]": true, "text: {b: 3}": true, "text: null": true, "none: {}": true, "a: {b: 1}": true,
	} {
		var part any
		check.OK(t, yaml.Unmarshal([]byte(want), &part))
		check.Equal(t, want, differs, differences("", part, got) != nil)
	}
}

// TestChart_AcceptsOtherPlugins expects that no plugin of others is taken for a misspelled one.
func TestChart_AcceptsOtherPlugins(t *testing.T) {
	var known struct {
		OtherPlugins []string `json:"otherPlugins"`
	}
	check.OK(t, json.Unmarshal(read(t, "manifests", "chart", "files", "plugins.json"), &known))
	stock := sets.List(sets.KeySet(plugins.NewInTreeRegistry()))
	if len(stock) < 15 || len(known.OtherPlugins) == 0 {
		t.Fatalf("%d stock plugins, %d others", len(stock), len(known.OtherPlugins))
	}
	var values strings.Builder
	values.WriteString("config:\n  profiles:\n  - schedulerName: a\n    plugins:\n      multiPoint:\n        enabled:\n")
	for _, name := range append(stock, "Pack", "Load") {
		values.WriteString("        - name: " + name + "\n")
	}
	values.WriteString("    pluginConfig:\n")
	for _, name := range slices.Concat(stock, known.OtherPlugins) {
		values.WriteString("    - name: " + name + "\n")
	}
	template(t, values.String())
}

// TestChart_MissingValues renders without the values that an older chart did not have, as helm upgrade --reuse-values does. It
// expects the same as with defaults.
func TestChart_MissingValues(t *testing.T) {
	const missing = `
image: {pullSecrets: []}
recordingRules: null
applicationKeySecret: null
httpConfigSecret: null
nameOverride: null
commonLabels: null
commonAnnotations: null
imagePullSecrets: null
existingConfigMap: null
servingCertificate: null
nodePowerModelConfigMap: null
extraEnv: null
extraVolumes: null
extraVolumeMounts: null
port: null
loadPort: null
hostNetwork: null
dnsPolicy: null
terminationGracePeriodSeconds: null
nodeSelector: null
priorityQuota: null
flowSchemas: null
admissionPolicy: {exclude: null}
podDisruptionBudget: {minAvailable: null}
serviceMonitor: {insecureSkipVerify: null}
openshift: {logLevel: null, topology: null}
`
	for values, older := range map[string]string{
		"loadWatcher: {enabled: true}":                                                  "loadWatcher: {enabled: true, applicationKeySecret: null, clients: null, selector: null}",
		"shadow: {enabled: true, resources: null}":                                      "shadow: {enabled: true, schedulerName: null, profile: null, cpuShare: null, clients: null, resources: null}",
		"rebalancer: {enabled: true, resources: null, config: null}":                    "rebalancer: {enabled: true, paused: null, config: null, clients: null, resources: null}",
		"target: OpenShift":                                                             "target: OpenShift",
		"{target: StaticPod, config: {profiles: [{schedulerName: default-scheduler}]}}": "target: StaticPod\nconfig: {profiles: [{schedulerName: default-scheduler}]}",
	} {
		check.Equal(t, "with "+values+", want as with defaults", string(template(t, values)), string(template(t, older+missing)))
	}
}

func notesOf(t *testing.T, namespace, values string) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "none")
	output := check.Value(helm(t).Release(t.Context(), kubeconfig, namespace, values, "install", "plimsoll", "--dry-run=client"))(t)
	_, notes, found := strings.Cut(string(output), "NOTES:")
	if !found {
		t.Fatalf("there are no notes:\n%s", output)
	}
	return notes
}

// TestChart_NotesShowSelector expects lines to copy where a dialect of Prometheus is read without a selector. The lines are in the
// documentation's table.
func TestChart_NotesShowSelector(t *testing.T) {
	const kubePrometheus, openshift = `{namespace="monitoring", job="node-exporter"}`, `{namespace="openshift-monitoring", job="node-exporter"}`
	documented := string(read(t, "docs", "configure.md"))
	plugin := func(name, args string) string {
		return "config: {profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: " + name + "}]}}, pluginConfig: [{name: " +
			name + ", args: " + args + "}]}]}"
	}
	line := regexp.MustCompile(`(?m)^    selector: '(.*)'$`)
	for _, tt := range []struct {
		name, values string
		want         []string
	}{
		{"metrics-server", "", nil},
		{"Prometheus", plugin("LoadThreshold", "{metricProvider: {type: Prometheus, address: http://a}}"), []string{kubePrometheus, openshift}},
		{"OpenShift", "target: OpenShift\n" + plugin("LoadThreshold", "{metricProvider: {type: Prometheus, address: http://a}}"), []string{openshift}},
		{"a selector", plugin("LoadThreshold", `{metricProvider: {type: Prometheus, address: http://a, selector: '{job="b"}'}}`), nil},
		{"one custom query", plugin("LoadThreshold", "{metricProvider: {type: Prometheus, address: http://a, queries: {cpu: b}}}"), []string{kubePrometheus, openshift}},
		{"custom queries", plugin("LoadThreshold", "{metricProvider: {type: Prometheus, address: http://a, queries: {cpu: b, memory: c}}}"), nil},
		{"a load-watcher", plugin("LoadThreshold", "{watcherAddress: http://b, metricProvider: {type: Prometheus, address: http://a}}"), nil},
		{"queries of nodes", plugin("NodeMetrics", "{metricProvider: {type: Prometheus, address: http://a}, metrics: [{name: a, query: b}]}"), nil},
	} {
		namespace := "plimsoll-system"
		if strings.HasPrefix(tt.values, "target: OpenShift") {
			namespace = operatorNamespace
		}
		var got []string
		for _, match := range line.FindAllStringSubmatch(notesOf(t, namespace, tt.values), -1) {
			got = append(got, match[1])
			if !strings.Contains(documented, "| `"+match[1]+"` |") {
				t.Errorf("%s: docs/configure.md has no %s", tt.name, match[1])
			}
		}
		check.Equal(t, "selectors in the notes with "+tt.name, tt.want, got)
	}
	check.Contains(t, rendered(t, read(t, "manifests", "openshift", "configmap.yaml")), "selector: '"+openshift+"'\n")
}

// TestChart_KeepsArguments expects the arguments of the plugins in the ConfigMap as they were given.
func TestChart_KeepsArguments(t *testing.T) {
	const pluginConfig = `
    - name: NodeResourcesFit
      args: {targetUtilisation: 1, scoringStrategy: {type: {}}}
    - name: Coscheduling
      args: {metricProvider: {addrss: a}}
    - name: TargetLoadPacking
      args:
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: TargetLoadPackingArgs
        window: null
        defaultRequests: {cpu: 2, memory: 1Gi}
        defaultRequestsMultiplier: "2"
        metricProvider:
          type: Prometheus
          address: http://prometheus
          insecureSkipVerify: true
          nodeLabels: [node]
          timeout: 5s
          queries: {cpu: a}
          selector: '{namespace="monitoring", job=~"node-exporter|\"a\""}'
    - name: Peaks
      args:
        nodePowerModel: {n1.example.com: {k0: 1, k1: 2.5, k2: -1}}
        nodePowerModels: [{nodeSelector: {example.com/kind: a}, k0: 1, k1: 2, k2: 3}]
    - name: LowRiskOverCommitment
      args: {riskLimitWeights: {cpu: 0.25, memory: 1}}
    - name: LoadThreshold
      args:
        thresholds: {cpu: 80}
        exempt: {podSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}
    - name: NodeMetrics
      args: {metrics: [{name: a, query: b, prefer: Lower, weight: 2, bounds: {best: 1, worst: 2.5}, reject: "> 5"}]}
    - name: PredictedPeak
`
	var config struct {
		Profiles []struct {
			PluginConfig any `json:"pluginConfig"`
		} `json:"profiles"`
	}
	check.OK(t, yaml.Unmarshal(
		[]byte(rendered(t, template(t, "config:\n  profiles:\n  - schedulerName: a\n    pluginConfig:"+pluginConfig))),
		&config,
	))
	var want any
	check.OK(t, yaml.Unmarshal([]byte(pluginConfig), &want))
	check.Equal(t, "pluginConfig", want, config.Profiles[0].PluginConfig)
}

func TestManifests_MatchChart(t *testing.T) {
	helm(t)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "render.sh"), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("hack/render.sh: %v\n%s", err, out)
	}
	files := 0
	check.OK(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		want, err := os.ReadFile(filepath.Join(dir, name))
		got, readErr := os.ReadFile(filepath.Join(root, "manifests", name))
		check.Equal(t, "run make manifests: manifests/"+name, string(want), string(got))
		return errors.Join(err, readErr)
	}))
	// Three for OpenShift, three for kubeadm, and one each for the second scheduler and the stopgap.
	check.Equal(t, "hack/render.sh wrote files", 8, files)
}

func TestManifests_AreValid(t *testing.T) {
	for _, name := range []string{
		"second-scheduler.yaml", "openshift/configmap.yaml", "openshift/rbac.yaml", "openshift/secondaryscheduler.yaml",
		"default-scheduler/rbac.yaml", "stopgap/stopgap.yaml",
	} {
		if err := validate(read(t, "manifests", name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChartReadme_ExampleRenders(t *testing.T) {
	_, example, _ := strings.Cut(string(read(t, "manifests", "chart", "README.md")), "```yaml\n")
	example, _, found := strings.Cut(example, "```")
	if !found {
		t.Fatal("the chart's README has no example")
	}
	for _, plugin := range load(t, withoutFiles(rendered(t, template(t, example)))).Profiles[0].PluginConfig {
		if plugin.Name == "LoadThreshold" {
			return
		}
	}
	t.Error("the profile has no LoadThreshold")
}

func withoutFiles(config string) string {
	return regexp.MustCompile(`(?m)^ *(tokenFile|applicationKeyFile|caFile): .*\n`).ReplaceAllString(config, "")
}

func TestChart_ConfigurationChangesChecksum(t *testing.T) {
	annotation := func(values string) string {
		return one[appsv1.Deployment](t, render(t, values), "Deployment").Spec.Template.Annotations["checksum/config"]
	}
	before, same, after := annotation(""), annotation("logLevel: 2"), annotation("config: {parallelism: 8}")
	if before == "" || before != same || before == after {
		t.Errorf("checksums are %q, %q of the same configuration, %q of another", before, same, after)
	}
}

// TestChart_NamesAreStrings uses names that YAML without quotes reads as a number, a boolean or null.
func TestChart_NamesAreStrings(t *testing.T) {
	for _, target := range []string{"Deployment", "OpenShift"} {
		for _, name := range []string{"123", "true", "null", "1e3"} {
			values := strings.NewReplacer("TARGET", target, "NAME", name).Replace(`
target: TARGET
fullnameOverride: plimsoll
command: "NAME"
priorityClassName: "NAME"
serviceAccount: {name: "NAME"}
openshift: {serviceAccountName: "NAME"}
config:
  leaderElection: {resourceName: "NAME", resourceNamespace: "NAME"}
  profiles: [{schedulerName: "NAME"}]
tokenSecret: {name: "NAME", key: "NAME"}
applicationKeySecret: {name: "NAME", key: "NAME"}
httpConfigSecret: {name: "NAME"}
caConfigMap: {name: "NAME", key: "NAME"}
nodePowerModelConfigMap: {name: "NAME", key: "NAME"}
extraEnv: [{name: A, value: "NAME"}]
admissionPolicy: {enabled: true}
requestPolicy: {enabled: true}
`)
			if target == "Deployment" {
				values += `
loadWatcher: {enabled: true, tokenSecret: {name: "` + name + `", key: "` + name + `"}, applicationKeySecret: {name: "` + name + `", key: "` + name + `"}, httpConfigSecret: {name: "` + name + `", key: "` + name + `"}, caConfigMap: {name: "` + name + `", key: "` + name + `"}}
`
			}
			namespace := name
			if target == "OpenShift" {
				namespace = operatorNamespace
			}
			stream := check.Value(helm(t).Template(t.Context(), name, namespace, values))(t)
			if err := validate(stream); err != nil {
				t.Errorf("%s with names %s: %v", target, name, err)
			}
			if target == "Deployment" {
				deployments := find[appsv1.Deployment](t, objects(t, stream), "Deployment")
				for _, d := range deployments {
					if d.Namespace != name || d.Labels["app.kubernetes.io/instance"] != name || d.Spec.Template.Spec.PriorityClassName != name {
						t.Errorf("%s: namespace %q, labels %v, priority %q, want %q", d.Name, d.Namespace, d.Labels,
							d.Spec.Template.Spec.PriorityClassName, name)
					}
				}
				check.Equal(t, "Deployments", 2, len(deployments))
			}
		}
	}
	for _, name := range []string{"true", "null"} {
		d := one[appsv1.Deployment](t, render(t, "fullnameOverride: \""+name+"\""), "Deployment")
		check.Equal(t, "names of the Deployment and its ConfigMap", [2]string{name, name},
			[2]string{d.Name, d.Spec.Template.Spec.Volumes[0].ConfigMap.Name})
	}
}

func TestChart_SelectorsMatchPods(t *testing.T) {
	rendered := render(t, everythingOn)
	for _, d := range find[appsv1.Deployment](t, rendered, "Deployment") {
		component := d.Spec.Template.Labels["app.kubernetes.io/component"]
		selectors := map[string]map[string]string{"Deployment": d.Spec.Selector.MatchLabels}
		for _, s := range find[corev1.Service](t, rendered, "Service") {
			if s.Name == d.Name {
				selectors["Service"] = s.Spec.Selector
			}
		}
		for _, p := range find[networkingv1.NetworkPolicy](t, rendered, "NetworkPolicy") {
			if p.Name == d.Name {
				selectors["NetworkPolicy"] = p.Spec.PodSelector.MatchLabels
			}
		}
		for _, b := range find[policyv1.PodDisruptionBudget](t, rendered, "PodDisruptionBudget") {
			if b.Name == d.Name {
				selectors["PodDisruptionBudget"] = b.Spec.Selector.MatchLabels
			}
		}
		if component == "scheduler" {
			if selectors["PodDisruptionBudget"] == nil {
				t.Error("the scheduler has no PodDisruptionBudget")
			}
			selectors["topologySpreadConstraints"] = d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels
		}
		want := map[string]string{
			"app.kubernetes.io/name": "load-scheduler", "app.kubernetes.io/instance": "plimsoll", "app.kubernetes.io/component": component,
		}
		for of, got := range selectors {
			check.Equal(t, "selector of the "+of+" of "+d.Name, want, got)
			for key, value := range got {
				if d.Spec.Template.Labels[key] != value {
					t.Errorf("pods of %s have no label %s: %s", d.Name, key, value)
				}
			}
		}
		if len(selectors) < 3 {
			t.Errorf("selectors of %s: %v", d.Name, selectors)
		}
	}
}

func TestChartSchema_HasAllConfigurationFields(t *testing.T) {
	var schema struct {
		Properties struct {
			Config struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"config"`
		} `json:"properties"`
	}
	check.OK(t, json.Unmarshal(read(t, "manifests", "chart", "values.schema.json"), &schema))
	want := sets.New[string]()
	var add func(reflect.Type)
	add = func(of reflect.Type) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if of.Field(i).Anonymous && name == "" {
				add(of.Field(i).Type)
			} else {
				want.Insert(name)
			}
		}
	}
	add(reflect.TypeFor[kubeschedulerv1.KubeSchedulerConfiguration]())
	check.Equal(t, "fields of config", sets.List(want), sets.List(sets.KeySet(schema.Properties.Config.Properties)))
}

// TestChart_CommonMetadata expects the common labels and annotations on all objects and pods. Rows expect the objects' own to win.
func TestChart_CommonMetadata(t *testing.T) {
	const openshift = "{target: OpenShift, commonLabels: {owner: operations}, commonAnnotations: {contact: operations}, " +
		"admissionPolicy: {enabled: true}}"
	common := map[string]any{
		"labels": map[string]any{"owner": "operations"}, "annotations": map[string]any{"contact": "operations"},
	}
	for _, values := range []string{everythingOn, openshift} {
		for _, o := range render(t, values) {
			want := map[string]any{"metadata": common}
			if o.GetKind() == "Deployment" {
				want["spec"] = map[string]any{"template": map[string]any{"metadata": common}}
			}
			for _, problem := range differences(o.GetKind()+" "+o.GetName(), want, o.Object) {
				t.Error(problem)
			}
		}
	}
}
