package main

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

// warning is a line of the log about what the stock scheduler passes over in silence.
type warning struct {
	message       string
	keysAndValues []any
}

// warnings returns what in a valid configuration has no effect: entries under a name that none of the known plugins has, and
// settings of leader election that a flag overrides.
func warnings(content []byte, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, known []string, flags *pflag.FlagSet) []warning {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil // it has been read by another parser, and only positions are missing
	}
	root := document.Content[0]
	return append(unknownPlugins(root, known), overridden(root, cfg, flags)...)
}

// unknownPlugins leaves out the enabled ones, which the stock scheduler refuses.
func unknownPlugins(root *yaml.Node, known []string) []warning {
	var found []warning
	check := func(entries *yaml.Node, path, message string, advice func(successor) string) {
		for i, plugin := range items(entries) {
			name := entry(plugin, "name")
			if text(name) == "" || text(name) == "*" || slices.Contains(known, name.Value) {
				continue
			}
			details := []any{"field", fmt.Sprintf("%s[%d]", path, i), "line", name.Line, "name", name.Value}
			if gone, ok := successors()[name.Value]; ok {
				details = append(details, "instead", cmp.Or(advice(gone), noSuccessor))
			} else if similar := near(name.Value, known); len(similar) > 0 {
				details = append(details, "similar", similar)
			}
			found = append(found, warning{message, details})
		}
	}
	for i, profile := range items(entry(root, "profiles")) {
		path := fmt.Sprintf("profiles[%d].", i)
		for point, set := range pairs(entry(profile, "plugins")) {
			check(entry(set, "disabled"), path+"plugins."+point.Value+".disabled",
				"The configuration disables a plugin that does not exist: it has no effect",
				func(s successor) string { return s.disabled })
		}
		check(entry(profile, "pluginConfig"), path+"pluginConfig", "The configuration has arguments for a plugin that does not exist: they are not used",
			func(s successor) string { return s.args })
	}
	return found
}

// overridden returns the fields of leaderElection that a flag overrides with another value.
func overridden(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, flags *pflag.FlagSet) []warning {
	file := cfg.LeaderElection
	section := entry(root, "leaderElection")
	var found []warning
	for _, setting := range []struct{ field, flag, value string }{
		{"leaderElect", "leader-elect", strconv.FormatBool(file.LeaderElect)},
		{"leaseDuration", "leader-elect-lease-duration", file.LeaseDuration.Duration.String()},
		{"renewDeadline", "leader-elect-renew-deadline", file.RenewDeadline.Duration.String()},
		{"retryPeriod", "leader-elect-retry-period", file.RetryPeriod.Duration.String()},
		{"resourceLock", "leader-elect-resource-lock", file.ResourceLock},
		{"resourceName", "leader-elect-resource-name", file.ResourceName},
		{"resourceNamespace", "leader-elect-resource-namespace", file.ResourceNamespace},
	} {
		key, _ := pair(section, setting.field)
		flag := flags.Lookup(setting.flag)
		if key == nil || flag == nil || !flag.Changed || flag.Value.String() == setting.value {
			continue
		}
		found = append(found, warning{"The configuration and a flag differ: the flag counts", []any{
			"field", "leaderElection." + setting.field, "line", key.Line, "configured", setting.value,
			"flag", fmt.Sprintf("--%s=%s", flag.Name, flag.Value),
		}})
	}
	return found
}

// near returns the names that are a few letters apart from a mistaken one, or that it begins.
func near(name string, names []string) []string {
	// What a program does for a mistaken command. Three letters are two slips, or a forgotten syllable.
	program := &cobra.Command{SuggestionsMinimumDistance: 3}
	for _, name := range names {
		program.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return program.SuggestionsFor(name)
}
