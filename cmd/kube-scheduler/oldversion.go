package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	kubeschedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
)

// change is what has to be done to one line of a configuration.
type change struct {
	// line counts from 1; 0 stands for no line in particular.
	line int
	path string
	what string
}

// oldVersionError tells how a file of an old version gets to the one that is read.
type oldVersionError struct {
	version string
	changes []change
	note    string
}

// Error is of one line a change, in the order of the file.
func (e *oldVersionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is no longer read; to reach %s, change these lines:", e.version, kubeschedulerconfigv1.SchemeGroupVersion)
	for _, c := range e.changes {
		b.WriteString("\n  ")
		if c.line > 0 {
			fmt.Fprintf(&b, "line %d: ", c.line)
		}
		if c.path != "" {
			fmt.Fprintf(&b, "%s: ", c.path)
		}
		b.WriteString(c.what)
	}
	if e.note != "" {
		b.WriteString("\n" + e.note)
	}
	return b.String()
}

// checkVersion returns an *oldVersionError if the configuration, or the arguments of a plugin in it, are of v1beta1, v1beta2
// or v1beta3. known are the names of the plugins that there are. What is no YAML is left to whoever reads it.
func checkVersion(content []byte, known []string) error {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil // the decoder says it better
	}
	u := &upgrade{root: document.Content[0], known: known}
	ofFile := text(entry(u.root, "apiVersion"))
	u.version(entry(u.root, "apiVersion"), "apiVersion")
	u.addresses()
	u.resourceLock()
	for i, profile := range items(entry(u.root, "profiles")) {
		path := fmt.Sprintf("profiles[%d]", i)
		u.plugins(entry(profile, "plugins"), path+".plugins")
		for j, pluginConfig := range items(entry(profile, "pluginConfig")) {
			u.pluginConfig(pluginConfig, fmt.Sprintf("%s.pluginConfig[%d]", path, j))
		}
	}
	if u.old == "" {
		return nil
	}
	changes := append(u.changes, u.remaining()...)
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(min(a.line, 1), min(b.line, 1))*-1, cmp.Compare(a.line, b.line))
	})
	err := &oldVersionError{version: u.old, changes: changes}
	if strings.HasSuffix(ofFile, "/v1beta1") || strings.HasSuffix(ofFile, "/v1beta2") {
		err.note = "Where the file gives no weights, v1 weighs InterPodAffinity by 2 (1 before), NodeAffinity by 2 (1) and TaintToleration by 3 (1)."
	}
	return err
}

// upgrade collects what leads to v1, and makes those changes to the parsed file that are needed to see what remains.
type upgrade struct {
	root *yaml.Node
	// known are the names of the plugins that there are.
	known []string
	// old is the first old version that was met; empty if there is none.
	old     string
	changes []change
}

func (u *upgrade) say(line int, path, what string) {
	u.changes = append(u.changes, change{line: line, path: path, what: what})
}

func (u *upgrade) version(apiVersion *yaml.Node, path string) {
	if apiVersion == nil {
		return
	}
	group, version, _ := strings.Cut(apiVersion.Value, "/")
	if group != kubeschedulerconfigv1.GroupName || !slices.Contains([]string{"v1beta1", "v1beta2", "v1beta3"}, version) {
		return
	}
	u.old = cmp.Or(u.old, apiVersion.Value)
	apiVersion.Value = kubeschedulerconfigv1.SchemeGroupVersion.String()
	u.say(apiVersion.Line, path, "write "+apiVersion.Value)
}

// addresses were fields up to v1beta2.
func (u *upgrade) addresses() {
	for _, name := range []string{"healthzBindAddress", "metricsBindAddress"} {
		if line := remove(u.root, name); line > 0 {
			u.say(line, name, "remove this line; /healthz and /metrics are served over HTTPS, at --bind-address (0.0.0.0) and --secure-port (10259)")
		}
	}
}

func (u *upgrade) resourceLock() {
	lock := entry(entry(u.root, "leaderElection"), "resourceLock")
	if lock == nil || lock.Value == "leases" {
		return
	}
	u.say(lock.Line, "leaderElection.resourceLock", "write leases; "+lock.Value+" is gone")
	lock.Value = "leases"
}

func (u *upgrade) plugins(plugins *yaml.Node, path string) {
	for point, set := range pairs(plugins) {
		for list, entries := range pairs(set) {
			var kept []*yaml.Node
			for i, plugin := range items(entries) {
				name := entry(plugin, "name")
				at := fmt.Sprintf("%s.%s.%s[%d]", path, point.Value, list.Value, i)
				gone, ok := successors()[text(name)]
				if !ok {
					kept = append(kept, plugin)
					if list.Value == "enabled" { // disabled it is warned of in any version
						u.unknown(name, at)
					}
					continue
				}
				advice := gone.enabled
				if list.Value == "disabled" {
					advice = gone.disabled
				}
				u.gone(name, at, advice)
			}
			entries.Content = kept
		}
	}
}

func (u *upgrade) gone(name *yaml.Node, path, advice string) {
	u.say(name.Line, path, name.Value+" is gone: "+cmp.Or(advice, noSuccessor))
}

// unknown tells of a plugin that neither was in an old version nor is here, and returns whether it is one.
func (u *upgrade) unknown(name *yaml.Node, path string) bool {
	if text(name) == "" || slices.Contains(u.known, text(name)) {
		return false
	}
	advice := noSuccessor
	if similar := near(text(name), u.known); len(similar) > 0 {
		advice = "write " + strings.Join(similar, " or ") + ", or " + noSuccessor
	}
	u.say(name.Line, path, text(name)+" does not exist: "+advice)
	return true
}

func (u *upgrade) pluginConfig(pluginConfig *yaml.Node, path string) {
	name := entry(pluginConfig, "name")
	if gone, ok := successors()[text(name)]; ok {
		u.gone(name, path, gone.args)
		return
	}
	if u.unknown(name, path) {
		return
	}
	u.version(entry(entry(pluginConfig, "args"), "apiVersion"), path+".args.apiVersion")
}

// remaining returns what the scheduler would refuse once the changes are made.
func (u *upgrade) remaining() []change {
	content, err := yaml.Marshal(u.root)
	if err != nil {
		return nil
	}
	object, _, err := kubeschedulerscheme.Codecs.UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		return []change{{what: "and then there is still: " + err.Error()}}
	}
	cfg, ok := object.(*kubeschedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil
	}
	cfg.APIVersion = kubeschedulerconfigv1.SchemeGroupVersion.String()
	var changes []change
	for _, err := range []error{kubeschedulervalidation.ValidateKubeSchedulerConfiguration(cfg), validation.ValidatePluginConfigs(cfg)} {
		all, _ := errors.AsType[utilerrors.Aggregate](err)
		if all == nil {
			continue
		}
		for _, err := range all.Errors() {
			if mistake, ok := errors.AsType[*field.Error](err); ok {
				changes = append(changes, change{line: lineOf(u.root, mistake.Field), path: mistake.Field, what: mistake.ErrorBody()})
			} else {
				changes = append(changes, change{what: err.Error()})
			}
		}
	}
	return changes
}

// noSuccessor is what to do with a plugin that is gone and has no successor.
const noSuccessor = "remove this entry"

// successor says what to do where a plugin that is gone is named; empty means noSuccessor.
type successor struct{ enabled, disabled, args string }

// successors returns the plugins that v1beta1, v1beta2 or v1beta3 had and v1 has not.
func successors() map[string]successor {
	// NodeResourcesFit took three plugins in.
	scoring := func(strategy, arguments string) successor {
		return successor{
			enabled: "write NodeResourcesFit, and for it below pluginConfig, args: {scoringStrategy: {type: " + strategy + "}}",
			args: "write name: NodeResourcesFit, and args: {scoringStrategy: {type: " + strategy + ", " + arguments + "}} with " +
				"what stands here",
		}
	}
	least := scoring("LeastAllocated", "resources: […]")
	least.enabled = "write NodeResourcesFit, which scores so by default"
	least.disabled = "write NodeResourcesFit, which scores by requests in its place and, disabled under score alone, still filters"

	volumes := successor{enabled: noSuccessor + "; NodeVolumeLimits, enabled by default, counts all volumes"}
	return map[string]successor{
		"NodeResourcesLeastAllocated": least,
		"NodeResourcesMostAllocated":  scoring("MostAllocated", "resources: […]"),
		"RequestedToCapacityRatio":    scoring("RequestedToCapacityRatio", "resources: […], requestedToCapacityRatio: {shape: […]}"),
		"NodeResourceLimits":          {},
		"NodeLabel": {
			enabled: noSuccessor + "; NodeAffinity, enabled by default, selects nodes by labels",
			args: "write name: NodeAffinity, and args: {addedAffinity: …} with matchExpressions, whose operator is Exists for " +
				"presentLabels and DoesNotExist for absentLabels",
		},
		"ServiceAffinity": {
			enabled: noSuccessor + "; InterPodAffinity, enabled by default, does as much by the podAffinity of the pods",
		},
		"NodePreferAvoidPods": {enabled: noSuccessor + "; nodes are avoided by taints with the effect PreferNoSchedule"},
		"SelectorSpread":      {enabled: noSuccessor + "; PodTopologySpread, enabled by default, spreads the pods of a service"},
		"AzureDiskLimits":     volumes,
		"CinderLimits":        volumes,
		"EBSLimits":           volumes,
		"GCEPDLimits":         volumes,
	}
}
