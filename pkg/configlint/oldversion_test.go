package configlint_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

func TestCheck_OldVersion(t *testing.T) {
	for _, tt := range []struct{ name, config, want string }{
		{"the version of the file", `apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
healthzBindAddress: 0.0.0.0:10251
`, "line 1: apiVersion: v1beta3\n"},
		{"JSON", `{"apiVersion": "kubescheduler.config.k8s.io/v1beta2", "kind": "KubeSchedulerConfiguration"}`, "line 1: apiVersion: v1beta2\n"},
		{"the version of arguments", `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: TargetLoadPacking
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta1
`, "line 7: profiles[0].pluginConfig[0].args.apiVersion: v1beta1\n"},
	} {
		_, _, err := configlint.Check([]byte(tt.config), plugins.LintOptions())
		want := " is no longer supported; write kubescheduler.config.k8s.io/v1 in\n  " + tt.want + "and remove healthzBindAddress"
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "TaintToleration 3 (1)") {
			t.Errorf("%s: %v, want %s", tt.name, err, want)
		}
	}
}

func TestCheck_OtherVersionsAreLeftToTheDecoder(t *testing.T) {
	for name, config := range map[string]string{
		"v1":                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nhealthzBindAddress: x\n",
		"an unknown one":    "apiVersion: kubescheduler.config.k8s.io/v1alpha2\nkind: KubeSchedulerConfiguration\n",
		"another group":     "apiVersion: config.example.com/v1beta1\nkind: KubeSchedulerConfiguration\n",
		"none":              "kind: KubeSchedulerConfiguration\n",
		"no YAML":           "apiVersion: [",
		"nothing":           "",
		"a scalar":          "kubescheduler.config.k8s.io/v1beta1",
		"lists of scalars":  "apiVersion: kubescheduler.config.k8s.io/v1\nprofiles: [1, [2], {plugins: 3, pluginConfig: [4]}]\n",
		"lists as mappings": "apiVersion: kubescheduler.config.k8s.io/v1\nprofiles: {plugins: {score: {enabled: {name: SelectorSpread}}}}\n",
		"another kind":      "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := configlint.Check([]byte(config), plugins.LintOptions())
			if err == nil || strings.Contains(err.Error(), "no longer supported") {
				t.Errorf("got %v, want the decoder's error", err)
			}
		})
	}
}
