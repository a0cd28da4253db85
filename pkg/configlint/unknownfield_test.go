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
			"an argument", args("TargetLoadPacking", "{targetUtilisation: 40}"),
			"line 6: profiles[0].pluginConfig[0].args.targetUtilisation: there is no such field: did you mean targetUtilization?",
		},
		{"an argument in another case", args("Peaks", "{maxage: 1m}"), "line 6: profiles[0].pluginConfig[0].args.maxage: there is no such field: did you mean maxAge?"},
		{
			"a field of the source, and one of its queries", args("LoadThreshold", "{metricProvider: {addrss: a, queries: {memry: b}}}"),
			"[line 6: profiles[0].pluginConfig[0].args.metricProvider.addrss: there is no such field: did you mean address?, " +
				"line 6: profiles[0].pluginConfig[0].args.metricProvider.queries.memry: there is no such field: did you mean memory?]",
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
			"line 8: " + path + `defaultRequests: want v1.ResourceList: "cpu": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		},
		{
			"a quantity that takes forever", args("TargetLoadPacking", "window: 5m\n      defaultRequests: {cpu: '1e-99999999'}"),
			"line 8: " + path + `defaultRequests: want v1.ResourceList: "cpu": "1e-99999999" is no quantity: it must have at most 64 characters, and an exponent of at most 3 digits`,
		},
		{
			"a duration", args("TargetLoadPacking", "window: 5 minutes"),
			"line 7: " + path + `window: want a duration such as 5m: time: unknown unit " minutes" in duration "5 minutes"`,
		},
		{
			"a duration without a unit", args("TargetLoadPacking", "metricProvider: {timeout: 5}"),
			"line 7: " + path + `metricProvider.timeout: want a duration such as 5m: json: cannot unmarshal number into Go value of type string`,
		},
		{
			"a whole number", args("TargetLoadPacking", "targetUtilization: forty"),
			"line 7: " + path + `targetUtilization: want int64: json: cannot unmarshal string into Go value of type int64`,
		},
		{"a number", args("Peaks", "nodePowerModel: {n1: {k0: many}}"), "line 7: " + path + `nodePowerModel.n1.k0: want float64: json: cannot unmarshal string into Go value of type float64`},
		{
			"a truth value", args("LoadThreshold", "ignoreDaemonSets: 'true'"),
			"line 7: " + path + `ignoreDaemonSets: want bool: json: cannot unmarshal string into Go value of type bool`,
		},
		{
			"a string, which may be secret", args("Peaks", "metricProvider: {token: 123456}"),
			"line 7: " + path + "metricProvider.token: want config.Secret: json: cannot unmarshal number into Go value of type config.Secret",
		},
		{"a list", args("NodeMetrics", "metrics: {name: m}"), "line 7: " + path + "metrics: want []v1.NodeMetric: json: cannot unmarshal object into Go value of type []v1.NodeMetric"},
		{
			"an element of a list", args("NodeMetrics", "metrics:\n      - &m {name: m}\n      - *m\n      - query"),
			"line 10: " + path + `metrics[2]: want v1.NodeMetric: json: cannot unmarshal string into Go value of type v1.NodeMetric`,
		},
		{
			"an argument of a stock plugin", args("InterPodAffinity", "hardPodAffinityWeight: heavy"),
			"line 7: " + path + `hardPodAffinityWeight: want int32: json: cannot unmarshal string into Go value of type int32`,
		},
		{
			"a field of the configuration", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaseDuration: long}\n",
			`line 3: leaderElection.leaseDuration: want a duration such as 5m: time: invalid duration "long"`,
		},
		{
			"two values and an unknown field", args("TargetLoadPacking", "{window: &w 5 minutes, maxAge: *w, windw: 1m, missingLoad: null, metricProvider: null}"),
			"[line 7: " + path + `window: want a duration such as 5m: time: unknown unit " minutes" in duration "5 minutes", ` +
				"line 7: " + path + `maxAge: want a duration such as 5m: time: unknown unit " minutes" in duration "5 minutes", ` +
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
