package sim

import (
	"testing"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestWithReplacements(t *testing.T) {
	const stock, ours = "PodTopologySpread", "IncrementalPodTopologySpread"
	args := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.ListDefaulting}
	set := func(names ...string) (all []schedulerconfig.Plugin) {
		for _, name := range names {
			all = append(all, schedulerconfig.Plugin{Name: name, Weight: 3})
		}
		return all
	}
	profile := func(multiPoint, score, scoreDisabled []schedulerconfig.Plugin, config string) schedulerconfig.KubeSchedulerProfile {
		p := schedulerconfig.KubeSchedulerProfile{Plugins: &schedulerconfig.Plugins{}}
		p.Plugins.MultiPoint.Enabled = multiPoint
		p.Plugins.Score = schedulerconfig.PluginSet{Enabled: score, Disabled: scoreDisabled}
		if config != "" {
			p.PluginConfig = []schedulerconfig.PluginConfig{{Name: config, Args: args}}
		}
		return p
	}
	given := []schedulerconfig.KubeSchedulerProfile{
		profile(set("A", stock), nil, nil, stock),
		profile(set(stock), nil, set(stock), ""),
		profile(set("A"), set(stock), nil, ""),
		profile(set("A"), set(ours), set(stock), stock), // it names ours: it stays as it is
		{SchedulerName: "without plugins"},
	}
	want := []schedulerconfig.KubeSchedulerProfile{
		profile(set("A", ours), nil, nil, ours),
		profile(set(ours), nil, set(ours), ""),
		profile(set("A"), set(ours), nil, ""),
		given[3],
		given[4],
	}
	check.Equal(t, "profiles", want, withReplacements(given))
	check.Equal(t, "a profile that was given", profile(set("A", stock), nil, nil, stock), given[0])
}
