package configlint_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
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
			`unknown field "targetUtilisation"; ` +
				"line 6: profiles[0].pluginConfig[0].args.targetUtilisation: there is no such field: did you mean targetUtilization?",
		},
		{
			"an argument in another case", args("Peaks", "{maxage: 1m}"),
			"line 6: profiles[0].pluginConfig[0].args.maxage: there is no such field: did you mean maxAge?",
		},
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
		{"a value of another type alone", args("TargetLoadPacking", "{targetUtilization: much}"), "of type int64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := configlint.Check([]byte(tt.config), configlint.Options{Plugins: plugins()})
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("Check() = %v\nwant an error that ends with %s", err, tt.want)
			}
		})
	}
}
