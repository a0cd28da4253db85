package configlint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	kubeschedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

// changes returns the changes that the error lists, one line each; nil if the configuration is of no old version.
func changes(t *testing.T, config string) []string {
	t.Helper()
	_, _, err := configlint.Check([]byte(config), configlint.Options{Plugins: pluginNames(), LoadPlugins: plugins.LintPlugins()})
	if err == nil {
		return nil
	}
	first, rest, _ := strings.Cut(err.Error(), "\n")
	if !strings.HasSuffix(first, " is no longer supported; to upgrade to kubescheduler.config.k8s.io/v1, change these lines:") {
		t.Errorf("the error begins with %q", first)
	}
	var lines []string
	for line := range strings.SplitSeq(rest, "\n") {
		if change, ok := strings.CutPrefix(line, "  "); ok {
			lines = append(lines, change)
		}
	}
	return lines
}

func TestCheck_OldVersion(t *testing.T) {
	const toV1 = "line 1: apiVersion: write kubescheduler.config.k8s.io/v1"
	const fieldsAre = "the fields are apiVersion, clientConnection, delayCacheUntilActive, enableContentionProfiling, enableProfiling, " +
		"extenders, kind, leaderElection, parallelism, percentageOfNodesToScore, podInitialBackoffSeconds, podMaxBackoffSeconds, profiles"
	const other = "remove this entry: the plugin is one of sigs.k8s.io/scheduler-plugins that this scheduler does not have. " +
		"For pods that need it, run that project's scheduler beside this one, with a schedulerName of its own"
	for _, tt := range []struct {
		name, config string
		want         []string
	}{
		{"the version alone", `apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
`, []string{toV1}},
		{"JSON", `{"apiVersion": "kubescheduler.config.k8s.io/v1beta2", "kind": "KubeSchedulerConfiguration"}`, []string{toV1}},
		{"addresses and a lock, listed in the order of the file", `kind: KubeSchedulerConfiguration
metricsBindAddress: ""
leaderElection:
  leaderElect: true
  resourceLock: endpointsleases
healthzBindAddress: 0.0.0.0:10251
apiVersion: kubescheduler.config.k8s.io/v1beta2
`, []string{
			"line 2: metricsBindAddress: remove this line; /healthz and /metrics are served over HTTPS, at --bind-address (0.0.0.0) and --secure-port (10259)",
			`line 5: leaderElection.resourceLock: Invalid value: "endpointsleases": resourceLock value must be "leases"`,
			"line 6: healthzBindAddress: remove this line; /healthz and /metrics are served over HTTPS, at --bind-address (0.0.0.0) and --secure-port (10259)",
			"line 7: apiVersion: write kubescheduler.config.k8s.io/v1",
		}},
		{"the version of arguments in a file of v1, listed once for two uses of an alias", `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  pluginConfig:
  - name: TargetLoadPacking
    args: &args
      apiVersion: kubescheduler.config.k8s.io/v1beta3
      kind: TargetLoadPackingArgs
      targetUtilization: 70
- schedulerName: two
  pluginConfig:
  - name: TargetLoadPacking
    args: *args
`, []string{"line 8: profiles[0].pluginConfig[0].args.apiVersion: write kubescheduler.config.k8s.io/v1"}},
		{"removed plugins", `apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  plugins:
    score:
      disabled:
      - name: NodeResourcesLeastAllocated
      - name: NodePreferAvoidPods
      enabled:
      - name: NodeResourcesMostAllocated
        weight: 2
      - {name: SelectorSpread}
    filter: {disabled: [{name: EBSLimits}], enabled: [{name: GCEPDLimits}]}
  pluginConfig:
  - name: RequestedToCapacityRatio
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta1
      shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
  - name: ServiceAffinity
`, []string{
			toV1,
			"line 9: profiles[1].plugins.score.disabled[0]: NodeResourcesLeastAllocated does not exist: write NodeResourcesFit, which now scores by requests; if only score disables it, it still filters",
			"line 10: profiles[1].plugins.score.disabled[1]: NodePreferAvoidPods does not exist: remove this entry",
			"line 12: profiles[1].plugins.score.enabled[0]: NodeResourcesMostAllocated does not exist: write NodeResourcesFit, and for it below pluginConfig, args: {scoringStrategy: {type: MostAllocated}}",
			"line 14: profiles[1].plugins.score.enabled[1]: SelectorSpread does not exist: remove this entry; PodTopologySpread, enabled by default, spreads the pods of a service",
			"line 15: profiles[1].plugins.filter.enabled[0]: GCEPDLimits does not exist: remove this entry; NodeVolumeLimits, enabled by default, counts all volumes",
			"line 15: profiles[1].plugins.filter.disabled[0]: EBSLimits does not exist: remove this entry",
			"line 17: profiles[1].pluginConfig[0]: RequestedToCapacityRatio does not exist: write name: NodeResourcesFit, and args: {scoringStrategy: {type: RequestedToCapacityRatio, resources: […], requestedToCapacityRatio: {shape: […]}}} and fill in the values of the present args",
			"line 21: profiles[1].pluginConfig[1]: ServiceAffinity does not exist: remove this entry",
		}},
		// Two are mistyped: one lacks a letter, the other all but its beginning. The rest is similar to no plugin.
		{"unknown plugins", `apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins:
    score:
      enabled:
      - name: NetworkOverhead
      - name: TargetLoadPacking
      - name: TargetLoadPaking
      - name: NodeResources
      disabled:
      - name: SySched
    preFilter: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: NetworkOverhead
    args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, networkTopologyName: a}
`, []string{
			toV1,
			"line 8: profiles[0].plugins.score.enabled[0]: NetworkOverhead does not exist: " + other,
			"line 10: profiles[0].plugins.score.enabled[2]: TargetLoadPaking does not exist: write TargetLoadPacking, or remove this entry",
			"line 11: profiles[0].plugins.score.enabled[3]: NodeResources does not exist: write NodeResourcesBalancedAllocation or NodeResourcesFit, or remove this entry",
			"line 13: profiles[0].plugins.score.disabled[0]: SySched does not exist: " + other,
			"line 14: profiles[0].plugins.preFilter.enabled[0]: Coscheduling does not exist: " + other,
			"line 16: profiles[0].pluginConfig[0]: NetworkOverhead does not exist: " + other,
		}},
		{"the version and invalid values", `apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
parallelism: 0
profiles:
- schedulerName: packing
  pluginConfig:
  - name: TargetLoadPacking
    args:
      targetUtilization: 140
  - name: PodTopologySpread
    args:
      defaultConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
`, []string{
			toV1,
			"line 3: parallelism: Invalid value: 0: should be an integer value greater than zero",
			"line 9: profiles[0].pluginConfig[0].args.targetUtilization: Invalid value: 140: must be in [1, 99]: write the CPU utilization, in percent, up to which nodes are packed",
			// The field is missing: the line is that of the arguments.
			`line 11: profiles[0].pluginConfig[1].args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty`,
		}},
		{"the version, an unknown field and an invalid value", `apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
algorithmSource: {provider: DefaultProvider}
parallelism: 0
`, []string{
			toV1,
			"line 3: algorithmSource: there is no such field: " + fieldsAre,
			"line 4: parallelism: Invalid value: 0: should be an integer value greater than zero",
		}},
		{"an unknown field below the top", `apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
leaderElection: {leaderElekt: true}
healthzBindAddress: ""
`, []string{
			toV1,
			"line 3: leaderElection.leaderElekt: there is no such field: did you mean leaderElect?",
			"line 4: healthzBindAddress: remove this line; /healthz and /metrics are served over HTTPS, at --bind-address (0.0.0.0) and --secure-port (10259)",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, changes(t, tt.config)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
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
			_, _, err := configlint.Check([]byte(config), configlint.Options{Plugins: pluginNames(), LoadPlugins: plugins.LintPlugins()})
			if err == nil || strings.Contains(err.Error(), "no longer supported") {
				t.Errorf("got %v, want the decoder's error", err)
			}
		})
	}
}

func TestCheck_OldVersionNamesNewDefaultWeights(t *testing.T) {
	for version, want := range map[string]bool{"v1beta1": true, "v1beta2": true, "v1beta3": false, "v1": false} {
		_, _, err := configlint.Check([]byte("apiVersion: kubescheduler.config.k8s.io/"+version+`
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: TargetLoadPacking, args: {apiVersion: kubescheduler.config.k8s.io/v1beta2}}]}]
`), configlint.Options{Plugins: pluginNames(), LoadPlugins: plugins.LintPlugins()})
		if err == nil || strings.Contains(err.Error(), "TaintToleration 3 (1)") != want {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestCheck_AdviceForRemovedPluginsIsValid(t *testing.T) {
	for name, profile := range map[string]string{
		"NodeResourcesLeastAllocated disabled": `plugins: {score: {disabled: [{name: NodeResourcesFit}]}}`,
		"NodeResourcesLeastAllocated's arguments": `pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 2}]}}`,
		"NodeResourcesMostAllocated enabled": `plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 2}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}`,
		"NodeResourcesMostAllocated's arguments": `pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 2}]}}`,
		"RequestedToCapacityRatio's arguments": `pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 2}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}`,
		"NodeLabel's arguments": `pluginConfig:
  - name: NodeAffinity
    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: ssd, operator: Exists}, {key: old, operator: DoesNotExist}]}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			config := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: s\n  " + profile + "\n"
			object, _, err := kubeschedulerscheme.Codecs.UniversalDecoder().Decode([]byte(config), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg := object.(*kubeschedulerconfig.KubeSchedulerConfiguration)
			if err := kubeschedulervalidation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
				t.Error(err)
			}
		})
	}
}
