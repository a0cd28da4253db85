// Package scheme registers the plugins' arguments with the kube-scheduler. It then decodes, defaults and converts them as those of
// stock plugins.
package scheme

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	kubeschedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
)

// The kube-scheduler reads its configuration through two schemes of its own. One decodes and encodes the file.
// The other defaults and converts the args within it. Both must know a type. Without the first, loading fails.
// Without the second, args stay undecoded. init extends both because a scheme must not change once in use.
//
// Defaulting also completes profiles that enable a plugin with a soft limit. Enabled at multiPoint alone, its PostFilter would run
// after DefaultPreemption, and pods would be evicted because of a soft limit.
func init() {
	utilruntime.Must(AddToScheme(kubeschedulerscheme.Scheme))
	kubeschedulerscheme.Scheme.AddTypeDefaultingFunc(&kubeschedulerconfigv1.KubeSchedulerConfiguration{}, func(obj any) {
		cfg := obj.(*kubeschedulerconfigv1.KubeSchedulerConfiguration)
		kubeschedulerv1.SetObjectDefaults_KubeSchedulerConfiguration(cfg)
		setSoftLimitDefaults(cfg)
	})
	utilruntime.Must(AddToScheme(kubeschedulerv1.GetPluginArgConversionScheme()))
}

// AddToScheme registers the internal and the versioned types of the plugins' arguments, with defaults and conversions.
// Importing this package has already registered them in the kube-scheduler's own schemes.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(config.AddToScheme(scheme), v1.AddToScheme(scheme))
}

// defaultLoadThresholdWeight outweighs the stock scorers, whose default weights sum up to 14.
const defaultLoadThresholdWeight = 100

// setSoftLimitDefaults enables LoadThreshold and NodeMetrics at every extension point that their soft limits need:
//
//   - A plugin of multiPoint, preFilter or filter is enabled at preFilter, filter and postFilter.
//   - LoadThreshold is also enabled at preScore and score: a pod with waived thresholds goes to the least loaded node.
//   - At postFilter and podGroupPostFilter, a plugin that the profile does not list is put first. DefaultPreemption is put behind
//     both plugins, unless the profile lists it there: the profile's own order is kept.
//   - LoadThreshold gets defaultLoadThresholdWeight where the profile gives it no weight.
//
// A plugin that the profile disables at an extension point stays disabled there.
func setSoftLimitDefaults(cfg *kubeschedulerconfigv1.KubeSchedulerConfiguration) {
	for i := range cfg.Profiles {
		if plugins := cfg.Profiles[i].Plugins; plugins != nil {
			enableSoftLimits(plugins)
			for _, point := range postFilters(plugins) {
				putPreemptionLast(plugins, point)
			}
			weighLoadThreshold(plugins)
		}
	}
}

func hasSoftLimit(name string) bool {
	return name == config.LoadThreshold || name == config.NodeMetrics
}

func enableSoftLimits(plugins *kubeschedulerconfigv1.Plugins) {
	var limits []string
	for _, point := range []*kubeschedulerconfigv1.PluginSet{&plugins.MultiPoint, &plugins.PreFilter, &plugins.Filter} {
		for _, plugin := range point.Enabled {
			if hasSoftLimit(plugin.Name) && !slices.Contains(limits, plugin.Name) {
				limits = append(limits, plugin.Name)
			}
		}
	}
	for _, point := range postFilters(plugins) {
		var first []kubeschedulerconfigv1.Plugin
		for _, name := range limits {
			if !enables(point, name) && !disables(point, name) {
				first = append(first, kubeschedulerconfigv1.Plugin{Name: name})
			}
		}
		point.Enabled = slices.Insert(point.Enabled, 0, first...)
	}
	for _, name := range limits {
		if enables(&plugins.MultiPoint, name) {
			continue // at all other extension points
		}
		points := []*kubeschedulerconfigv1.PluginSet{&plugins.PreFilter, &plugins.Filter}
		if name == config.LoadThreshold {
			points = append(points, &plugins.PreScore, &plugins.Score)
		}
		for _, point := range points {
			if !enables(point, name) && !disables(point, name) {
				point.Enabled = append(point.Enabled, kubeschedulerconfigv1.Plugin{Name: name})
			}
		}
	}
}

// putPreemptionLast makes DefaultPreemption run in the order of the point's list. The framework runs plugins of multiPoint, such as
// DefaultPreemption by default, before plugins of the point.
func putPreemptionLast(plugins *kubeschedulerconfigv1.Plugins, point *kubeschedulerconfigv1.PluginSet) {
	last := -1
	for i, plugin := range point.Enabled {
		if hasSoftLimit(plugin.Name) && !enables(&plugins.MultiPoint, plugin.Name) {
			last = i
		}
	}
	if last < 0 || !enables(&plugins.MultiPoint, names.DefaultPreemption) || disables(point, names.DefaultPreemption) {
		return
	}
	if !enables(point, names.DefaultPreemption) {
		point.Enabled = slices.Insert(point.Enabled, last+1, kubeschedulerconfigv1.Plugin{Name: names.DefaultPreemption})
	}
	// Disabling it here drops its place in multiPoint, not its entry in this list.
	point.Disabled = append(point.Disabled, kubeschedulerconfigv1.Plugin{Name: names.DefaultPreemption})
}

func weighLoadThreshold(plugins *kubeschedulerconfigv1.Plugins) {
	for _, point := range []*kubeschedulerconfigv1.PluginSet{&plugins.MultiPoint, &plugins.Score} {
		for i := range point.Enabled {
			if plugin := &point.Enabled[i]; plugin.Name == config.LoadThreshold && ptr.Deref(plugin.Weight, 0) == 0 {
				plugin.Weight = ptr.To[int32](defaultLoadThresholdWeight)
			}
		}
	}
}

func enables(point *kubeschedulerconfigv1.PluginSet, name string) bool {
	return contains(point.Enabled, name)
}

func disables(point *kubeschedulerconfigv1.PluginSet, name string) bool {
	return contains(point.Disabled, name) || contains(point.Disabled, "*")
}

func contains(plugins []kubeschedulerconfigv1.Plugin, name string) bool {
	return slices.ContainsFunc(plugins, func(plugin kubeschedulerconfigv1.Plugin) bool { return plugin.Name == name })
}
