package configlint_test

import (
	"reflect"
	"testing"

	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const byRequestsDisabled = `    disabled:
    - name: NodeResourcesFit
    - name: NodeResourcesBalancedAllocation
`

// weighted returns YAML that gives a plugin a weight at score.
func weighted(plugin, weight string) string {
	return "plugins:\n  score:\n    enabled:\n    - name: " + plugin + "\n      weight: " + weight + "\n"
}

func TestCheck_Weights(t *testing.T) {
	outvoted := func(line int, byLoad, byRequests string) finding.Finding {
		return finding.Finding{
			Code:    finding.LoadOutweighed,
			Field:   "profiles[0].plugins.score",
			Line:    line,
			Details: []any{"byLoad", byLoad, "others", byRequests},
			Advice:  "give the plugins by load more weight, or disable the others at score: they still filter",
			YAML:    "plugins:\n  score:\n" + byRequestsDisabled,
		}
	}
	// Default spreading has weight 2. It needs 2*2 + 1, and goes on.
	const spreading = "PodTopologySpread 2 x 100 = 200"
	outspread := func(line int, plugin, byRequests string) finding.Finding {
		f := outvoted(line, plugin+" 1 x 100 = 100", byRequests+spreading)
		f.Advice, f.YAML = "give the plugins by load more weight", weighted(plugin, "5")
		if byRequests != "" {
			f.Advice, f.YAML = f.Advice+", or disable the others at score: they still filter", f.YAML+byRequestsDisabled
		}
		return f
	}
	unweighted := func(line int, weight, others int64, yaml string) finding.Finding {
		return finding.Finding{
			Code:    finding.LimitUnweighted,
			Field:   "profiles[0].plugins.score",
			Line:    line,
			Details: []any{"name", "LoadThreshold", "weight", weight, "others", others},
			Advice:  "enable it at score with more weight than all other plugins together",
			YAML:    weighted("LoadThreshold", yaml),
		}
	}
	unfiltered := func(plugin string) finding.Finding {
		return finding.Finding{
			Code: finding.LimitUnfiltered, Field: "profiles[0].plugins.filter", Line: 5, Details: []any{"name", plugin},
			Advice: "enable it at filter, too", YAML: "plugins:\n  filter:\n    enabled:\n    - name: " + plugin + "\n",
		}
	}
	// The stock plugins have 12 together, and 2 more with DynamicResources, which scores from Kubernetes 1.35 on.
	stock := int64(12)
	defaults := check.Value(latest.Default())(t)
	for _, plugin := range defaults.Profiles[0].Plugins.MultiPoint.Enabled {
		if plugin.Name == names.DynamicResources && plugin.Weight > 0 {
			stock += 2
		}
	}
	const disabled = "disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]"
	placement := "placementScore"
	if _, exists := reflect.TypeFor[kubeschedulerconfig.Plugins]().FieldByName("PlacementScore"); !exists { // before Kubernetes 1.36
		placement = "permit"
	}
	const metrics = `  pluginConfig:
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://a"}
      metrics:
      - {name: m, query: a, prefer: Lower, `
	for _, tt := range []struct {
		name, config string
		want         []finding.Finding
	}{
		// Both stock plugins have weight 1, as has a plugin without a weight.
		{"without a weight", "profiles:\n- plugins: {score: {enabled: [{name: TargetLoadPacking}]}}\n",
			[]finding.Finding{outspread(4, "TargetLoadPacking", "NodeResourcesFit 1 x 100 + NodeResourcesBalancedAllocation 1 x 100 = 200; ")}},
		{"as much weight", "profiles:\n- plugins:\n    score: {enabled: [{name: TargetLoadPacking, weight: 2}]}\n",
			[]finding.Finding{outvoted(5, "TargetLoadPacking 2 x 100 = 200", "NodeResourcesFit 1 x 100 + NodeResourcesBalancedAllocation 1 x 100 = 200")}},
		{"more weight", "profiles:\n- plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 3}]}}\n", nil},
		{"two plugins by load", "profiles:\n- plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 2}, {name: LoadVariationRiskBalancing}]}}\n", nil},
		{"as much weight of any plugin by load", "profiles:\n- plugins:\n    score: {enabled: [{name: LoadVariationRiskBalancing}, {name: Peaks}]}\n",
			[]finding.Finding{outvoted(5, "LoadVariationRiskBalancing 1 x 100 + Peaks 1 x 100 = 200", "NodeResourcesFit 1 x 100 + NodeResourcesBalancedAllocation 1 x 100 = 200")}},
		{"more weight of any plugin by load", "profiles:\n- plugins: {score: {enabled: [{name: LoadVariationRiskBalancing, weight: 2}, {name: Peaks}]}}\n", nil},
		// Nodes without risk tie, so that requests may decide.
		{"a plugin that belongs beside scores by requests", "profiles:\n- plugins: {score: {enabled: [{name: LowRiskOverCommitment}]}}\n", nil},
		{"one stock plugin disabled", "profiles:\n- plugins: {score: {disabled: [{name: NodeResourcesFit}], enabled: [{name: TargetLoadPacking, weight: 2}]}}\n", nil},
		{"all disabled", "profiles:\n- plugins: {score: {disabled: [{name: '*'}], enabled: [{name: TargetLoadPacking}]}}\n", nil},
		{"a stock plugin with a weight of its own", "profiles:\n- plugins:\n    score: {enabled: [{name: TargetLoadPacking, weight: 5}, {name: NodeResourcesFit, weight: 9}]}\n",
			[]finding.Finding{outvoted(5, "TargetLoadPacking 5 x 100 = 500", "NodeResourcesFit 9 x 100 + NodeResourcesBalancedAllocation 1 x 100 = 1000")}},
		{"under multiPoint", "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: TargetLoadPacking}]}\n",
			[]finding.Finding{outspread(4, "TargetLoadPacking", "NodeResourcesFit 1 x 100 + NodeResourcesBalancedAllocation 1 x 100 = 200; ")}},
		// ImageLocality moves a node by up to 100 x 100, the plugin by load by 5 x 100.
		{"another plugin with more weight", "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: ImageLocality, weight: 100}]}\n    score: {" + disabled +
			", enabled: [{name: TargetLoadPacking, weight: 5}]}\n",
			[]finding.Finding{{
				Code: finding.LoadOutweighed, Field: "profiles[0].plugins.score", Line: 6,
				Details: []any{"byLoad", "TargetLoadPacking 5 x 100 = 500", "others", "ImageLocality 100 x 100 = 10000"},
				Advice:  "give the plugins by load more weight, or disable the others at score: they still filter",
				YAML:    "plugins:\n  score:\n    disabled:\n    - name: ImageLocality\n",
			}}},
		// A scheduler scales an extender's priorities, from 0 to 10, to scores from 0 to 100.
		{"an extender with more weight", "extenders:\n- {urlPrefix: 'http://user:secret@e:80/x', prioritizeVerb: p, weight: 6}\n" +
			"profiles:\n- plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 5}]}}\n",
			[]finding.Finding{{
				Code: finding.LoadOutweighed, Field: "profiles[0].plugins.score", Line: 6,
				Details: []any{"byLoad", "TargetLoadPacking 5 x 100 = 500", "others", "extender e:80 6 x 100 = 600"},
				Advice:  "give the plugins by load more weight, or the extender less",
			}}},
		{"an extender that only filters", "extenders:\n- {urlPrefix: 'http://e:80', filterVerb: f, weight: 6}\n" +
			"profiles:\n- plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 5}]}}\n", nil},
		{"another plugin with as much weight", "profiles:\n- plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: 5}]}, score: {" + disabled +
			", enabled: [{name: TargetLoadPacking, weight: 5}]}}\n", nil},
		{"what pods state", "profiles:\n- plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 100}]}, score: {" + disabled +
			", enabled: [{name: TargetLoadPacking, weight: 5}]}}\n", nil},
		{"no plugin by load", "profiles:\n- plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 9}]}}\n", nil},

		{"a limit with its default weight", "profiles:\n- plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}\n", nil},
		{"a limit with little weight", "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: LoadThreshold, weight: 1}]}\n",
			[]finding.Finding{unweighted(4, 1, stock, "100")}},
		{"a limit that does not score", "profiles:\n- plugins:\n    filter: {enabled: [{name: LoadThreshold}]}\n    score: {disabled: [{name: '*'}]}\n",
			[]finding.Finding{unweighted(6, 0, 0, "100")}},
		{"a limit that is never waived", "profiles:\n- plugins: {multiPoint: {enabled: [{name: LoadThreshold, weight: 1}]}}\n  pluginConfig: [{name: LoadThreshold, args: {whenNoneFits: Reject}}]\n", nil},
		{"a limit that does not filter", "profiles:\n- plugins:\n    filter: {disabled: [{name: LoadThreshold}]}\n    score: {enabled: [{name: LoadThreshold}]}\n",
			[]finding.Finding{unfiltered("LoadThreshold")}},
		{"a limit that scores alone", "profiles:\n- plugins:\n    score: {enabled: [{name: LoadThreshold}]}\n", []finding.Finding{{
			Code: finding.LimitUnfiltered, Field: "profiles[0].plugins.filter", Line: 4, Details: []any{"name", "LoadThreshold"},
			Advice: "enable it at filter, too", YAML: "plugins:\n  filter:\n    enabled:\n    - name: LoadThreshold\n",
		}}},
		{"a limit that is not enabled at preFilter", "profiles:\n- plugins:\n    preFilter: {disabled: [{name: LoadThreshold}]}\n    filter: {enabled: [{name: LoadThreshold}]}\n",
			[]finding.Finding{{
				Code: finding.LimitNotWaived, Field: "profiles[0].plugins.preFilter", Line: 5, Details: []any{"name", "LoadThreshold"},
				Advice: "enable it at preFilter, too, or write whenNoneFits: Reject",
				YAML:   "plugins:\n  preFilter:\n    enabled:\n    - name: LoadThreshold\n",
			}}},
		{"a limit that is never waived and not enabled at preFilter", "profiles:\n- plugins:\n    preFilter: {disabled: [{name: LoadThreshold}]}\n    filter: {enabled: [{name: LoadThreshold}]}\n" +
			"  pluginConfig: [{name: LoadThreshold, args: {whenNoneFits: Reject}}]\n", nil},
		{"rules that do not filter", "profiles:\n- plugins:\n    filter: {}\n    score: {" + disabled + ", enabled: [{name: NodeMetrics}]}\n" + metrics + "reject: '> 5'}\n",
			[]finding.Finding{outspread(6, "NodeMetrics", ""), unfiltered("NodeMetrics")}},
		{"a metric that only scores, of a plugin that only filters", "profiles:\n- plugins:\n    filter: {enabled: [{name: NodeMetrics}]}\n" +
			"    preFilter: {enabled: [{name: NodeMetrics}]}\n" + metrics + "weight: 2}\n      - {name: other, query: b, prefer: Lower, reject: '> 5'}\n",
			[]finding.Finding{{
				Code: finding.MetricUnused, Field: "profiles[0].pluginConfig[0].args.metrics[0].weight", Line: 12, Details: []any{"name", "m"},
				Advice: "enable the plugin at score, too, or give the metric a reject rule, or remove it",
			}}},
		{"rules of a plugin that neither scores nor filters", "profiles:\n- plugins:\n    filter: {disabled: [{name: NodeMetrics}]}\n    preFilter: {enabled: [{name: NodeMetrics}]}\n" +
			metrics + "weight: 2, reject: '> 5'}\n", []finding.Finding{unfiltered("NodeMetrics")}},
		// Weight 0 counts as 1.
		{"default spreading beside weight 0", "profiles:\n- plugins:\n    score: {" + disabled + ", enabled: [{name: TargetLoadPacking, weight: 0}]}\n",
			[]finding.Finding{outspread(5, "TargetLoadPacking", "")}},
		{"default spreading beside no weight under multiPoint", "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: TargetLoadPacking}]}\n" +
			"    score: {" + disabled + "}\n", []finding.Finding{outspread(6, "TargetLoadPacking", "")}},
		{"default spreading beside as much weight", "profiles:\n- plugins:\n    score: {" + disabled + ", enabled: [{name: TargetLoadPacking, weight: 2}]}\n", nil},
		{"default spreading by the plugin that replaces the stock one", "profiles:\n- plugins:\n    multiPoint: {disabled: [{name: PodTopologySpread}], " +
			"enabled: [{name: IncrementalPodTopologySpread, weight: 2}]}\n    score: {" + disabled + ", enabled: [{name: TargetLoadPacking}]}\n",
			[]finding.Finding{func() finding.Finding {
				f := outspread(6, "TargetLoadPacking", "")
				f.Details[3] = "Incremental" + spreading
				return f
			}()}},
		{"no default spreading", "profiles:\n- plugins:\n    score: {" + disabled + ", enabled: [{name: TargetLoadPacking}]}\n" +
			"  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]\n", nil},
		{"affinity that the profile adds", "profiles:\n- plugins:\n    score: {" + disabled + ", enabled: [{name: TargetLoadPacking, weight: 2}, {name: NodeAffinity, weight: 3}]}\n" +
			"  pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
			"[{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}}]\n",
			[]finding.Finding{{ // 2*3 + 1
				Code: finding.LoadOutweighed, Field: "profiles[0].plugins.score", Line: 5, Advice: "give the plugins by load more weight",
				Details: []any{"byLoad", "TargetLoadPacking 2 x 100 = 200", "others", "NodeAffinity 3 x 100 = 300"}, YAML: weighted("TargetLoadPacking", "7"),
			}}},

		{"arguments of a plugin that is not enabled", "profiles:\n- pluginConfig:\n  - {name: TargetLoadPacking, args: {targetUtilization: 50}}\n", []finding.Finding{{
			Code: finding.ArgumentsUnused, Field: "profiles[0].pluginConfig[0]", Line: 5, Details: []any{"name", "TargetLoadPacking"},
			Advice: "enable the plugin, or remove its arguments",
		}}},
		{"arguments of a stock plugin that is disabled", "profiles:\n- plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}\n  pluginConfig:\n" +
			"  - {name: PodTopologySpread, args: {defaultingType: List}}\n", []finding.Finding{{
			Code: finding.ArgumentsUnused, Field: "profiles[0].pluginConfig[0]", Line: 6, Details: []any{"name", "PodTopologySpread"},
			Advice: "enable the plugin, or remove its arguments",
		}}},
		{"arguments of a plugin that only prepares scores", "profiles:\n- plugins: {preScore: {enabled: [{name: TargetLoadPacking}]}}\n  pluginConfig:\n" +
			"  - {name: TargetLoadPacking, args: {targetUtilization: 50}}\n", []finding.Finding{{
			Code: finding.ArgumentsUnused, Field: "profiles[0].pluginConfig[0]", Line: 6, Details: []any{"name", "TargetLoadPacking"},
			Advice: "enable the plugin at score, too, or remove its arguments",
		}}},
		{"arguments of a plugin that scores pod groups alone", "profiles:\n- plugins: {" + placement + ": {enabled: [{name: TargetLoadPacking}]}}\n" +
			"  pluginConfig: [{name: TargetLoadPacking, args: {targetUtilization: 50}}]\n", nil},
		{"a metric without weight and rule", "profiles:\n- plugins: {multiPoint: {enabled: [{name: NodeMetrics, weight: 5}]}}\n" + metrics + "weight: 0}\n",
			[]finding.Finding{{
				Code: finding.MetricUnused, Field: "profiles[0].pluginConfig[0].args.metrics[0].weight", Line: 10,
				Details: []any{"name", "m"}, Advice: "give it a weight or a reject rule, or remove it", YAML: "weight: 1\n",
			}}},
		{"a metric that only rejects", "profiles:\n- plugins: {multiPoint: {enabled: [{name: NodeMetrics, weight: 5}]}}\n" + metrics + "weight: 0, reject: '> 5'}\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "result", tt.want, findingsOf(t, tt.config))
		})
	}
}

func TestCheck_Replacements(t *testing.T) {
	enabled := func(weight, more string) string {
		return "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: IncrementalPodTopologySpread" + weight + "}]" + more + "}\n"
	}
	const disabled = ", disabled: [{name: PodTopologySpread}]"
	beside := finding.Finding{
		Code: finding.StockBeside, Field: "profiles[0].plugins.multiPoint", Line: 5, Fatal: true,
		Details: []any{"name", "IncrementalPodTopologySpread", "stock", "PodTopologySpread"}, Advice: "disable the stock plugin",
		YAML: "plugins:\n  multiPoint:\n    disabled:\n    - name: PodTopologySpread\n",
	}
	// The stock plugin has weight 2, a plugin without a weight has 1.
	weight := finding.Finding{
		Code: finding.StockWeight, Field: "profiles[0].plugins.multiPoint", Line: 5, Advice: "give it the weight of the stock plugin",
		Details: []any{"name", "IncrementalPodTopologySpread", "weight", int64(1), "stock", "PodTopologySpread", "stockWeight", int64(2)},
		YAML:    "plugins:\n  multiPoint:\n    enabled:\n    - name: IncrementalPodTopologySpread\n      weight: 2\n",
	}
	unscored := weight
	unscored.Details = []any{"name", "IncrementalPodTopologySpread", "weight", int64(0), "stock", "PodTopologySpread", "stockWeight", int64(2)}
	for _, tt := range []struct {
		name, config string
		want         []finding.Finding
	}{
		{"in the place of the stock plugin", enabled(", weight: 2", disabled), nil},
		{"with another weight", enabled("", disabled), []finding.Finding{weight}},
		{"beside the stock plugin", enabled(", weight: 2", ""), []finding.Finding{beside}},
		{"for filters, with the stock plugin for scores", "profiles:\n- plugins:\n    preFilter: {enabled: [{name: IncrementalPodTopologySpread}], " +
			"disabled: [{name: PodTopologySpread}]}\n    filter: {enabled: [{name: IncrementalPodTopologySpread}], disabled: [{name: PodTopologySpread}]}\n", nil},
		{"for filters, without scores", "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: IncrementalPodTopologySpread, weight: 2}]" + disabled +
			"}\n    score: {disabled: [{name: IncrementalPodTopologySpread}]}\n", []finding.Finding{unscored}},
		{"without either", "profiles:\n- plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) { check.Equal(t, "findings", tt.want, findingsOf(t, tt.config)) })
	}
	_, _, err := configlint.Check([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+enabled(", weight: 2", disabled)+
		"  pluginConfig: [{name: IncrementalPodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}}]\n"),
		plugins.LintOptions())
	check.Error(t, err, "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew", "0")
}
