package configlint

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// Plugin is a plugin of this project, as far as the checks of weights and limits know it.
type Plugin struct {
	Name string
	// ScoresByLoad reports whether scores by requests must not outweigh those of the plugin.
	ScoresByLoad bool
	// Limits says how a plugin with these arguments filters; nil arguments are the defaults.
	Limits func(args runtime.Object) Limits
	// Replaces is the stock plugin whose answers the plugin gives; empty for none. Validate validates its arguments.
	Replaces string
	Validate func(path *field.Path, args runtime.Object) error
}

// Limits says how a plugin filters. The zero value is a plugin that does not.
type Limits struct {
	// Filters reports whether the plugin rejects nodes. Waives reports whether it waives its limit if no node is feasible.
	Filters, Waives bool
	// Scores reports whether the plugin's score places pods with waived limits, and so must outweigh all others.
	Scores bool
}

// weights reports profiles in which load is outweighed, and limits without effect.
func weights(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, plugins []Plugin) []finding.Finding {
	var findings []finding.Finding
	for i := range cfg.Profiles {
		p := profile{path: fmt.Sprintf("profiles[%d]", i), of: &cfg.Profiles[i], plugins: cfg.Profiles[i].Plugins}
		if p.plugins == nil {
			continue
		}
		findings = append(findings, p.outweighed(cfg.Extenders, plugins)...)
		for _, plugin := range plugins {
			limits := plugin.Limits(ArgsOf(&cfg.Profiles[i], plugin.Name))
			findings = append(findings, p.limitFindings(plugin.Name, limits)...)
			if plugin.Replaces != "" && Builds(p.of, plugin.Name) {
				findings = append(findings, p.replacementFindings(plugin)...)
			}
		}
	}
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

// Filters reports whether the profile enables the plugin at filter.
func Filters(p *kubeschedulerconfig.KubeSchedulerProfile, plugin string) bool {
	return enables(p.Plugins, &p.Plugins.Filter, plugin)
}

// Builds reports whether the framework builds the plugin for the profile: it is enabled at one extension point at least.
func Builds(p *kubeschedulerconfig.KubeSchedulerProfile, plugin string) bool {
	named := func(enabled kubeschedulerconfig.Plugin) bool { return enabled.Name == plugin }
	return p.Plugins != nil && (slices.Contains(p.Plugins.Names(), plugin) || slices.ContainsFunc(p.Plugins.MultiPoint.Enabled, named))
}

type profile struct {
	path    string
	of      *kubeschedulerconfig.KubeSchedulerProfile
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

func enables(plugins *kubeschedulerconfig.Plugins, point *kubeschedulerconfig.PluginSet, name string) bool {
	_, ok := enabledAt(plugins, point, name)
	return ok
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

// swing says how far scorers can move a node: each by its weight times the highest score.
type swing struct {
	names   []string
	weights []int64
}

func (s *swing) add(name string, weight int64) {
	if weight > 0 {
		s.names, s.weights = append(s.names, name), append(s.weights, weight)
	}
}

func (s *swing) total() (sum int64) {
	for _, weight := range s.weights {
		sum += weight
	}
	return sum
}

// String shows the arithmetic, such as "TargetLoadPacking 5 x 100 = 500".
func (s *swing) String() string {
	var parts []string
	for i, name := range s.names {
		parts = append(parts, fmt.Sprintf("%s %d x %d", name, s.weights[i], config.MaxNodeScore))
	}
	return fmt.Sprintf("%s = %d", strings.Join(parts, " + "), s.total()*config.MaxNodeScore)
}

// stockByRequests are the stock plugins that score by requests. They count together.
var stockByRequests = []string{names.NodeResourcesFit, names.NodeResourcesBalancedAllocation}

// fromSpecs are the stock plugins that score by the pod's and the nodes' own preferences. They may have more weight than load,
// unless they score pods that ask for nothing.
var fromSpecs = []string{
	names.TaintToleration, names.NodeAffinity, names.InterPodAffinity, names.PodTopologySpread, names.DynamicResources,
}

// balance says how far scores can move a node.
func (p *profile) balance(
	extenders []kubeschedulerconfig.Extender, plugins []Plugin,
) (byLoad, byRequests swing, others []swing) {
	known := slices.Concat(stockByRequests, fromSpecs)
	for _, plugin := range plugins {
		if known = append(known, plugin.Name); plugin.ScoresByLoad {
			byLoad.add(plugin.Name, p.weight(plugin.Name))
		}
	}
	for _, name := range stockByRequests {
		byRequests.add(name, p.weight(name))
	}
	other := func(name string, weight int64) {
		if weight > 0 {
			others = append(others, swing{[]string{name}, []int64{weight}})
		}
	}
	for _, name := range p.scorers() {
		if !slices.Contains(known, name) || p.scoresUnasked(name) {
			other(name, p.weight(name))
		}
	}
	for i := range extenders { // the scheduler scales their priorities to the scores of plugins
		if extenders[i].PrioritizeVerb != "" {
			other("extender "+hostOf(extenders[i].URLPrefix), extenders[i].Weight)
		}
	}
	return byLoad, byRequests, others
}

// scoresUnasked reports whether the plugin scores pods that ask for nothing, by default constraints or by added affinity.
func (p *profile) scoresUnasked(plugin string) bool {
	switch args := ArgsOf(p.of, plugin).(type) {
	case *kubeschedulerconfig.PodTopologySpreadArgs:
		return args.DefaultingType == kubeschedulerconfig.SystemDefaulting || len(args.DefaultConstraints) > 0
	case interface{ SpreadsUnasked() bool }:
		return args.SpreadsUnasked()
	case *kubeschedulerconfig.NodeAffinityArgs:
		return args.AddedAffinity != nil && len(args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	}
	return false
}

// hostOf returns the host of a URL, without credentials.
func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	return "of an invalid URL"
}

// outweighed reports scorers that outweigh the plugins by load. Scorers by requests must have less weight than load.
func (p *profile) outweighed(extenders []kubeschedulerconfig.Extender, plugins []Plugin) []finding.Finding {
	byLoad, byRequests, others := p.balance(extenders, plugins)
	load := byLoad.total()
	others = slices.DeleteFunc(others, func(other swing) bool { return other.total() <= load })
	if byRequests.total() >= load {
		others = slices.Insert(others, 0, byRequests)
	}
	if load == 0 || len(others) == 0 {
		return nil
	}
	shown, yaml, enough, disable := []string(nil), "", int64(0), ""
	for _, other := range others {
		shown = append(shown, other.String())
		for _, name := range other.names {
			switch {
			case p.scoresUnasked(name): // and should go on
				enough = max(enough, 2*other.total()+1)
			case p.weight(name) > 0: // an extender is no plugin
				disable += "    - name: " + name + "\n"
			}
		}
	}
	advice := "give the plugins by load more weight, or the extender less"
	if enough > 0 {
		heaviest := byLoad.names[slices.Index(byLoad.weights, slices.Max(byLoad.weights))]
		yaml = fmt.Sprintf("plugins:\n  score:\n    enabled:\n    - name: %s\n      weight: %d\n", heaviest, enough)
		advice = "give the plugins by load more weight"
	}
	if disable != "" {
		yaml = cmp.Or(yaml, "plugins:\n  score:\n") + "    disabled:\n" + disable
		advice = "give the plugins by load more weight, or disable the others at score: they still filter"
	}
	return []finding.Finding{{
		Code: finding.LoadOutweighed, Field: p.path + ".plugins.score",
		Details: []any{"byLoad", byLoad.String(), "others", strings.Join(shown, "; ")},
		Advice:  advice,
		YAML:    yaml,
	}}
}

// scorers returns the plugins that score, in the order of the profile. At multiPoint the defaults give weights to these alone.
func (p *profile) scorers() (scorers []string) {
	add := func(set kubeschedulerconfig.PluginSet, least int32) {
		for _, plugin := range set.Enabled {
			if plugin.Weight >= least && p.weight(plugin.Name) > 0 && !slices.Contains(scorers, plugin.Name) {
				scorers = append(scorers, plugin.Name)
			}
		}
	}
	add(p.plugins.Score, 0) // the framework takes a weight of 0 for 1
	add(p.plugins.MultiPoint, 1)
	return scorers
}

// limitFindings reports limits without effect. These are limits of a plugin that does not filter, and limits that are waived
// without preFilter, which the next attempt needs, or without a score that then decides.
func (p *profile) limitFindings(name string, limits Limits) (findings []finding.Finding) {
	report := func(code finding.Code, point, weight, advice string, details ...any) {
		findings = append(findings, finding.Finding{
			Code: code, Field: p.path + ".plugins." + point, Details: append([]any{"name", name}, details...), Advice: advice,
			YAML: fmt.Sprintf("plugins:\n  %s:\n    enabled:\n    - name: %s\n%s", point, name, weight),
		})
	}
	weight, others, filters := p.weight(name), int64(0), enables(p.plugins, &p.plugins.Filter, name)
	for _, plugin := range p.scorers() {
		if plugin != name {
			others += p.weight(plugin)
		}
	}
	if limits.Scores && limits.Waives && filters && (weight == 0 || weight <= others) {
		const enough = 100
		report(finding.LimitUnweighted, "score", fmt.Sprintf("      weight: %d\n", max(enough, 2*others)),
			"enable it at score with more weight than all other plugins together", "weight", weight, "others", others)
	}
	if limits.Filters && Builds(p.of, name) && !filters {
		report(finding.LimitUnfiltered, "filter", "", "enable it at filter, too")
	}
	if limits.Waives && filters && !enables(p.plugins, &p.plugins.PreFilter, name) {
		report(finding.LimitNotWaived, "preFilter", "", "enable it at preFilter, too, or write whenNoneFits: Reject")
	}
	return findings
}

// replacementFindings reports the stock plugin beside the one that replaces it, or another weight than the stock plugin's default.
func (p *profile) replacementFindings(plugin Plugin) []finding.Finding {
	for _, set := range []*kubeschedulerconfig.PluginSet{
		&p.plugins.PreFilter, &p.plugins.Filter, &p.plugins.PreScore, &p.plugins.Score,
	} {
		if enables(p.plugins, set, plugin.Name) && enables(p.plugins, set, plugin.Replaces) {
			return []finding.Finding{{
				Code: finding.StockBeside, Field: p.path + ".plugins.multiPoint", Fatal: true,
				Details: []any{"name", plugin.Name, "stock", plugin.Replaces}, Advice: "disable the stock plugin",
				YAML: fmt.Sprintf("plugins:\n  multiPoint:\n    disabled:\n    - name: %s\n", plugin.Replaces),
			}}
		}
	}
	want, weight := StockWeight(plugin.Replaces), p.weight(plugin.Name)
	if want == 0 || weight == want || p.weight(plugin.Replaces) > 0 { // the stock plugin may still score
		return nil
	}
	return []finding.Finding{{
		Code: finding.StockWeight, Field: p.path + ".plugins.multiPoint",
		Details: []any{"name", plugin.Name, "weight", weight, "stock", plugin.Replaces, "stockWeight", want},
		Advice:  "give it the weight of the stock plugin",
		YAML:    fmt.Sprintf("plugins:\n  multiPoint:\n    enabled:\n    - name: %s\n      weight: %d\n", plugin.Name, want),
	}}
}

// StockWeight returns the default weight of a stock plugin at score; 0 if it does not score.
func StockWeight(plugin string) int64 {
	stock, err := latest.Default()
	if err != nil {
		return 0
	}
	defaults := profile{plugins: stock.Profiles[0].Plugins}
	return defaults.weight(plugin)
}

// validateReplacements validates the arguments of plugins that replace stock ones.
func validateReplacements(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, plugins []Plugin) error {
	var errs []error
	for i := range cfg.Profiles {
		for j, c := range cfg.Profiles[i].PluginConfig {
			k := slices.IndexFunc(plugins, func(p Plugin) bool { return p.Name == c.Name && p.Validate != nil })
			if path := field.NewPath("profiles").Index(i).Child("pluginConfig").Index(j).Child("args"); k >= 0 {
				errs = append(errs, plugins[k].Validate(path, c.Args))
			}
		}
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(errs))
}
