// Package configlint reports what is wrong or surprising in a KubeSchedulerConfiguration, old versions included.
package configlint

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // decodes the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/warning"
)

// Options describe the scheduler that a configuration is for.
type Options struct {
	// Plugins are the names of all plugins of the scheduler. Similar names are reported in this order.
	Plugins []string
	// LoadPlugins are the plugins whose weights and limits are checked.
	LoadPlugins []Plugin
	// Flags are the scheduler's parsed flags, which may override fields. nil stands for no flags.
	Flags *pflag.FlagSet
	// FilesAreElsewhere says that the configuration's files are in the scheduler's pod, and cannot be read here. The pod's
	// environment may have credentials that Getenv does not know.
	FilesAreElsewhere bool
	// Getenv returns the environment variables of the scheduler. nil stands for none.
	Getenv func(variable string) string
}

// Code is the kind of a finding.
type Code string

// The kinds of findings.
const (
	PluginEnabled   Code = "UnknownPluginEnabled"
	PluginDisabled  Code = "UnknownPluginDisabled"
	PluginArguments Code = "UnknownPluginArguments"
	FieldOverridden Code = "FieldOverridden"
	QueryInvalid    Code = "QueryInvalid"
	QueryUngrouped  Code = "QueryUngrouped"
	QueryUnfiltered Code = "QueryUnfiltered"
	ProfileRepeated Code = "ProfileRepeated"
	LoadOutweighed  Code = "LoadOutweighed"
	LimitUnweighted Code = "LimitUnweighted"
	LimitUnfiltered Code = "LimitUnfiltered"
	LimitNotWaived  Code = "LimitNotWaived"
	MetricUnused    Code = "MetricUnused"
)

// String returns what the finding means, in one line.
func (c Code) String() string {
	switch c {
	case PluginEnabled:
		return "The configuration enables a plugin that does not exist; the scheduler does not start"
	case PluginDisabled:
		return "The configuration disables a plugin that does not exist; the entry has no effect"
	case PluginArguments:
		return "The configuration has arguments for a plugin that does not exist; they have no effect"
	case FieldOverridden:
		return "A flag overrides the configuration"
	case QueryInvalid:
		return "Prometheus cannot parse the query; a server with another dialect of PromQL may accept it"
	case QueryUngrouped:
		return "The query to Datadog is not grouped by the host's tag: its series belong to no node"
	case QueryUnfiltered:
		return "The query to Datadog has no $filter: clusterName and hostNameSuffix have no effect"
	case ProfileRepeated:
		return "Two profiles have the same name; the scheduler does not start"
	case LoadOutweighed:
		return "Other plugins outweigh the plugins that score by load"
	case LimitUnweighted:
		return "The weight at score is too small: with the limit waived, a pod may go to the most loaded node"
	case LimitUnfiltered:
		return "The limits of a plugin have no effect, because it is not enabled at filter"
	case LimitNotWaived:
		return "The limit is never waived, because the plugin is not enabled at preFilter"
	case MetricUnused:
		return "The metric has no effect: its weight is 0, and it rejects no node"
	}
	return string(c)
}

// Finding is something in a valid configuration that the operator probably did not mean.
type Finding struct {
	Code Code
	// Field is the path from the top of the file, such as profiles[0].pluginConfig[1].args.metrics[0].query, or a flag.
	Field string
	// Line is the line in the file, counted from 1; 0 if it is not known.
	Line int
	// Details are further keys and values of a structured log line.
	Details []any
	// Advice is an imperative. Similar are names that exist. Both may be empty.
	Advice  string
	Similar []string
	// YAML replaces the profile's, the entry's or the field's YAML; empty if no YAML fixes it.
	YAML string
	// Fatal says that the scheduler does not start with it.
	Fatal bool
}

// KeysAndValues returns the finding as the keys and values of a structured log line.
func (f *Finding) KeysAndValues() []any {
	all := []any{"field", f.Field}
	if f.Line > 0 {
		all = append(all, "line", f.Line)
	}
	all = append(all, f.Details...)
	if f.Advice != "" {
		all = append(all, "advice", f.Advice)
	}
	if len(f.Similar) > 0 {
		all = append(all, "similar", f.Similar)
	}
	return all
}

// String returns the finding as klog's text format shows it.
func (f *Finding) String() string { return warning.Text(f.Code.String(), f.KeysAndValues()...) }

// Warn logs findings as warnings. format is the log's.
func Warn(findings []Finding, format string) {
	for i := range findings {
		warning.Log(format, findings[i].Code.String(), findings[i].KeysAndValues()...)
	}
}

// Check returns the findings of a configuration file. It fails if the file has an old version, or invalid arguments for a plugin of
// this project. The error names the fields. The stock scheduler's own validation is left to it, except for old versions.
func Check(content []byte, options Options) ([]Finding, error) {
	if err := checkKind(content); err != nil {
		return nil, err
	}
	root := parse(content)
	if err := checkVersion(root, options.Plugins); err != nil {
		return nil, err
	}
	cfg, err := Decode(content)
	if err != nil {
		return nil, withFields(err, root)
	}
	CompleteFromEnvironment(cfg, options.Getenv)
	var files validation.Files
	if !options.FilesAreElsewhere {
		files = validation.Files{Token: boundedfile.ReadToken, CA: boundedfile.ReadCA}
	}
	if err := validation.ValidatePluginConfigs(cfg, files); err != nil {
		return nil, err
	}
	return slices.Concat(unknownPlugins(root, options.Plugins), overriddenFields(root, cfg, options.Flags),
		unparsableQueries(root, cfg), repeatedProfiles(root, cfg), weights(root, cfg, options.LoadPlugins)), nil
}

// CompleteFromEnvironment sets unset fields of plugins' arguments from the scheduler's environment. A nil getenv has none.
func CompleteFromEnvironment(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, getenv func(variable string) string) {
	if getenv == nil {
		return
	}
	for i := range cfg.Profiles {
		for _, pluginConfig := range cfg.Profiles[i].PluginConfig {
			if spec := config.LoadSpecOf(pluginConfig.Args); spec != nil {
				spec.CompleteFromEnvironment(getenv)
			}
		}
	}
}

// checkKind refuses documents without apiVersion or kind: the decoder's error would show all of it, a token included.
func checkKind(content []byte) error {
	root := parse(content)
	if root == nil && yaml.Unmarshal(content, &yaml.Node{}) == nil {
		return fmt.Errorf("the configuration is empty: write apiVersion: %s, kind: KubeSchedulerConfiguration and profiles; "+
			"if a command wrote it, read its errors",
			kubeschedulerconfigv1.SchemeGroupVersion)
	}
	for _, field := range []struct{ name, value string }{
		{"apiVersion", kubeschedulerconfigv1.SchemeGroupVersion.String()}, {"kind", "KubeSchedulerConfiguration"},
	} {
		if root != nil && text(entry(root, field.name)) == "" {
			return fmt.Errorf("%s: Required value: write %s: %s", field.name, field.name, field.value)
		}
	}
	return nil
}

// Decode returns the configuration with defaults. Only Check says which of its fields are of an old version or invalid.
func Decode(content []byte) (*kubeschedulerconfig.KubeSchedulerConfiguration, error) {
	object, kind, err := kubeschedulerscheme.Codecs.UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := object.(*kubeschedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("kind: %q is not a configuration: write KubeSchedulerConfiguration", kind.Kind)
	}
	cfg.APIVersion = kubeschedulerconfigv1.SchemeGroupVersion.String() // conversion clears it; stock validation requires it
	return cfg, nil
}
