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
	"github.com/plimsoll-scheduler/plimsoll/internal/warning"
)

// Options describe the scheduler that a configuration is for.
type Options struct {
	// Plugins are the names of all plugins that the scheduler is built with, in the order in which similar names are reported.
	Plugins []string
	// Flags are the scheduler's parsed flags, which may override fields. nil stands for no flags.
	Flags *pflag.FlagSet
	// FilesAreElsewhere says that the files that the configuration names are in the scheduler's pod, and cannot be read here, and that
	// its environment may have credentials that Getenv does not know.
	FilesAreElsewhere bool
	// Getenv returns the environment variables of the scheduler. nil stands for none.
	Getenv func(variable string) string
}

// Finding is something in a configuration that can be decoded, and that the operator probably did not mean.
type Finding struct {
	// Message is the same for all findings of one kind.
	Message string
	// Field is the path from the top of the file, such as profiles[0].pluginConfig[1].args.metrics[0].query, or a flag.
	Field string
	// Line is the line in the file, counted from 1; 0 if it is not known.
	Line int
	// Details are further keys and values of a structured log line.
	Details []any
	// Fatal says that the scheduler does not start with it.
	Fatal bool
	// YAML is what to write instead, in the profile, the plugin's entry or the field that Field names; empty if no YAML mends it.
	YAML string
}

// KeysAndValues returns Field, Line, if known, and Details as the keys and values of a structured log line.
func (f Finding) KeysAndValues() []any {
	if f.Line == 0 {
		return append([]any{"field", f.Field}, f.Details...)
	}
	return append([]any{"field", f.Field, "line", f.Line}, f.Details...)
}

// String returns the finding as a line of klog's text format has it.
func (f Finding) String() string { return warning.Text(f.Message, f.KeysAndValues()...) }

// Warn logs findings as warnings. format is the log's.
func Warn(findings []Finding, format string) {
	for _, finding := range findings {
		warning.Log(format, finding.Message, finding.KeysAndValues()...)
	}
}

// Check returns an error if the content of a configuration file is of an old version, cannot be decoded, or has invalid
// arguments for a plugin of this project; the error names the fields. Otherwise it returns the findings. What the stock
// scheduler validates itself is reported for old versions only.
func Check(content []byte, options Options) ([]Finding, error) {
	if err := checkKind(content); err != nil {
		return nil, err
	}
	if err := checkVersion(content, options.Plugins); err != nil {
		return nil, err
	}
	root := parse(content)
	cfg, err := Decode(content)
	if err != nil {
		return nil, withFields(err, root)
	}
	CompleteFromEnvironment(cfg, options.Getenv)
	validate := validation.ValidatePluginConfigs
	if options.FilesAreElsewhere {
		validate = validation.ValidatePluginConfigsOfPod
	}
	if err := validate(cfg); err != nil {
		return nil, err
	}
	return slices.Concat(
		unknownPlugins(root, options.Plugins),
		overriddenFields(root, cfg, options.Flags),
		unparsableQueries(root, cfg),
		repeatedProfiles(root, cfg),
		weights(root, cfg),
	), nil
}

// CompleteFromEnvironment sets what plugins' arguments leave open by the scheduler's environment, which getenv returns; nil stands for
// none.
func CompleteFromEnvironment(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, getenv func(variable string) string) {
	if getenv == nil {
		return
	}
	for i := range cfg.Profiles {
		for _, pluginConfig := range cfg.Profiles[i].PluginConfig {
			if args, ok := pluginConfig.Args.(interface{ GetLoadSpec() *config.LoadSpec }); ok {
				args.GetLoadSpec().CompleteFromEnvironment(getenv)
			}
		}
	}
}

// checkKind refuses an empty document, and one without apiVersion or kind: the decoder's error would show all of it, a token included.
func checkKind(content []byte) error {
	root := parse(content)
	if root == nil && yaml.Unmarshal(content, &yaml.Node{}) == nil {
		return fmt.Errorf("the configuration is empty: write apiVersion: %s, kind: KubeSchedulerConfiguration and profiles; if a command wrote it, read its errors",
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
