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
)

// unknownPlugins reports plugins that are disabled, or given arguments, and do not exist. The stock scheduler ignores both; it
// refuses only unknown plugins that are enabled.
func unknownPlugins(root *yaml.Node, plugins []string) []Finding {
	var findings []Finding
	check := func(entries *yaml.Node, path, message string, advice func(replacement) string) {
		for i, plugin := range items(entries) {
			name := entry(plugin, "name")
			if text(name) == "" || text(name) == "*" || slices.Contains(plugins, name.Value) {
				continue
			}
			details := []any{"name", name.Value}
			if removed, ok := removedPlugins()[name.Value]; ok {
				details = append(details, "advice", cmp.Or(advice(removed), noReplacement))
			} else if similar := SimilarNames(name.Value, plugins); len(similar) > 0 {
				details = append(details, "similar", similar)
			}
			findings = append(findings, Finding{Message: message, Field: fmt.Sprintf("%s[%d]", path, i), Line: name.Line, Details: details})
		}
	}
	for i, profile := range items(entry(root, "profiles")) {
		path := fmt.Sprintf("profiles[%d].", i)
		for point, set := range pairs(entry(profile, "plugins")) {
			check(entry(set, "disabled"), path+"plugins."+point.Value+".disabled",
				"The configuration disables a plugin that does not exist; the entry has no effect",
				func(r replacement) string { return r.disabled })
		}
		check(entry(profile, "pluginConfig"), path+"pluginConfig",
			"The configuration has arguments for a plugin that does not exist; they are not used",
			func(r replacement) string { return r.args })
	}
	return findings
}

// overriddenFields reports the fields of leaderElection that a flag sets to another value.
func overriddenFields(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, flags *pflag.FlagSet) []Finding {
	if flags == nil {
		return nil
	}
	election := cfg.LeaderElection
	section := entry(root, "leaderElection")
	var findings []Finding
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
		findings = append(findings, Finding{
			Message: "A flag overrides the configuration",
			Field:   "leaderElection." + setting.field,
			Line:    key.Line,
			Details: []any{"configured", setting.value, "flag", fmt.Sprintf("--%s=%s", flag.Name, flag.Value)},
		})
	}
	return findings
}

// SimilarNames returns the names that begin with name, or else those that differ from it least, by at most three letters: two slips,
// or a forgotten syllable. Case does not matter.
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
