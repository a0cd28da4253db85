// Package configlint reports what is wrong or surprising in a KubeSchedulerConfiguration, old versions included.
package configlint

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	stockvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // decodes the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// Options describe the scheduler that a configuration is for.
type Options struct {
	// LoadPlugins are the plugins whose weights and limits are checked.
	LoadPlugins []Plugin
	// Flags are the scheduler's parsed flags, with its feature gates. nil stands for no flags.
	Flags *pflag.FlagSet
	// FilesAreElsewhere says that the configuration's files are in the scheduler's pod, and cannot be read here. The pod's
	// environment may have credentials that Getenv does not know.
	FilesAreElsewhere bool
	// Getenv returns the environment variables of the scheduler. nil stands for none.
	Getenv func(variable string) string
}

// Check returns the configuration in a file, completed by defaults and the environment, and its findings. It fails if the file
// has an old version, or invalid arguments for a plugin of this project. The error names the fields. The stock scheduler's own
// validation is left to it, except for old versions.
func Check(content []byte, options Options) (*kubeschedulerconfig.KubeSchedulerConfiguration, []finding.Finding, error) {
	if err := checkKind(content); err != nil {
		return nil, nil, err
	}
	root := parse(content)
	if err := checkVersion(root); err != nil {
		return nil, nil, err
	}
	cfg, err := Decode(content)
	if err != nil {
		return nil, nil, withFields(err, root)
	}
	completeFromEnvironment(cfg, options.Getenv)
	if err := validation.ValidatePluginConfigs(cfg, !options.FilesAreElsewhere); err != nil {
		return nil, nil, err
	}
	if err := validateReplacements(cfg, options.LoadPlugins); err != nil {
		return nil, nil, err
	}
	return cfg, slices.Concat(unknownPlugins(root), unusedArguments(root, cfg, options.LoadPlugins),
		queries(root, cfg), weights(root, cfg, options.LoadPlugins),
		evictingLimits(cfg, options), removedGates(options.Flags)), nil
}

// completeFromEnvironment sets unset fields of plugins' arguments from the scheduler's environment. A nil getenv has none.
func completeFromEnvironment(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, getenv func(variable string) string) {
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
			"if a command wrote it, read the errors of that command",
			kubeschedulerconfigv1.SchemeGroupVersion)
	}
	for _, field := range []struct{ name, value string }{
		{"apiVersion", kubeschedulerconfigv1.SchemeGroupVersion.String()}, {"kind", "KubeSchedulerConfiguration"},
	} {
		if root != nil && text(entry(root, field.name)) == "" {
			return fmt.Errorf("%s: Required value: write %s: %s", field.name, field.name, field.value)
		}
		if value := text(entry(root, field.name)); field.name == "kind" && root != nil && value != field.value {
			return fmt.Errorf("kind: Unsupported value: %q: write %s", value, field.value)
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

// CheckFile checks a regular file. It skips other files, such as pipes, because only the scheduler can read them.
func CheckFile(file string, o Options) ([]finding.Finding, error) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, findings, err := Check(content, o)
	return findings, errors.Join(err, fatal(findings))
}

// ReadFile returns the valid configuration of a file, completed by defaults and the environment.
func ReadFile(file string, o Options) (*kubeschedulerconfig.KubeSchedulerConfiguration, error) {
	content, err := boundedfile.ReadConfiguration(file)
	if err != nil {
		return nil, err
	}
	cfg, findings, err := Check(content, o)
	if err = errors.Join(err, fatal(findings)); err == nil {
		err = stockvalidation.ValidateKubeSchedulerConfiguration(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

// fatal returns an error if the scheduler does not start with the findings.
func fatal(findings []finding.Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Fatal {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// Validate checks a file as the scheduler does at start, without the files that the configuration names. It prints findings.
func Validate(out, errOut io.Writer, file string, o Options) error {
	err := validate(errOut, file, o)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "Error: %v\n", err)
		return err
	}
	_, err = fmt.Fprintf(out, "configuration %s is valid\n", file)
	return err
}

func validate(errOut io.Writer, file string, o Options) error {
	if file == "" {
		return errors.New("--validate-only: name the file to check with --config")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	o.FilesAreElsewhere = true
	cfg, findings, err := Check(content, o)
	for _, f := range findings {
		if !f.Fatal {
			_, _ = fmt.Fprintf(errOut, "Warning: %v\n", &f)
		}
	}
	if err == nil {
		err = fatal(findings)
	}
	if err == nil {
		err = stockvalidation.ValidateKubeSchedulerConfiguration(cfg)
	}
	if err == nil {
		return nil
	}
	problems := []error{err}
	if aggregate := utilerrors.Aggregate(nil); errors.As(err, &aggregate) {
		problems = aggregate.Errors()
	}
	for _, problem := range problems {
		_, _ = fmt.Fprintf(errOut, "Error: %v\n", problem)
	}
	return fmt.Errorf("configuration %s is invalid", file)
}

// parse returns the root of a document; nil if the content has none. Decoding reports invalid YAML.
// All functions below accept a nil node.
func parse(content []byte) *yaml.Node {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// resolve returns the node that an alias refers to, and any other node itself.
func resolve(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// text returns the value of a scalar; "" for nil.
func text(node *yaml.Node) string {
	if node = resolve(node); node == nil {
		return ""
	}
	return node.Value
}

// pairs yields the keys and values of a mapping, and nothing for any other node.
func pairs(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		node = resolve(node)
		if node == nil || node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], resolve(node.Content[i+1])) {
				return
			}
		}
	}
}

// entry returns the value of a key in a mapping; nil if the key is not there.
func entry(node *yaml.Node, key string) *yaml.Node {
	_, value := pair(node, key)
	return value
}

// pair returns a key of a mapping with its value; nil if the key is not there.
func pair(node *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range pairs(node) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// items returns the elements of a sequence, and none for any other node.
func items(node *yaml.Node) []*yaml.Node {
	node = resolve(node)
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

// step matches a part of a path such as profiles[0].plugins: a key or an index.
var step = regexp.MustCompile(`[^.\[\]]+`)

// lineOf returns the line of a field, or of the innermost known part of its path; 0 if unknown.
func lineOf(node *yaml.Node, path string) int {
	_, line := locate(node, path)
	return line
}

// locate returns the value of a field, or nil, and lineOf the field.
func locate(node *yaml.Node, path string) (value *yaml.Node, line int) {
	for _, part := range step.FindAllString(path, -1) {
		var at, next *yaml.Node
		if i, err := strconv.Atoi(part); err != nil {
			at, next = pair(node, part)
		} else if list := items(node); i < len(list) {
			at, next = list[i], list[i]
		}
		if at == nil {
			return nil, line
		}
		node, line = next, at.Line
	}
	return node, line
}
