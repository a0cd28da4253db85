package configlint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	stock "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// unknownPlugins reports plugins that do not exist, in all lists of plugins and in pluginConfig. The stock scheduler refuses them
// only where they are enabled.
func unknownPlugins(root *yaml.Node) (findings []finding.Finding) {
	plugins := knownPlugins()
	check := func(code finding.Code, entries *yaml.Node, path string) {
		for i, plugin := range items(entries) {
			name := entry(plugin, "name")
			if text(name) == "" || text(name) == "*" || slices.Contains(plugins, name.Value) {
				continue
			}
			findings = append(findings, finding.Finding{
				Code: code, Field: fmt.Sprintf("%s[%d]", path, i), Line: name.Line, Details: []any{"name", name.Value},
				Similar: SimilarNames(name.Value, plugins), Fatal: code == finding.PluginEnabled,
			})
		}
	}
	for i, profile := range items(entry(root, "profiles")) {
		path := fmt.Sprintf("profiles[%d].", i)
		for point, set := range pairs(entry(profile, "plugins")) {
			at := path + "plugins." + point.Value
			check(finding.PluginEnabled, entry(set, "enabled"), at+".enabled")
			check(finding.PluginDisabled, entry(set, "disabled"), at+".disabled")
		}
		check(finding.PluginArguments, entry(profile, "pluginConfig"), path+"pluginConfig")
	}
	return findings
}

func knownPlugins() []string {
	return append(slices.Sorted(maps.Keys(stock.NewInTreeRegistry())), config.PluginNames()...)
}

// unusedArguments reports arguments of plugins that the profile does not enable, or not where they read the arguments.
func unusedArguments(
	root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, plugins []Plugin,
) (findings []finding.Finding) {
	for i, node := range items(entry(root, "profiles")) {
		p := profile{of: &cfg.Profiles[i], plugins: cfg.Profiles[i].Plugins}
		for j, c := range items(entry(node, "pluginConfig")) {
			name, advice := text(entry(c, "name")), "enable the plugin, or remove its arguments"
			unused := !Builds(p.of, name)
			if k := slices.IndexFunc(plugins, func(plugin Plugin) bool { return plugin.Name == name }); k >= 0 && !unused {
				advice = "enable the plugin at score, too, or remove its arguments"
				none, beside := kubeschedulerconfig.PluginSet{}, *p.plugins // such as placementScore, which Kubernetes 1.35 does not have
				beside.PreFilter, beside.Filter, beside.PostFilter, beside.PreScore, beside.Score = none, none, none, none, none
				unused = plugins[k].ScoresByLoad && p.weight(name) == 0 && !plugins[k].Limits(ArgsOf(p.of, name)).Filters &&
					!slices.Contains(beside.Names(), name)
			}
			if unused && slices.Contains(knownPlugins(), name) {
				findings = append(findings, finding.Finding{
					Code: finding.ArgumentsUnused, Field: fmt.Sprintf("profiles[%d].pluginConfig[%d]", i, j), Line: c.Line,
					Details: []any{"name", name}, Advice: advice,
				})
			}
		}
	}
	return findings
}

// gatesOf returns the feature gates that the flags set. The value is that of the whole process, and counts only if it was set.
func gatesOf(flags *pflag.FlagSet) map[string]bool {
	gates := map[string]bool{}
	if flags == nil {
		return gates
	}
	if flag := flags.Lookup("feature-gates"); flag != nil && flag.Changed {
		separator := func(r rune) bool { return r == ',' || r == ':' } // kube:a=true,kube:b=true
		for _, set := range strings.FieldsFunc(flag.Value.String(), separator) {
			if gate, value, found := strings.Cut(set, "="); found {
				gates[gate], _ = strconv.ParseBool(value) // the running scheduler has parsed it
			}
		}
	}
	return gates
}

// Enables reports whether the flags enable a feature gate that is off by default.
func Enables(flags *pflag.FlagSet, gate string) bool {
	gates := gatesOf(flags)
	on, isSet := gates[gate]
	switch utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(gate)].PreRelease {
	case featuregate.Alpha:
		return on || !isSet && gates["AllAlpha"]
	case featuregate.Beta:
		return on || !isSet && gates["AllBeta"]
	}
	return on
}

// gone are the gates that utilfeature.DefaultMutableFeatureGate has in a scheduler of 1.37.2, and not in one of 1.38.0-beta.0:
// those of pkg/features in k8s.io/kubernetes, apiserver and apiextensions-apiserver.
const gone = `
	AggregatedDiscoveryRemoveBetaType AllowOverwriteTerminationGracePeriodSeconds CRDValidationRatcheting
	CustomResourceFieldSelectors DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
	InPlacePodVerticalScaling JobManagedBy KubeletTracing MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
	NFTablesProxyMode NodeSwap PodGroupPreemptionPolicy PodSchedulingReadiness PreferSameTrafficDistribution
	RecoverVolumeExpansionFailure SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
	ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog WinDSR
	WinOverlay WindowsHostNetwork`

// removedGates reports gates that end a scheduler of the next minor, which does not know them.
func removedGates(flags *pflag.FlagSet) (findings []finding.Finding) {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, gate := range slices.Sorted(maps.Keys(gatesOf(flags))) {
		if slices.Contains(strings.Fields(gone), gate) {
			_, has := known[featuregate.Feature(gate)]
			findings = append(findings, finding.Finding{
				Code: finding.GateRemoved, Field: "--feature-gates", Fatal: !has, Details: []any{"gate", gate},
				Advice: "remove " + gate + " from --feature-gates before you upgrade to Kubernetes 1.38",
			})
		}
	}
	return findings
}

// evictingLimits reports limits beside preemption for pod groups as Kubernetes 1.36 has it: no other plugin can act before it.
func evictingLimits(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, o Options) (findings []finding.Finding) {
	const gate = "WorkloadAwarePreemption"
	if !Enables(o.Flags, gate) {
		return nil
	}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		for _, plugin := range o.LoadPlugins {
			if profile.Plugins != nil && Filters(profile, plugin.Name) && plugin.Limits(ArgsOf(profile, plugin.Name)).Filters {
				findings = append(findings, finding.Finding{
					Code: finding.LimitEvicts, Field: "--feature-gates", Fatal: true,
					Details: []any{"name", plugin.Name, "profile", profile.SchedulerName, "gate", gate},
					Advice:  "write --feature-gates=" + gate + "=false until you upgrade to Kubernetes 1.37, which has no such gate",
				})
			}
		}
	}
	return findings
}

// SimilarNames returns the names that begin with name, or else the names with the fewest different letters, at most three.
// Case does not matter.
func SimilarNames(name string, names []string) []string {
	// Cobra has the search for mistyped commands.
	program := &cobra.Command{}
	for _, name := range names {
		program.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	for distance := range 4 {
		program.SuggestionsMinimumDistance = distance
		if similar := program.SuggestionsFor(name); len(similar) > 0 {
			return similar[:min(len(similar), 3)]
		}
	}
	return nil
}

// queries reports queries that Prometheus' parser rejects, and metrics that neither score nor reject.
func queries(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []finding.Finding {
	var findings []finding.Finding
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			path := fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j)
			if spec := config.LoadSpecOf(pluginConfig.Args); spec != nil {
				provider := &spec.MetricProvider
				if q := provider.Queries; q != nil {
					findings = slices.Concat(findings, finding.CheckLoadQuery(path+"metricProvider.queries.cpu", q.CPU, provider),
						finding.CheckLoadQuery(path+"metricProvider.queries.memory", q.Memory, provider))
				}
			}
			p := profile{of: &cfg.Profiles[i], plugins: cfg.Profiles[i].Plugins}
			metrics := config.MetricsOf(pluginConfig.Args)
			rejects := slices.ContainsFunc(metrics, func(m config.NodeMetric) bool { return m.Reject != "" }) // else see unusedArguments
			unscored := rejects && Builds(p.of, pluginConfig.Name) && p.weight(pluginConfig.Name) == 0
			for k, metric := range metrics {
				path := fmt.Sprintf("%smetrics[%d].", path, k)
				findings = append(findings, finding.CheckQuery(path+"query", metric.Query, metric.Query)...)
				f := finding.Finding{
					Code: finding.MetricUnused, Field: path + "weight", Details: []any{"name", metric.Name},
					Advice: "give it a weight or a reject rule, or remove it", YAML: "weight: 1\n",
				}
				if metric.Weight > 0 {
					f.Advice, f.YAML = "enable the plugin at score, too, or give the metric a reject rule, or remove it", ""
				}
				if metric.Reject == "" && (metric.Weight == 0 || unscored) {
					findings = append(findings, f)
				}
			}
		}
	}
	for i := range findings {
		findings[i].Line = lineOf(root, findings[i].Field)
	}
	return findings
}
