package sim

import (
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
)

// replacements returns the plugins that give the answers of a stock plugin faster, by the name of the stock plugin.
func replacements() map[string]descriptor.Descriptor {
	all := map[string]descriptor.Descriptor{}
	for _, d := range plugins.All() {
		if d.Replaces != "" {
			all[d.Replaces] = d
		}
	}
	return all
}

// withReplacements returns the profiles with replacements in the place of stock plugins. A profile that names one stays as it is.
func withReplacements(profiles []schedulerconfig.KubeSchedulerProfile) []schedulerconfig.KubeSchedulerProfile {
	changed := make([]schedulerconfig.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		profile := profiles[i].DeepCopy()
		for stock, d := range replacements() {
			if profile.Plugins != nil && !names(profile, d.Name) {
				rename(profile, stock, d.Name)
			}
		}
		changed[i] = *profile
	}
	return changed
}

func names(profile *schedulerconfig.KubeSchedulerProfile, plugin string) (found bool) {
	eachPlugin(profile, func(p *schedulerconfig.Plugin) { found = found || p.Name == plugin })
	return found
}

func rename(profile *schedulerconfig.KubeSchedulerProfile, from, to string) {
	eachPlugin(profile, func(p *schedulerconfig.Plugin) {
		if p.Name == from {
			p.Name = to
		}
	})
	for i := range profile.PluginConfig {
		if c := &profile.PluginConfig[i]; c.Name == from {
			c.Name = to
		}
	}
}

// eachPlugin calls visit with each plugin that a profile enables or disables where a replacement works.
func eachPlugin(profile *schedulerconfig.KubeSchedulerProfile, visit func(*schedulerconfig.Plugin)) {
	p := profile.Plugins
	for _, set := range []*schedulerconfig.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score} {
		for _, listed := range [][]schedulerconfig.Plugin{set.Enabled, set.Disabled} {
			for i := range listed {
				visit(&listed[i])
			}
		}
	}
}

// addReplacements adds the factories of replacements that the registry does not have.
func addReplacements(registry frameworkruntime.Registry) {
	for name, factory := range plugins.Replacements() {
		if registry[name] == nil {
			registry[name] = factory
		}
	}
}
