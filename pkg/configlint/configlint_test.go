package configlint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// findingsOf returns the findings about a configuration, whose first two lines it adds, beside feature gates.
func findingsOf(t *testing.T, config string, args ...string) []finding.Finding {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("feature-gates", "", "")
	check.OK(t, flags.Parse(args))
	content := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + config
	options := plugins.LintOptions()
	options.Flags = flags
	_, findings, err := configlint.Check([]byte(content), options)
	check.OK(t, err)
	return findings
}

func TestCheck_UnknownPlugins(t *testing.T) {
	expect := func(code finding.Code, field string, line int, plugin string, similar ...string) finding.Finding {
		return finding.Finding{
			Code: code, Field: field, Line: line, Details: []any{"name", plugin}, Similar: similar,
			Fatal: code == finding.PluginEnabled,
		}
	}
	for _, tt := range []struct {
		name, config string
		want         []finding.Finding
	}{
		{"known names", `profiles:
- plugins:
    multiPoint: {disabled: [{name: NodeResourcesFit}]}
    score: {disabled: [{name: "*"}], enabled: [{name: TargetLoadPacking}]}
  pluginConfig: [{name: TargetLoadPacking}]
`, nil},
		// A letter is missing; one has moved; the end is missing; nothing is similar; a letter is missing.
		{"mistyped names", `profiles:
- schedulerName: one
- schedulerName: two
  plugins:
    score:
      disabled:
      - name: NodeResourceFit
      - name: nodeResourceFits
      - name: NodeResourcesBalanced
      - name: Coscheduling
  pluginConfig:
  - name: TargetLoadPaking
`, []finding.Finding{
			expect(finding.PluginDisabled, "profiles[1].plugins.score.disabled[0]", 9, "NodeResourceFit", "NodeResourcesFit"),
			expect(finding.PluginDisabled, "profiles[1].plugins.score.disabled[1]", 10, "nodeResourceFits", "NodeResourcesFit"),
			expect(finding.PluginDisabled, "profiles[1].plugins.score.disabled[2]", 11, "NodeResourcesBalanced", "NodeResourcesBalancedAllocation"),
			expect(finding.PluginDisabled, "profiles[1].plugins.score.disabled[3]", 12, "Coscheduling"),
			expect(finding.PluginArguments, "profiles[1].pluginConfig[0]", 14, "TargetLoadPaking", "TargetLoadPacking"),
		}},
		{"enabled plugins", `profiles:
- plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    score:
      enabled:
      - name: TargetLoadPaking
`, []finding.Finding{
			expect(finding.PluginEnabled, "profiles[0].plugins.multiPoint.enabled[0]", 5, "Coscheduling"),
			expect(finding.PluginEnabled, "profiles[0].plugins.score.enabled[0]", 8, "TargetLoadPaking", "TargetLoadPacking"),
		}},
		{"one list for two profiles", `profiles:
- schedulerName: one
  plugins: &both {score: {disabled: [{name: Coscheduling}]}}
- schedulerName: two
  plugins: *both
`, []finding.Finding{
			expect(finding.PluginDisabled, "profiles[0].plugins.score.disabled[0]", 5, "Coscheduling"),
			expect(finding.PluginDisabled, "profiles[1].plugins.score.disabled[0]", 5, "Coscheduling"),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "result", tt.want, findingsOf(t, tt.config))
		})
	}
}

func TestCheck_Queries(t *testing.T) {
	rejected := func(field string, line int, details ...any) finding.Finding {
		return finding.Finding{Code: finding.QueryInvalid, Field: field, Line: line, Details: details}
	}
	for _, tt := range []struct {
		name, config string
		want         []finding.Finding
	}{
		{"PromQL", `profiles:
- pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "http://a", queries: {cpu: "avg by (node) (rate(used[$window])) # $window"}}}
  - name: NodeMetrics
    args: {metricProvider: {type: Prometheus, address: "http://a"}, metrics: [{name: m, query: "rate(a[5m])", prefer: Lower}]}
`, nil},
		// The idle share falls with each sample that is missing. A quotient of rates does not.
		{"one minus a rate", `profiles:
- pluginConfig:
  - name: TargetLoadPacking
    args:
      metricProvider:
        type: Prometheus
        address: "http://a"
        queries:
          cpu: 1 - avg by (node) (rate(idle[$window]))
          memory: 1 - avg by (node) (rate(free[$window]) / rate(all[$window]))
`, []finding.Finding{{
			Code: finding.QueryOfAbsence, Field: "profiles[0].pluginConfig[0].args.metricProvider.queries.cpu", Line: 11,
			Details: []any{"query", "1 - avg by (node) (rate(idle[$window]))"},
			Advice: `divide used seconds by all seconds, such as sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[$window]))` +
				` / sum by (node) (rate(node_cpu_seconds_total[$window]))`,
		}}},
		// rate without a range is MetricsQL. The call begins in column 1, its argument in column 6.
		{"MetricsQL", `profiles:
- pluginConfig:
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://a"}
      metrics:
      - name: m
        prefer: Lower
        query: rate(a)
`, []finding.Finding{
			rejected("profiles[0].pluginConfig[0].args.metrics[0].query", 11, "query", "rate(a)", "queryLine", "1", "queryColumn", "6",
				"problem", `expected type range vector in call to function "rate", got instant vector`),
		}},
		// In the second line of the query, "by" is followed by "node" in column 12 instead of a parenthesis.
		{"a typo in the second line of a query", `profiles:
- schedulerName: one
- schedulerName: two
  pluginConfig:
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://a"}
      metrics:
      - {name: good, query: a, prefer: Lower}
      - name: bad
        query: |-
          sum(a)
            / sum by node (a)
        prefer: Lower
`, []finding.Finding{
			rejected("profiles[1].pluginConfig[0].args.metrics[1].query", 13, "query", "sum(a)\n  / sum by node (a)", "queryLine", "2", "queryColumn", "12",
				"problem", `unexpected identifier "node" in grouping opts, expected "("`),
		}},
		{"queries that are not PromQL", `profiles:
- pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Datadog, token: t, applicationKey: k, queries: {cpu: "avg:my.cpu{$filter} by {host}.rollup(avg, $interval)"}}}
  - name: LoadVariationRiskBalancing
    args: {metricProvider: {type: SignalFx, token: t, queries: {memory: 'sf_metric:"my.memory"'}}}
`, nil},
		// rate(a[$window]) has 16 characters and is followed by a blank.
		{"a typo behind $window", `profiles:
- pluginConfig:
  - name: LoadVariationRiskBalancing
    args:
      metricProvider:
        type: Prometheus
        address: http://a
        queries:
          memory: rate(a[$window]) b
`, []finding.Finding{
			rejected("profiles[0].pluginConfig[0].args.metricProvider.queries.memory", 11, "query", "rate(a[$window]) b", "queryLine", "1", "queryColumn", "18",
				"problem", `unexpected identifier "b"`),
		}},
		// Only metricProvider.queries have the variable.
		{"$window in a query of NodeMetrics", `profiles:
- pluginConfig:
  - name: NodeMetrics
    args: {metricProvider: {type: Prometheus, address: "http://a"}, metrics: [{name: m, query: "rate(a[$window])", prefer: Lower}]}
`, []finding.Finding{
			rejected("profiles[0].pluginConfig[0].args.metrics[0].query", 6, "query", "rate(a[$window])", "queryLine", "1", "queryColumn", "8",
				"problem", `unexpected character in duration expression: '$'`),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := slices.DeleteFunc(findingsOf(t, tt.config), func(f finding.Finding) bool { return f.Code == finding.ArgumentsUnused })
			if len(all) > 0 || len(tt.want) > 0 {
				check.Equal(t, "result", tt.want, all)
			}
		})
	}
}

func TestCheck_InvalidArguments(t *testing.T) {
	_, _, err := configlint.Check([]byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: TargetLoadPacking, args: {targetUtilization: 150}}]}]
`), plugins.LintOptions())
	check.Error(t, err, "profiles[0].pluginConfig[0].args.targetUtilization: Invalid value: 150")
}

func TestCheck_DoesNotShowTheFile(t *testing.T) {
	const rest = "profiles: [{pluginConfig: [{name: TargetLoadPacking, args: {metricProvider: {token: hush}}}]}]\n"
	for _, tt := range []struct{ name, content, want string }{
		{"no apiVersion", "kind: KubeSchedulerConfiguration\n" + rest, "apiVersion: Required value: write apiVersion: kubescheduler.config.k8s.io/v1"},
		{"an empty apiVersion", "apiVersion: \nkind: KubeSchedulerConfiguration\n" + rest, "apiVersion: Required value"},
		{"no kind", "apiVersion: kubescheduler.config.k8s.io/v1\n" + rest, "kind: Required value: write kind: KubeSchedulerConfiguration"},
		{"another kind", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Scheduler\n" + rest, "Scheduler"},
		{"an unknown field", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n" + rest, "profile"},
		{"a list", "- " + rest, "Required value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := configlint.Check([]byte(tt.content), plugins.LintOptions())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("got error %v, want one with %q and without the token", err, tt.want)
			}
		})
	}
}

// Limits are refused beside preemption for pod groups as in Kubernetes 1.36; plugins that reject no node are not.
func TestCheck_LimitsEvictForGroups(t *testing.T) {
	const config = `profiles:
- plugins:
    multiPoint: {enabled: [{name: LoadThreshold, weight: 500}, {name: NodeMetrics, weight: 100}]}
  pluginConfig:
  - {name: NodeMetrics, args: {metricProvider: {type: Prometheus, address: "http://p"}, metrics: [{name: m, query: m, prefer: Lower}]}}
`
	for gates, want := range map[string][]finding.Finding{
		"kube:GenericWorkload=true":               nil,
		"WorkloadAwarePreemption=false":           nil,
		"AllAlpha=true,WorkloadAwarePreemption=0": nil,
		"kube:GangScheduling=true,WorkloadAwarePreemption=1": {{
			Code: finding.LimitEvicts, Field: "--feature-gates", Fatal: true,
			Details: []any{"name", "LoadThreshold", "profile", "default-scheduler", "gate", "WorkloadAwarePreemption"},
			Advice:  "write --feature-gates=WorkloadAwarePreemption=false until you upgrade to Kubernetes 1.37, which has no such gate",
		}},
	} {
		check.Equal(t, gates, want, findingsOf(t, config, "--feature-gates="+gates))
	}
}

func TestEnables(t *testing.T) {
	const gate = "GenericWorkload"
	all, spec := "AllAlpha", utilfeature.DefaultMutableFeatureGate.GetAll()[gate]
	if spec.PreRelease == featuregate.Beta {
		all = "AllBeta"
	}
	for gates, want := range map[string]bool{
		"": false, "GenericWorkload=true": true, "A=1,kube:GenericWorkload=1": true, "GenericWorkload=True": true,
		"GenericWorkload=false": false, "GenericWorkload=true,GenericWorkload=false": false, all + "=true,GenericWorkload=0": false,
		all + "=true": spec.PreRelease != featuregate.GA, // Kubernetes 1.34 does not have the gate
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.String("feature-gates", "", "")
		check.OK(t, flags.Set("feature-gates", gates))
		check.Equal(t, gates, want, configlint.Enables(flags, gate))
	}
}

// Before an upgrade, the gate is told of; afterwards the scheduler does not start.
func TestCheck_RemovedGates(t *testing.T) {
	_, known := utilfeature.DefaultMutableFeatureGate.GetAll()["InPlacePodVerticalScaling"]
	want := []finding.Finding{{
		Code: finding.GateRemoved, Field: "--feature-gates", Fatal: !known, Details: []any{"gate", "InPlacePodVerticalScaling"},
		Advice: "remove InPlacePodVerticalScaling from --feature-gates before you upgrade to Kubernetes 1.38",
	}}
	gates := "--feature-gates=kube:GenericWorkload=true,kube:InPlacePodVerticalScaling=true,kube:PodLevelResources=true"
	check.Equal(t, "findings", want, findingsOf(t, "", gates))
}

func TestFinding(t *testing.T) {
	f := finding.Finding{Code: finding.MetricUnused, Field: "f", Line: 3, Details: []any{"name", "n"}, Advice: "a", Similar: []string{"s"}}
	check.Equal(t, "keys and values", []any{"field", "f", "line", 3, "name", "n", "advice", "a", "similar", []string{"s"}}, f.KeysAndValues())
	const want = `"The metric has no effect: it neither scores nor rejects a node" field="f" line=3 name="n" advice="a" similar=["s"]`
	check.Equal(t, "text", want, f.String())
}

func TestCheck_OldVersion(t *testing.T) {
	const file = "apiVersion: kubescheduler.config.k8s.io/%s\nkind: KubeSchedulerConfiguration\n"
	for content, want := range map[string]string{
		fmt.Sprintf(file, "v1beta3") + "healthzBindAddress: 0.0.0.0:10251\n": "apiVersion: kubescheduler.config.k8s.io/v1beta3 is no longer " +
			"supported: write kubescheduler.config.k8s.io/v1 everywhere",
		`{"apiVersion": "kubescheduler.config.k8s.io/v1beta2", "kind": "KubeSchedulerConfiguration"}`: "v1beta2 is no longer supported",
		fmt.Sprintf(file, "v1") + "profiles: [{pluginConfig: [{name: TargetLoadPacking, " +
			"args: {apiVersion: kubescheduler.config.k8s.io/v1beta1, kind: TargetLoadPackingArgs}}]}]\n": ".profiles[0].pluginConfig[0]",
	} {
		_, _, err := configlint.Check([]byte(content), plugins.LintOptions())
		check.Error(t, err, want, "v1beta")
	}
}

func TestCheck_OtherVersionsAreLeftToTheDecoder(t *testing.T) {
	for name, config := range map[string]string{
		"v1":                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nhealthzBindAddress: x\n",
		"an unknown one":    "apiVersion: kubescheduler.config.k8s.io/v1alpha2\nkind: KubeSchedulerConfiguration\n",
		"another group":     "apiVersion: config.example.com/v1beta1\nkind: KubeSchedulerConfiguration\n",
		"none":              "kind: KubeSchedulerConfiguration\n",
		"no YAML":           "apiVersion: [",
		"nothing":           "",
		"a scalar":          "kubescheduler.config.k8s.io/v1beta1",
		"lists of scalars":  "apiVersion: kubescheduler.config.k8s.io/v1\nprofiles: [1, [2], {plugins: 3, pluginConfig: [4]}]\n",
		"lists as mappings": "apiVersion: kubescheduler.config.k8s.io/v1\nprofiles: {plugins: {score: {enabled: {name: SelectorSpread}}}}\n",
		"another kind":      "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := configlint.Check([]byte(config), plugins.LintOptions())
			if err == nil || strings.Contains(err.Error(), "no longer supported") {
				t.Errorf("got %v, want the decoder's error", err)
			}
		})
	}
}
