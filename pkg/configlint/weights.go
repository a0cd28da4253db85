package configlint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// repeatedProfiles reports profiles of one name. The stock scheduler refuses them, without saying what to do.
func repeatedProfiles(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []finding.Finding {
	var findings []finding.Finding
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
			findings = append(findings, finding.Finding{
				Code: finding.ProfileRepeated, Field: field, Line: lineOf(root, field),
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

// Plugin is a plugin of this project, as far as the checks of weights and limits know it.
type Plugin struct {
	Name string
	// ScoresByLoad reports whether scores by requests must not outweigh those of the plugin.
	ScoresByLoad bool
	// Limits says how a plugin with these arguments filters; nil arguments are the defaults.
	Limits func(args runtime.Object) Limits
}

// Limits says how a plugin filters. The zero value is a plugin that does not.
type Limits struct {
	// Filters reports whether the plugin rejects nodes at all, Waives whether it lets pods in that it left no node.
	Filters, Waives bool
	// Scores reports whether the plugin's score places pods with waived limits, and so must outweigh all others.
	Scores bool
}

// weights reports profiles in which load is outweighed, and limits without effect.
func weights(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, plugins []Plugin) []finding.Finding {
	var findings []finding.Finding
	for i := range cfg.Profiles {
		p := profile{path: fmt.Sprintf("profiles[%d]", i), plugins: cfg.Profiles[i].Plugins}
		if p.plugins == nil {
			continue
		}
		findings = append(findings, p.outweighed(plugins)...)
		for _, plugin := range plugins {
			limits := plugin.Limits(ArgsOf(&cfg.Profiles[i], plugin.Name))
			findings = append(findings, p.unweightedLimit(plugin.Name, limits)...)
			findings = append(findings, p.limitWithoutFilter(plugin.Name, limits)...)
			findings = append(findings, p.limitWithoutPreFilter(plugin.Name, limits)...)
		}
	}
	findings = append(findings, idleMetrics(cfg)...)
	for i := range findings {
		findings[i].Line = lineOf(root, findings[i].Field)
	}
	return findings
}

// ArgsOf returns the profile's arguments of a plugin; nil if it has none.
func ArgsOf(p *kubeschedulerconfig.KubeSchedulerProfile, plugin string) runtime.Object {
	for i := range p.PluginConfig {
		if p.PluginConfig[i].Name == plugin {
			return p.PluginConfig[i].Args
		}
	}
	return nil
}

type profile struct {
	path    string
	plugins *kubeschedulerconfig.Plugins
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

// fromSpecs are the stock plugins that score by the pod's and the nodes' own preferences. They may have more weight than load.
var fromSpecs = []string{
	names.TaintToleration, names.NodeAffinity, names.InterPodAffinity, names.PodTopologySpread, names.DynamicResources,
}

// outweighed reports plugins with more weight than the plugins by load. The stock plugins by requests count together, and must have
// less. All scores are from 0 to 100, so weights tell how far a plugin moves a node.
func (p *profile) outweighed(plugins []Plugin) []finding.Finding {
	var scoring, known []string
	for _, plugin := range plugins {
		if known = append(known, plugin.Name); plugin.ScoresByLoad {
			scoring = append(scoring, plugin.Name)
		}
	}
	byLoad, load := p.sum(scoring...)
	if load == 0 {
		return nil
	}
	requests := []string{names.NodeResourcesFit, names.NodeResourcesBalancedAllocation}
	var disabled, shown []string
	if by, total := p.sum(requests...); total >= load {
		disabled, shown = requests, append(shown, by)
	}
	for _, plugin := range p.scorers() {
		if slices.Contains(slices.Concat(known, requests, fromSpecs, disabled), plugin) {
			continue
		}
		if by, weight := p.sum(plugin); weight > load {
			disabled, shown = append(disabled, plugin), append(shown, by)
		}
	}
	if len(disabled) == 0 {
		return nil
	}
	disable := "plugins:\n  score:\n    disabled:\n"
	for _, plugin := range disabled {
		disable += "    - name: " + plugin + "\n"
	}
	return []finding.Finding{{
		Code: finding.LoadOutweighed, Field: p.path + ".plugins.score",
		Details: []any{"byLoad", byLoad, "others", strings.Join(shown, ", ")},
		Advice:  "give the plugins by load more weight, or disable the others at score: they still filter",
		YAML:    disable,
	}}
}

// scorers returns the plugins that have a weight, in the order of the profile. The defaults give weights to the plugins that score,
// and to no others.
func (p *profile) scorers() (scorers []string) {
	for _, set := range []kubeschedulerconfig.PluginSet{p.plugins.Score, p.plugins.MultiPoint} {
		for _, plugin := range set.Enabled {
			if plugin.Weight > 0 && p.weight(plugin.Name) > 0 && !slices.Contains(scorers, plugin.Name) {
				scorers = append(scorers, plugin.Name)
			}
		}
	}
	return scorers
}

// enabled reports whether the plugin is enabled at the extension point.
func (p *profile) enabled(point *kubeschedulerconfig.PluginSet, plugin string) bool {
	_, ok := enabledAt(p.plugins, point, plugin)
	return ok
}

// unweightedLimit reports a plugin whose score does not decide where pods go for which its limit was waived.
func (p *profile) unweightedLimit(name string, limits Limits) []finding.Finding {
	if !limits.Scores || !limits.Waives || !p.enabled(&p.plugins.Filter, name) {
		return nil
	}
	weight, others := p.weight(name), int64(0)
	for _, plugin := range p.scorers() {
		if plugin != name {
			others += p.weight(plugin)
		}
	}
	if weight > 0 && weight > others {
		return nil
	}
	const enough = 100
	return []finding.Finding{{
		Code: finding.LimitUnweighted, Field: p.path + ".plugins.score",
		Details: []any{"name", name, "weight", weight, "others", others},
		Advice:  "enable it at score with more weight than all other plugins together",
		YAML: fmt.Sprintf("plugins:\n  score:\n    enabled:\n    - name: %s\n      weight: %d\n",
			name, max(enough, 2*others)),
	}}
}

// limitWithoutFilter reports limits of a plugin that does not filter.
func (p *profile) limitWithoutFilter(name string, limits Limits) []finding.Finding {
	if !limits.Filters || p.weight(name) == 0 || p.enabled(&p.plugins.Filter, name) {
		return nil
	}
	return []finding.Finding{{
		Code: finding.LimitUnfiltered, Field: p.path + ".plugins.filter",
		Details: []any{"name", name},
		Advice:  "enable it at filter, too",
		YAML:    "plugins:\n  filter:\n    enabled:\n    - name: " + name + "\n",
	}}
}

// limitWithoutPreFilter reports a limit that is waived at PostFilter, but not in the next attempt.
func (p *profile) limitWithoutPreFilter(name string, limits Limits) []finding.Finding {
	if !limits.Waives || !p.enabled(&p.plugins.Filter, name) || p.enabled(&p.plugins.PreFilter, name) {
		return nil
	}
	return []finding.Finding{{
		Code: finding.LimitNotWaived, Field: p.path + ".plugins.preFilter",
		Details: []any{"name", name},
		Advice:  "enable it at preFilter, too, or write whenNoneFits: Reject",
		YAML:    "plugins:\n  preFilter:\n    enabled:\n    - name: " + name + "\n",
	}}
}

// idleMetrics reports metrics that neither score nor reject.
func idleMetrics(cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []finding.Finding {
	var findings []finding.Finding
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			for k, metric := range config.MetricsOf(pluginConfig.Args) {
				if metric.Weight > 0 || metric.Reject != "" {
					continue
				}
				findings = append(findings, finding.Finding{
					Code: finding.MetricUnused, Field: fmt.Sprintf("profiles[%d].pluginConfig[%d].args.metrics[%d].weight", i, j, k),
					Details: []any{"name", metric.Name},
					Advice:  "give it a weight or a reject rule, or remove it",
					YAML:    "weight: 1\n",
				})
			}
		}
	}
	return findings
}
