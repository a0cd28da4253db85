package configlint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// unknownPlugin is an entry for a plugin that does not exist.
type unknownPlugin struct {
	code finding.Code
	path string
	name *yaml.Node
	// advice and similar are those of a Finding.
	advice  string
	similar []string
}

// findUnknownPlugins returns the entries for plugins that do not exist, in all lists of plugins and in pluginConfig.
func findUnknownPlugins(root *yaml.Node, plugins []string) (unknown []unknownPlugin) {
	if len(plugins) == 0 {
		return nil
	}
	check := func(code finding.Code, entries *yaml.Node, path string, advice func(replacement) string) {
		for i, plugin := range items(entries) {
			name := entry(plugin, "name")
			if text(name) == "" || text(name) == "*" || slices.Contains(plugins, name.Value) {
				continue
			}
			p := unknownPlugin{code: code, path: fmt.Sprintf("%s[%d]", path, i), name: name}
			if removed, ok := removedPlugins()[name.Value]; ok {
				p.advice = cmp.Or(advice(removed), removeEntry)
			} else if slices.Contains(OtherPlugins(), name.Value) {
				p.advice = adviceOnOther
			} else {
				p.similar = SimilarNames(name.Value, plugins)
			}
			unknown = append(unknown, p)
		}
	}
	for i, profile := range items(entry(root, "profiles")) {
		path := fmt.Sprintf("profiles[%d].", i)
		for point, set := range pairs(entry(profile, "plugins")) {
			at := path + "plugins." + point.Value
			check(finding.PluginEnabled, entry(set, "enabled"), at+".enabled", func(r replacement) string { return r.enabled })
			check(finding.PluginDisabled, entry(set, "disabled"), at+".disabled", func(r replacement) string { return r.disabled })
		}
		check(finding.PluginArguments, entry(profile, "pluginConfig"), path+"pluginConfig", func(r replacement) string { return r.args })
	}
	return unknown
}

// unknownPlugins reports plugins that do not exist. The stock scheduler refuses them only where they are enabled.
func unknownPlugins(root *yaml.Node, plugins []string) (findings []finding.Finding) {
	for _, p := range findUnknownPlugins(root, plugins) {
		findings = append(findings, finding.Finding{
			Code: p.code, Field: p.path, Line: p.name.Line, Details: []any{"name", p.name.Value},
			Advice: p.advice, Similar: p.similar, Fatal: p.code == finding.PluginEnabled,
		})
	}
	return findings
}

// adviceOnOther is the advice for OtherPlugins.
const adviceOnOther = "remove this entry: the plugin is one of sigs.k8s.io/scheduler-plugins that this scheduler does not have. " +
	"For pods that need it, run that project's scheduler beside this one, with a schedulerName of its own"

// OtherPlugins returns the plugins of sigs.k8s.io/scheduler-plugins that neither this project nor Kubernetes has.
func OtherPlugins() []string {
	return []string{
		"CapacityScheduling", "Coscheduling", "CrossNodePreemption", "NetworkOverhead", "NodeResourcesAllocatable",
		"NodeResourcesFitPlus", "NodeResourceTopologyMatch", "PodState", "PreemptionToleration", "QOSSort",
		"ScarceResourceAvoidance", "SySched", "TopologicalSort",
	}
}

// overriddenFields reports the fields of leaderElection that a flag sets to another value.
func overriddenFields(
	root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, flags *pflag.FlagSet,
) []finding.Finding {
	if flags == nil {
		return nil
	}
	election := cfg.LeaderElection
	section := entry(root, "leaderElection")
	var findings []finding.Finding
	for _, setting := range []struct{ field, flag, value string }{
		{"leaderElect", "leader-elect", strconv.FormatBool(election.LeaderElect)},
		{"leaseDuration", "leader-elect-lease-duration", election.LeaseDuration.Duration.String()},
		{"renewDeadline", "leader-elect-renew-deadline", election.RenewDeadline.Duration.String()},
		{"retryPeriod", "leader-elect-retry-period", election.RetryPeriod.Duration.String()},
		{"resourceLock", "leader-elect-resource-lock", election.ResourceLock},
		{"resourceName", "leader-elect-resource-name", election.ResourceName},
		{"resourceNamespace", "leader-elect-resource-namespace", election.ResourceNamespace},
	} {
		key, _ := pair(section, setting.field)
		flag := flags.Lookup(setting.flag)
		if key == nil || flag == nil || !flag.Changed || flag.Value.String() == setting.value {
			continue
		}
		argument := fmt.Sprintf("--%s=%s", flag.Name, flag.Value)
		findings = append(findings, finding.Finding{
			Code: finding.FieldOverridden, Field: "leaderElection." + setting.field, Line: key.Line,
			Details: []any{"configured", setting.value, "flag", argument},
			Advice:  "write the value of the flag " + argument + ", or remove the field",
		})
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
			return similar
		}
	}
	return nil
}
