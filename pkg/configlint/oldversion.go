package configlint

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/credentialfile"
)

// change is an edit that the operator must make in a line of a configuration. The line counts from 1; 0 if it concerns no single
// line.
type change struct {
	line int
	text string
}

// String returns such as "line 4: profiles[0].plugins: must be a mapping".
func (c change) String() string {
	if c.line == 0 {
		return c.text
	}
	return fmt.Sprintf("line %d: %s", c.line, c.text)
}

// checkVersion returns an error if root has v1beta1, v1beta2 or v1beta3 anywhere. The error lists what to change for v1: versions,
// unknown plugins and fields, and what v1's checks then find. In root, it sets these versions to v1, and removes unknown fields of
// the top level. plugins are the names of the plugins that exist.
func checkVersion(root *yaml.Node, plugins []string) error {
	var changes []change
	oldVersion := ""
	upgrade := func(apiVersion *yaml.Node, path string) {
		group, version, _ := strings.Cut(text(apiVersion), "/")
		if group == kubeschedulerconfigv1.GroupName && slices.Contains([]string{"v1beta1", "v1beta2", "v1beta3"}, version) {
			oldVersion = cmp.Or(oldVersion, apiVersion.Value)
			apiVersion.Value = kubeschedulerconfigv1.SchemeGroupVersion.String()
			changes = append(changes, change{apiVersion.Line, path + ": write " + apiVersion.Value})
		}
	}
	listed := sets.New[string]()
	for _, p := range findUnknownPlugins(root, plugins) {
		listed.Insert(p.path)
		advice := p.advice
		if len(p.similar) > 0 {
			advice = "write " + strings.Join(p.similar, " or ") + ", or " + removeEntry
		}
		text := fmt.Sprintf("%s: %s does not exist: %s", p.path, p.name.Value, cmp.Or(advice, removeEntry))
		changes = append(changes, change{p.name.Line, text})
	}
	fileVersion := text(entry(root, "apiVersion"))
	upgrade(entry(root, "apiVersion"), "apiVersion")
	for i, profile := range items(entry(root, "profiles")) {
		for j, pluginConfig := range items(entry(profile, "pluginConfig")) {
			if path := fmt.Sprintf("profiles[%d].pluginConfig[%d]", i, j); !listed.Has(path) {
				upgrade(entry(entry(pluginConfig, "args"), "apiVersion"), path+".args.apiVersion")
			}
		}
	}
	if oldVersion == "" {
		return nil
	}
	changes = append(changes, removeUnknownFields(root)...)
	changes = append(changes, invalid(root, listed)...)
	// Changes without a line come last.
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(uint(a.line-1), uint(b.line-1)) })

	var b strings.Builder
	fmt.Fprintf(&b, "%s is no longer supported; to upgrade to %s, change these lines:",
		oldVersion, kubeschedulerconfigv1.SchemeGroupVersion)
	for _, c := range changes {
		b.WriteString("\n  " + c.String())
	}
	if strings.HasSuffix(fileVersion, "/v1beta1") || strings.HasSuffix(fileVersion, "/v1beta2") {
		b.WriteString("\nDefault weights differ in v1: InterPodAffinity has 2 (1 before), NodeAffinity 2 (1) and TaintToleration 3 (1).")
	}
	return errors.New(b.String())
}

// removeUnknownFields removes the fields of the top level that v1 does not have. Otherwise they would hide what else is invalid.
func removeUnknownFields(root *yaml.Node) (changes []change) {
	fields := FieldTypes(reflect.TypeFor[kubeschedulerconfigv1.KubeSchedulerConfiguration]())
	for i := 0; i+1 < len(root.Content); {
		key := root.Content[i]
		if _, ok := fields[key.Value]; ok || key.Tag == "!!merge" {
			i += 2
			continue
		}
		unknown := unknownField(key, "", fields)
		if key.Value == "healthzBindAddress" || key.Value == "metricsBindAddress" {
			unknown.text = key.Value + ": remove this line; /healthz and /metrics are served over HTTPS, " +
				"at --bind-address (0.0.0.0) and --secure-port (10259)"
		}
		changes = append(changes, unknown)
		root.Content = slices.Delete(root.Content, i, i+2)
	}
	return changes
}

// invalid returns what the scheduler would refuse in a file of v1, except for the listed fields. If the
// file has malformed or unknown fields, it returns only these: v1 cannot decode it.
func invalid(root *yaml.Node, listed sets.Set[string]) (changes []change) {
	content, err := yaml.Marshal(root)
	if err != nil {
		return nil
	}
	cfg, err := Decode(content)
	if err != nil {
		if fields := checkFields(root); len(fields.invalid)+len(fields.unknown) > 0 {
			return slices.Concat(fields.invalid, fields.unknown)
		}
		return []change{{0, "after these changes there is still: " + err.Error()}}
	}
	files := credentialfile.Readers()
	for _, err := range []error{
		kubeschedulervalidation.ValidateKubeSchedulerConfiguration(cfg), validation.ValidatePluginConfigs(cfg, files),
	} {
		all, _ := errors.AsType[utilerrors.Aggregate](err)
		if all == nil {
			continue
		}
		for _, err := range all.Errors() {
			invalid, ok := errors.AsType[*field.Error](err)
			switch {
			case !ok:
				changes = append(changes, change{0, err.Error()})
			case !listed.Has(invalid.Field):
				changes = append(changes, change{lineOf(root, invalid.Field), invalid.Error()})
			}
		}
	}
	return changes
}

// removeEntry is the advice to remove an entry. It is all of the advice if nothing replaces the plugin.
const removeEntry = "remove this entry"

// replacement is the advice for a removed plugin in an enabled list, in a disabled list and in pluginConfig. An empty one means
// removeEntry.
type replacement struct{ enabled, disabled, args string }

// removedPlugins returns the plugins that v1beta1, v1beta2 or v1beta3 had and v1 does not have.
func removedPlugins() map[string]replacement {
	// NodeResourcesFit replaces three plugins.
	scoring := func(strategy, arguments string) replacement {
		return replacement{
			enabled: "write NodeResourcesFit, and for it below pluginConfig, args: {scoringStrategy: {type: " + strategy + "}}",
			args: "write name: NodeResourcesFit, and args: {scoringStrategy: {type: " + strategy + ", " + arguments + "}} and " +
				"fill in the values of the present args",
		}
	}
	least := scoring("LeastAllocated", "resources: […]")
	least.enabled = "write NodeResourcesFit, whose default scoringStrategy is LeastAllocated"
	least.disabled = "write NodeResourcesFit, which now scores by requests; if only score disables it, it still filters"

	volumes := replacement{enabled: removeEntry + "; NodeVolumeLimits, enabled by default, counts all volumes"}
	return map[string]replacement{
		"NodeResourcesLeastAllocated": least,
		"NodeResourcesMostAllocated":  scoring("MostAllocated", "resources: […]"),
		"RequestedToCapacityRatio":    scoring("RequestedToCapacityRatio", "resources: […], requestedToCapacityRatio: {shape: […]}"),
		"NodeResourceLimits":          {},
		"NodeLabel": {
			enabled: removeEntry + "; NodeAffinity, enabled by default, selects nodes by labels",
			args: "write name: NodeAffinity, and args: {addedAffinity: …} with matchExpressions, whose operator is Exists for " +
				"presentLabels and DoesNotExist for absentLabels",
		},
		"ServiceAffinity": {
			enabled: removeEntry + "; use podAffinity in the pods, which InterPodAffinity, enabled by default, implements",
		},
		"NodePreferAvoidPods": {enabled: removeEntry + "; use taints with the effect PreferNoSchedule"},
		"SelectorSpread":      {enabled: removeEntry + "; PodTopologySpread, enabled by default, spreads the pods of a service"},
		"AzureDiskLimits":     volumes,
		"CinderLimits":        volumes,
		"EBSLimits":           volumes,
		"GCEPDLimits":         volumes,
	}
}
