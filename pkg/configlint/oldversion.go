package configlint

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

// change is what the operator has to change in one line of a configuration.
type change struct {
	// line counts from 1; 0 if no single line is to be changed.
	line   int
	path   string
	advice string
}

// checkVersion returns an error with the changes from v1beta1, v1beta2 or v1beta3 to v1. plugins are the names of the plugins
// that exist.
func checkVersion(content []byte, plugins []string) error {
	u := &upgrade{root: parse(content), plugins: plugins}
	fileVersion := text(entry(u.root, "apiVersion"))
	u.version(entry(u.root, "apiVersion"), "apiVersion")
	u.addresses()
	u.resourceLock()
	for i, profile := range items(entry(u.root, "profiles")) {
		path := fmt.Sprintf("profiles[%d]", i)
		u.pluginSets(entry(profile, "plugins"), path+".plugins")
		for j, pluginConfig := range items(entry(profile, "pluginConfig")) {
			u.pluginConfig(pluginConfig, fmt.Sprintf("%s.pluginConfig[%d]", path, j))
		}
	}
	if u.oldVersion == "" {
		return nil
	}
	u.validate()

	lineOrLast := func(c change) int {
		if c.line == 0 {
			return math.MaxInt
		}
		return c.line
	}
	slices.SortStableFunc(u.changes, func(a, b change) int { return cmp.Compare(lineOrLast(a), lineOrLast(b)) })

	var b strings.Builder
	fmt.Fprintf(&b, "%s is no longer read; to reach %s, change these lines:", u.oldVersion, kubeschedulerconfigv1.SchemeGroupVersion)
	for _, c := range u.changes {
		b.WriteString("\n  ")
		if c.line > 0 {
			fmt.Fprintf(&b, "line %d: ", c.line)
		}
		if c.path != "" {
			fmt.Fprintf(&b, "%s: ", c.path)
		}
		b.WriteString(c.advice)
	}
	if strings.HasSuffix(fileVersion, "/v1beta1") || strings.HasSuffix(fileVersion, "/v1beta2") {
		b.WriteString("\nDefault weights differ in v1: InterPodAffinity has 2 (1 before), NodeAffinity 2 (1) and TaintToleration 3 (1).")
	}
	return errors.New(b.String())
}

// upgrade collects the changes to reach v1, and applies them to the parsed file before it is validated.
type upgrade struct {
	root *yaml.Node
	// plugins are the names of the plugins that exist.
	plugins []string
	// oldVersion is the first old version in the file; empty if there is none.
	oldVersion string
	changes    []change
}

func (u *upgrade) add(line int, path, advice string) {
	u.changes = append(u.changes, change{line: line, path: path, advice: advice})
}

func (u *upgrade) version(apiVersion *yaml.Node, path string) {
	if apiVersion == nil {
		return
	}
	group, version, _ := strings.Cut(apiVersion.Value, "/")
	if group != kubeschedulerconfigv1.GroupName || !slices.Contains([]string{"v1beta1", "v1beta2", "v1beta3"}, version) {
		return
	}
	u.oldVersion = cmp.Or(u.oldVersion, apiVersion.Value)
	apiVersion.Value = kubeschedulerconfigv1.SchemeGroupVersion.String()
	u.add(apiVersion.Line, path, "write "+apiVersion.Value)
}

// addresses handles two fields that v1beta3 dropped.
func (u *upgrade) addresses() {
	for _, name := range []string{"healthzBindAddress", "metricsBindAddress"} {
		if line := remove(u.root, name); line > 0 {
			u.add(line, name, "remove this line; /healthz and /metrics are served over HTTPS, "+
				"at --bind-address (0.0.0.0) and --secure-port (10259)")
		}
	}
}

func (u *upgrade) resourceLock() {
	lock := entry(entry(u.root, "leaderElection"), "resourceLock")
	if lock == nil || lock.Value == "leases" {
		return
	}
	u.add(lock.Line, "leaderElection.resourceLock", "write leases; "+lock.Value+" no longer exists")
	lock.Value = "leases"
}

func (u *upgrade) pluginSets(sets *yaml.Node, path string) {
	for point, set := range pairs(sets) {
		for list, entries := range pairs(set) {
			var kept []*yaml.Node
			for i, plugin := range items(entries) {
				name := entry(plugin, "name")
				at := fmt.Sprintf("%s.%s.%s[%d]", path, point.Value, list.Value, i)
				removed, ok := removedPlugins()[text(name)]
				if !ok {
					kept = append(kept, plugin)
					if list.Value == "enabled" { // a disabled one is a finding in any version
						u.unknownPlugin(name, at)
					}
					continue
				}
				advice := removed.enabled
				if list.Value == "disabled" {
					advice = removed.disabled
				}
				u.removedPlugin(name, at, advice)
			}
			entries.Content = kept
		}
	}
}

func (u *upgrade) removedPlugin(name *yaml.Node, path, advice string) {
	u.add(name.Line, path, name.Value+" no longer exists: "+cmp.Or(advice, noReplacement))
}

// unknownPlugin reports a plugin that no version has, and returns whether name is one.
func (u *upgrade) unknownPlugin(name *yaml.Node, path string) bool {
	if text(name) == "" || slices.Contains(u.plugins, text(name)) {
		return false
	}
	advice := noReplacement
	if similar := SimilarNames(text(name), u.plugins); len(similar) > 0 {
		advice = "write " + strings.Join(similar, " or ") + ", or " + noReplacement
	}
	u.add(name.Line, path, text(name)+" does not exist: "+advice)
	return true
}

func (u *upgrade) pluginConfig(pluginConfig *yaml.Node, path string) {
	name := entry(pluginConfig, "name")
	if removed, ok := removedPlugins()[text(name)]; ok {
		u.removedPlugin(name, path, removed.args)
		return
	}
	if u.unknownPlugin(name, path) {
		return
	}
	u.version(entry(entry(pluginConfig, "args"), "apiVersion"), path+".args.apiVersion")
}

// validate adds what the scheduler would refuse after the changes so far.
func (u *upgrade) validate() {
	content, err := yaml.Marshal(u.root)
	if err != nil {
		return
	}
	cfg, err := Decode(content)
	if err != nil {
		u.add(0, "", "after these changes there is still: "+err.Error())
		return
	}
	files := validation.Files{Token: boundedfile.ReadToken, CA: boundedfile.ReadCA}
	stock, own := kubeschedulervalidation.ValidateKubeSchedulerConfiguration(cfg), validation.ValidatePluginConfigs(cfg, files)
	for _, err := range []error{stock, own} {
		all, _ := errors.AsType[utilerrors.Aggregate](err)
		if all == nil {
			continue
		}
		for _, err := range all.Errors() {
			if invalid, ok := errors.AsType[*field.Error](err); ok {
				u.add(lineOf(u.root, invalid.Field), invalid.Field, invalid.ErrorBody())
			} else {
				u.add(0, "", err.Error())
			}
		}
	}
}

// noReplacement is the advice for a plugin that has no replacement.
const noReplacement = "remove this entry"

// replacement is the advice for a removed plugin, by list. An empty one means noReplacement.
type replacement struct{ enabled, disabled, args string }

// removedPlugins returns the plugins that v1beta1, v1beta2 or v1beta3 had and v1 does not have.
func removedPlugins() map[string]replacement {
	// NodeResourcesFit replaces three plugins.
	scoring := func(strategy, arguments string) replacement {
		return replacement{
			enabled: "write NodeResourcesFit, and for it below pluginConfig, args: {scoringStrategy: {type: " + strategy + "}}",
			args: "write name: NodeResourcesFit, and args: {scoringStrategy: {type: " + strategy + ", " + arguments + "}} with " +
				"the values of these args",
		}
	}
	least := scoring("LeastAllocated", "resources: […]")
	least.enabled = "write NodeResourcesFit, whose default scoringStrategy is LeastAllocated"
	least.disabled = "write NodeResourcesFit, which now scores by requests and, disabled under score alone, still filters"

	volumes := replacement{enabled: noReplacement + "; NodeVolumeLimits, enabled by default, counts all volumes"}
	return map[string]replacement{
		"NodeResourcesLeastAllocated": least,
		"NodeResourcesMostAllocated":  scoring("MostAllocated", "resources: […]"),
		"RequestedToCapacityRatio":    scoring("RequestedToCapacityRatio", "resources: […], requestedToCapacityRatio: {shape: […]}"),
		"NodeResourceLimits":          {},
		"NodeLabel": {
			enabled: noReplacement + "; NodeAffinity, enabled by default, selects nodes by labels",
			args: "write name: NodeAffinity, and args: {addedAffinity: …} with matchExpressions, whose operator is Exists for " +
				"presentLabels and DoesNotExist for absentLabels",
		},
		"ServiceAffinity": {
			enabled: noReplacement + "; use podAffinity in the pods, which InterPodAffinity, enabled by default, implements",
		},
		"NodePreferAvoidPods": {enabled: noReplacement + "; use taints with the effect PreferNoSchedule"},
		"SelectorSpread":      {enabled: noReplacement + "; PodTopologySpread, enabled by default, spreads the pods of a service"},
		"AzureDiskLimits":     volumes,
		"CinderLimits":        volumes,
		"EBSLimits":           volumes,
		"GCEPDLimits":         volumes,
	}
}
