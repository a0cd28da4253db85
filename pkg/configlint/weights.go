package configlint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// repeatedProfiles reports profiles of one name. The stock scheduler refuses them, without saying what to do.
func repeatedProfiles(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []Finding {
	var findings []Finding
	taken := map[string]int{}
	for i := range cfg.Profiles {
		taken[cfg.Profiles[i].SchedulerName]++
	}
	first := map[string]int{}
	for i := range cfg.Profiles {
		name := cfg.Profiles[i].SchedulerName
		if j, ok := first[name]; ok {
			unused := name
			for n := 2; taken[unused] > 0; n++ {
				unused = fmt.Sprintf("%s-%d", name, n)
			}
			taken[unused]++
			field := fmt.Sprintf("profiles[%d].schedulerName", i)
			findings = append(findings, Finding{
				Code: ProfileRepeated, Field: field, Line: lineOf(root, field),
				Details: []any{"name", name, "first", fmt.Sprintf("profiles[%d]", j)},
				Advice:  "rename the profile, or remove it",
				YAML:    "schedulerName: " + unused + "\n",
				Fatal:   true,
			})
			continue
		}
		first[name] = i
	}
	return findings
}

// weights reports profiles in which load is outweighed, and limits without effect.
func weights(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []Finding {
	var findings []Finding
	for i := range cfg.Profiles {
		p := profile{path: fmt.Sprintf("profiles[%d]", i), plugins: cfg.Profiles[i].Plugins}
		if p.plugins == nil {
			continue
		}
		p.loadThreshold = argsOf[*config.LoadThresholdArgs](&cfg.Profiles[i])
		p.nodeMetrics = argsOf[*config.NodeMetricsArgs](&cfg.Profiles[i])
		findings = append(findings, p.outweighed()...)
		findings = append(findings, p.unweightedLimit()...)
		findings = append(findings, p.limitsWithoutFilter()...)
		findings = append(findings, p.limitWithoutPreFilter()...)
	}
	findings = append(findings, idleMetrics(cfg)...)
	for i := range findings {
		findings[i].Line = lineOf(root, findings[i].Field)
	}
	return findings
}

// argsOf returns the profile's arguments of a type; nil if it has none.
func argsOf[Args any](p *kubeschedulerconfig.KubeSchedulerProfile) (args Args) {
	for i := range p.PluginConfig {
		if a, ok := p.PluginConfig[i].Args.(Args); ok {
			return a
		}
	}
	return args
}

type profile struct {
	path          string
	plugins       *kubeschedulerconfig.Plugins
	loadThreshold *config.LoadThresholdArgs
	nodeMetrics   *config.NodeMetricsArgs
}

// weight returns the plugin's weight at score, as the framework takes it; 0 if it does not score.
func (p *profile) weight(plugin string) int64 {
	entry, ok := enabledAt(p.plugins, &p.plugins.Score, plugin)
	if !ok {
		return 0
	}
	return max(int64(entry.Weight), 1)
}

// enabledAt returns the plugin's entry if the extension point's list, or multiPoint, enables it.
func enabledAt(
	plugins *kubeschedulerconfig.Plugins, point *kubeschedulerconfig.PluginSet, name string,
) (kubeschedulerconfig.Plugin, bool) {
	named := func(p kubeschedulerconfig.Plugin) bool { return p.Name == name }
	if i := slices.IndexFunc(point.Enabled, named); i >= 0 {
		return point.Enabled[i], true
	}
	if slices.ContainsFunc(point.Disabled, func(p kubeschedulerconfig.Plugin) bool { return p.Name == name || p.Name == "*" }) {
		return kubeschedulerconfig.Plugin{}, false
	}
	if i := slices.IndexFunc(plugins.MultiPoint.Enabled, named); i >= 0 {
		return plugins.MultiPoint.Enabled[i], true
	}
	return kubeschedulerconfig.Plugin{}, false
}

// sum returns the weights of the plugins that score, and their sum.
func (p *profile) sum(plugins ...string) (shown string, total int64) {
	var parts []string
	for _, name := range plugins {
		if w := p.weight(name); w > 0 {
			parts, total = append(parts, fmt.Sprintf("%s=%d", name, w)), total+w
		}
	}
	return strings.Join(parts, ", "), total
}

// outweighed reports that the stock plugins by requests weigh as much as the plugins by load.
func (p *profile) outweighed() []Finding {
	byLoad, load := p.sum(
		config.LoadVariationRiskBalancing,
		config.LowRiskOverCommitment,
		config.NodeMetrics,
		config.Peaks,
		config.PredictedPeak,
		config.TargetLoadPacking,
	)
	byRequests, requests := p.sum(names.NodeResourcesFit, names.NodeResourcesBalancedAllocation)
	if load == 0 || requests < load {
		return nil
	}
	return []Finding{{
		Code: LoadOutweighed, Field: p.path + ".plugins.score",
		Details: []any{"byLoad", byLoad, "byRequests", byRequests},
		Advice:  "disable the plugins that score by requests at score; they still filter",
		YAML: "plugins:\n  score:\n    disabled:\n    - name: " + names.NodeResourcesFit + "\n    - name: " +
			names.NodeResourcesBalancedAllocation + "\n",
	}}
}

// unweightedLimit reports a LoadThreshold whose score does not decide where pods go for which it was waived.
func (p *profile) unweightedLimit() []Finding {
	args := p.loadThreshold
	if _, limits := enabledAt(
		p.plugins,
		&p.plugins.Filter,
		config.LoadThreshold,
	); !limits || args == nil ||
		args.WhenNoneFits != config.WhenNoneFitsRelax {
		return nil
	}
	weight, others := p.weight(config.LoadThreshold), int64(0)
	counted := map[string]bool{}
	for _, set := range []kubeschedulerconfig.PluginSet{p.plugins.Score, p.plugins.MultiPoint} {
		for _, plugin := range set.Enabled {
			// The defaults give weights to the plugins that score, and to no others.
			if plugin.Name != config.LoadThreshold && plugin.Weight > 0 && !counted[plugin.Name] {
				counted[plugin.Name] = true
				others += p.weight(plugin.Name)
			}
		}
	}
	if weight > 0 && weight > others {
		return nil
	}
	const enough = 100
	return []Finding{{
		Code: LimitUnweighted, Field: p.path + ".plugins.score",
		Details: []any{"name", config.LoadThreshold, "weight", weight, "others", others},
		Advice:  "enable it at score with more weight than all other plugins together",
		YAML: fmt.Sprintf("plugins:\n  score:\n    enabled:\n    - name: %s\n      weight: %d\n",
			config.LoadThreshold, max(enough, 2*others)),
	}}
}

// limitsWithoutFilter reports limits of plugins that do not filter.
func (p *profile) limitsWithoutFilter() []Finding {
	var findings []Finding
	add := func(plugin string) {
		_, filters := enabledAt(p.plugins, &p.plugins.Filter, plugin)
		if filters || p.weight(plugin) == 0 {
			return
		}
		findings = append(findings, Finding{
			Code: LimitUnfiltered, Field: p.path + ".plugins.filter",
			Details: []any{"name", plugin},
			Advice:  "enable it at filter, too",
			YAML:    "plugins:\n  filter:\n    enabled:\n    - name: " + plugin + "\n",
		})
	}
	add(config.LoadThreshold)
	if p.nodeMetrics != nil && slices.ContainsFunc(p.nodeMetrics.Metrics, func(m config.NodeMetric) bool { return m.Reject != "" }) {
		add(config.NodeMetrics)
	}
	return findings
}

// limitWithoutPreFilter reports a limit that is waived at PostFilter, but not in the next attempt.
func (p *profile) limitWithoutPreFilter() []Finding {
	_, preFilters := enabledAt(p.plugins, &p.plugins.PreFilter, config.LoadThreshold)
	_, filters := enabledAt(p.plugins, &p.plugins.Filter, config.LoadThreshold)
	if preFilters || !filters || p.loadThreshold == nil || p.loadThreshold.WhenNoneFits != config.WhenNoneFitsRelax {
		return nil
	}
	return []Finding{{
		Code: LimitNotWaived, Field: p.path + ".plugins.preFilter",
		Details: []any{"name", config.LoadThreshold},
		Advice:  "enable it at preFilter, too, or write whenNoneFits: Reject",
		YAML:    "plugins:\n  preFilter:\n    enabled:\n    - name: " + config.LoadThreshold + "\n",
	}}
}

// idleMetrics reports metrics that neither score nor reject.
func idleMetrics(cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []Finding {
	var findings []Finding
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			args, ok := pluginConfig.Args.(*config.NodeMetricsArgs)
			if !ok {
				continue
			}
			for k, metric := range args.Metrics {
				if metric.Weight > 0 || metric.Reject != "" {
					continue
				}
				findings = append(findings, Finding{
					Code: MetricUnused, Field: fmt.Sprintf("profiles[%d].pluginConfig[%d].args.metrics[%d].weight", i, j, k),
					Details: []any{"name", metric.Name},
					Advice:  "give it a weight or a reject rule, or remove it",
					YAML:    "weight: 1\n",
				})
			}
		}
	}
	return findings
}
