package configlint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
)

// checkVersion returns an error if root has v1beta1, v1beta2 or v1beta3 anywhere. The error lists the lines to change, and what
// else changed for v1. Names that v1 does not have are reported with their lines once the versions are v1.
func checkVersion(root *yaml.Node) error {
	var lines []string
	old := ""
	check := func(apiVersion *yaml.Node, path string) {
		group, version, _ := strings.Cut(text(apiVersion), "/")
		if group == kubeschedulerconfigv1.GroupName && slices.Contains([]string{"v1beta1", "v1beta2", "v1beta3"}, version) {
			old = apiVersion.Value
			lines = append(lines, fmt.Sprintf("line %d: %s: %s", apiVersion.Line, path, version))
		}
	}
	check(entry(root, "apiVersion"), "apiVersion")
	for i, profile := range items(entry(root, "profiles")) {
		for j, plugin := range items(entry(profile, "pluginConfig")) {
			check(entry(entry(plugin, "args"), "apiVersion"), fmt.Sprintf("profiles[%d].pluginConfig[%d].args.apiVersion", i, j))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%s is no longer supported; write %s in\n  %s\nand remove healthzBindAddress and metricsBindAddress "+
		"(v1 serves both over HTTPS at --secure-port). Compared with v1beta1 and v1beta2, default weights differ in v1: "+
		"InterPodAffinity has 2 (1 before), NodeAffinity 2 (1) and TaintToleration 3 (1). Then check again: "+
		"plugins and fields that v1 does not have are reported next",
		old, kubeschedulerconfigv1.SchemeGroupVersion, strings.Join(lines, "\n  "))
}
