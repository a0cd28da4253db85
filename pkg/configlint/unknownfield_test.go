package configlint_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

func TestCheck_UnknownFields(t *testing.T) {
	// args is a configuration whose arguments of the plugin begin in line 6.
	args := func(plugin, args string) string {
		return "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
			"profiles:\n- pluginConfig:\n  - name: " + plugin + "\n    args: " + args + "\n"
	}
	for _, tt := range []struct {
		name, config string
		// want is how the error ends.
		want string
	}{
		{
			"an argument", args("TargetLoadPacking", "{targetUtilisation: 40}"), `unknown field "targetUtilisation"; ` +
				"line 6: profiles[0].pluginConfig[0].args.targetUtilisation: there is no such field: did you mean targetUtilization?",
		},
		{"an argument in another case", args("Peaks", "{maxage: 1m}"), "line 6: profiles[0].pluginConfig[0].args.maxage: there is no such field: did you mean maxAge?"},
		{
			"a field of the source, and one of its queries", args("LoadThreshold", "{metricProvider: {addrss: a, queries: {memry: b}}}"),
			"line 6: profiles[0].pluginConfig[0].args.metricProvider.addrss: there is no such field: did you mean address?; " +
				"line 6: profiles[0].pluginConfig[0].args.metricProvider.queries.memry: there is no such field: did you mean memory?",
		},
		{
			"a field of an element of a list", args("NodeMetrics", "{metrics: [{name: a}, {name: b, wieght: 2}]}"),
			"line 6: profiles[0].pluginConfig[0].args.metrics[1].wieght: there is no such field: did you mean weight?",
		},
		{
			"a field of a map's value", args("Peaks", "{nodePowerModel: {n1: {k0: 1, k3: 2}}}"),
			"line 6: profiles[0].pluginConfig[0].args.nodePowerModel.n1.k3: there is no such field: did you mean k0 or k1 or k2?",
		},
		{
			"a name that no other is similar to", args("LoadThreshold", "{thresholds: {throughput: 2}}"),
			"line 6: profiles[0].pluginConfig[0].args.thresholds.throughput: there is no such field: the fields are cpu, memory",
		},
		{
			"an argument of a stock plugin", args("NodeResourcesFit", "{ignoredResource: [a]}"),
			"line 6: profiles[0].pluginConfig[0].args.ignoredResource: there is no such field: did you mean ignoredResourceGroups or ignoredResources?",
		},
		{
			"a field that is merged in", args("TargetLoadPacking", "{<<: {windw: 1m}, metricProvider: {}}"),
			"line 6: profiles[0].pluginConfig[0].args.windw: there is no such field: did you mean window?",
		},
		{
			"a field of the configuration", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n",
			"line 3: profile: there is no such field: did you mean profiles?",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := configlint.Check([]byte(tt.config), plugins.LintOptions())
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("Check() = %v\nwant an error that ends with %s", err, tt.want)
			}
		})
	}
}

func TestCheck_ValuesOfAnotherType(t *testing.T) {
	args := func(plugin, args string) string {
		return "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
			"profiles:\n- pluginConfig:\n  - name: " + plugin + "\n    args:\n      " + args + "\n"
	}
	const path = "profiles[0].pluginConfig[0].args."
	for _, tt := range []struct{ name, config, want string }{
		{
			"a quantity", args("TargetLoadPacking", "window: 5m\n      defaultRequests: {cpu: '1 core'}"),
			"line 8: " + path + `defaultRequests.cpu: Invalid value: "1 core": must be a quantity: write a number with or without a suffix, such as 2, 500m or 1Gi`,
		},
		{
			"a quantity that takes forever", args("TargetLoadPacking", "window: 5m\n      defaultRequests: {cpu: '1e-99999999'}"),
			"line 8: " + path + `defaultRequests.cpu: Invalid value: "1e-99999999": must be a quantity: write a number with or without a suffix, such as 2, 500m or 1Gi`,
		},
		{
			"a duration", args("TargetLoadPacking", "window: 5 minutes"),
			"line 7: " + path + `window: Invalid value: "5 minutes": must be a duration: write numbers with units and without blanks, such as 30s, 5m or 1h30m`,
		},
		{
			"a duration without a unit", args("TargetLoadPacking", "metricProvider: {timeout: 5}"),
			"line 7: " + path + `metricProvider.timeout: Invalid value: "5": must be a duration: write numbers with units and without blanks, such as 30s, 5m or 1h30m`,
		},
		{
			"a whole number", args("TargetLoadPacking", "targetUtilization: forty"),
			"line 7: " + path + `targetUtilization: Invalid value: "forty": must be a whole number, without quotes`,
		},
		{"a number", args("Peaks", "nodePowerModel: {n1: {k0: many}}"), "line 7: " + path + `nodePowerModel.n1.k0: Invalid value: "many": must be a number, without quotes`},
		{
			"a truth value", args("LoadThreshold", "ignoreDaemonSets: 'true'"),
			"line 7: " + path + `ignoreDaemonSets: Invalid value: "true": must be true or false, without quotes`,
		},
		{
			"a string, which may be secret", args("Peaks", "metricProvider: {token: 123456}"),
			"line 7: " + path + "metricProvider.token: Invalid value: must be a string: write it in quotes",
		},
		{"a list", args("NodeMetrics", "metrics: {name: m}"), "line 7: " + path + "metrics: Invalid value: must be a list"},
		{
			"an element of a list", args("NodeMetrics", "metrics:\n      - &m {name: m}\n      - *m\n      - query"),
			"line 10: " + path + `metrics[2]: Invalid value: "query": must be a mapping of names to values`,
		},
		{
			"an argument of a stock plugin", args("InterPodAffinity", "hardPodAffinityWeight: heavy"),
			"line 7: " + path + `hardPodAffinityWeight: Invalid value: "heavy": must be a whole number, without quotes`,
		},
		{
			"a field of the configuration", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaseDuration: long}\n",
			`line 3: leaderElection.leaseDuration: Invalid value: "long": must be a duration: write numbers with units and without blanks, such as 30s, 5m or 1h30m`,
		},
		{
			"two values and an unknown field", args("TargetLoadPacking", "{window: &w 5 minutes, maxAge: *w, windw: 1m, missingLoad: null, metricProvider: null}"),
			"[line 7: " + path + `window: Invalid value: "5 minutes": must be a duration: write numbers with units and without blanks, such as 30s, 5m or 1h30m, ` +
				"line 7: " + path + `maxAge: Invalid value: "5 minutes": must be a duration: write numbers with units and without blanks, such as 30s, 5m or 1h30m, ` +
				"line 7: " + path + "windw: there is no such field: did you mean window?]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := configlint.Check([]byte(tt.config), plugins.LintOptions())
			if err == nil || err.Error() != tt.want {
				t.Errorf("Check() = %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestCheck_Empty(t *testing.T) {
	for _, content := range []string{"", "\n", "# nothing but this\n"} {
		_, _, err := configlint.Check([]byte(content), plugins.LintOptions())
		if err == nil ||
			!strings.HasPrefix(err.Error(),
				"the configuration is empty: write apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration") {
			t.Errorf("Check(%q) = %v, want that it is empty, and what to write", content, err)
		}
	}
}
