package sim

import (
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

// withReplacements returns the profiles with replacements in the place of stock plugins. A profile that names one stays as it is.
func withReplacements(profiles []schedulerconfig.KubeSchedulerProfile) []schedulerconfig.KubeSchedulerProfile {
	changed := make([]schedulerconfig.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		profile := profiles[i].DeepCopy()
		for _, d := range plugins.All() {
			if d.Replaces != "" && profile.Plugins != nil && !names(profile, d.Name) {
				rename(profile, d.Replaces, d.Name)
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
