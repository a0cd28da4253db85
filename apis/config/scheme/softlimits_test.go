package scheme_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	stockconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	stockscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	stockv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// softLimit is a plugin at the extension points of LoadThreshold and NodeMetrics.
type softLimit struct{ name string }

func (l softLimit) Name() string { return l.name }
func (l softLimit) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*minor.PreFilterResult, *fwk.Status) {
	return nil, nil
}
func (l softLimit) PreFilterExtensions() minor.PreFilterExtensions { return nil }
func (l softLimit) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}
func (l softLimit) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}
func (l softLimit) ScoreExtensions() minor.ScoreExtensions { return nil }
func (l softLimit) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (l softLimit) PostFilter(
	context.Context, fwk.CycleState, *corev1.Pod, minor.NodeToStatusReader,
) (*minor.PostFilterResult, *fwk.Status) {
	return nil, nil
}

func (l softLimit) PodGroupPostFilter(
	context.Context, minor.PodGroupCycleState, minor.PodGroupInfo, minor.PodGroupSchedulingFunc,
) (*minor.PodGroupPostFilterResult, *fwk.Status) {
	return nil, nil
}

// pluginsOf returns the plugins that the framework of a profile runs, in its order.
func pluginsOf(t *testing.T, profile string) *stockconfig.Plugins {
	t.Helper()
	cfg := mustLoad(t, head+"profiles:\n- "+profile)
	metrics.Register()
	registry := plugins.NewInTreeRegistry()
	for _, name := range []string{"LoadThreshold", "NodeMetrics"} {
		check.OK(t, registry.Register(
			name, func(context.Context, runtime.Object, minor.Handle) (minor.Plugin, error) { return softLimit{name}, nil },
		))
	}
	client := fake.NewClientset()
	options := append(minortest.FrameworkOn(cache.NewEmptySnapshot()), frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)))
	return check.Value(frameworkruntime.NewFramework(t.Context(), registry, &cfg.Profiles[0], options...))(t).ListPlugins()
}

// without returns the names of the enabled plugins, in order, except one.
func without(except string, set stockconfig.PluginSet) []string {
	var names []string
	for _, plugin := range set.Enabled {
		if plugin.Name != except {
			names = append(names, plugin.Name)
		}
	}
	return names
}

func TestSoftLimitDefaults_RunBeforePreemption(t *testing.T) {
	for _, tt := range []struct {
		name, profile string
		want          []string
	}{
		{"enabled nowhere", "{}", []string{"DefaultPreemption"}},
		{"enabled by multiPoint", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"two, in the order in which they are enabled", "plugins: {multiPoint: {enabled: [{name: NodeMetrics}, {name: LoadThreshold}]}}", []string{"NodeMetrics", "LoadThreshold", "DefaultPreemption"}},
		{"where preemption is enabled by name", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: DefaultPreemption}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"named by the operator", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: DefaultPreemption}, {name: LoadThreshold}]}}", []string{"DefaultPreemption", "LoadThreshold"}},
		{"preemption disabled at PostFilter", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: DefaultPreemption}]}}", []string{"LoadThreshold"}},
		{"disabled by the operator", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}, {name: NodeMetrics}]}, postFilter: {disabled: [{name: LoadThreshold}]}}", []string{"NodeMetrics", "DefaultPreemption"}},
		{"all disabled by the operator", `plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: "*"}]}}`, nil},
		{"enabled at Filter alone", "plugins: {filter: {enabled: [{name: LoadThreshold}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"enabled at PreFilter alone", "plugins: {preFilter: {enabled: [{name: NodeMetrics}]}}", []string{"NodeMetrics", "DefaultPreemption"}},
		{"two at Filter, in the order in which they are enabled", "plugins: {filter: {enabled: [{name: NodeMetrics}, {name: LoadThreshold}]}}", []string{"NodeMetrics", "LoadThreshold", "DefaultPreemption"}},
		{"one by multiPoint and one at Filter", "plugins: {multiPoint: {enabled: [{name: NodeMetrics}]}, filter: {enabled: [{name: LoadThreshold}]}}", []string{"NodeMetrics", "LoadThreshold", "DefaultPreemption"}},
		{"at Filter, and preemption by name", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: DefaultPreemption}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"at Filter, named by the operator behind preemption", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: DefaultPreemption}, {name: LoadThreshold}]}}", []string{"DefaultPreemption", "LoadThreshold"}},
		{"at Filter, named by the operator before preemption", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: LoadThreshold}, {name: DefaultPreemption}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"at Filter, named by the operator", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: LoadThreshold}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"at Filter, preemption disabled by the operator", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: DefaultPreemption}]}}", []string{"LoadThreshold"}},
		{"at Filter, preemption disabled by multiPoint", "plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}, filter: {enabled: [{name: LoadThreshold}]}}", []string{"LoadThreshold"}},
		{"at Filter, disabled by the operator", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: LoadThreshold}]}}", []string{"DefaultPreemption"}},
		{"at Filter, all disabled by the operator but preemption", `plugins: {filter: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: "*"}], enabled: [{name: DefaultPreemption}]}}`, []string{"DefaultPreemption"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// DynamicResources is left out: it evicts no pod.
			check.Equal(t, "order of PostFilter", tt.want, without("DynamicResources", pluginsOf(t, tt.profile).PostFilter))
			if _, has := reflect.TypeFor[stockconfig.Plugins]().FieldByName("PodGroupPostFilter"); has { // from Kubernetes 1.37 on
				plugins := pluginsOf(t, strings.ReplaceAll(tt.profile, "postFilter", "podGroupPostFilter"))
				groups := reflect.ValueOf(*plugins).FieldByName("PodGroupPostFilter").Interface().(stockconfig.PluginSet)
				check.Equal(t, "order of PodGroupPostFilter", tt.want, without("DynamicResources", groups))
			}
		})
	}
}

func TestSoftLimitDefaults_EnableExtensionPointsTogether(t *testing.T) {
	type enabled struct{ PreFilter, Filter, PostFilter, PreScore, Score bool }
	for _, tt := range []struct {
		name, plugin, profile string
		want                  enabled
	}{
		{"by multiPoint", "LoadThreshold", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}", enabled{true, true, true, true, true}},
		{"at Filter", "LoadThreshold", "plugins: {filter: {enabled: [{name: LoadThreshold}]}}", enabled{true, true, true, true, true}},
		{"at PreFilter", "LoadThreshold", "plugins: {preFilter: {enabled: [{name: LoadThreshold}]}}", enabled{true, true, true, true, true}},
		{"at Filter, without Score", "LoadThreshold", "plugins: {filter: {enabled: [{name: LoadThreshold}]}, score: {disabled: [{name: LoadThreshold}]}}", enabled{true, true, true, true, false}},
		{"at Filter", "NodeMetrics", "plugins: {filter: {enabled: [{name: NodeMetrics}]}}", enabled{true, true, true, false, false}},
		{"at Score", "NodeMetrics", "plugins: {score: {enabled: [{name: NodeMetrics}]}}", enabled{false, false, false, false, true}},
		{"at Filter and Score", "NodeMetrics", "plugins: {filter: {enabled: [{name: NodeMetrics}]}, score: {enabled: [{name: NodeMetrics}]}}", enabled{true, true, true, false, true}},
	} {
		t.Run(tt.plugin+" "+tt.name, func(t *testing.T) {
			plugins := pluginsOf(t, tt.profile)
			has := func(set stockconfig.PluginSet) bool { return len(without(tt.plugin, set)) < len(set.Enabled) }
			got := enabled{has(plugins.PreFilter), has(plugins.Filter), has(plugins.PostFilter), has(plugins.PreScore), has(plugins.Score)}
			check.Equal(t, "enabled", tt.want, got)
		})
	}
}

func TestSoftLimitDefaults_WeightOfLoadThreshold(t *testing.T) {
	for _, tt := range []struct {
		name, profile string
		want          int32
	}{
		{"by multiPoint", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}", 100},
		{"by multiPoint with weight 0", "plugins: {multiPoint: {enabled: [{name: LoadThreshold, weight: 0}]}}", 100},
		{"by multiPoint with a weight", "plugins: {multiPoint: {enabled: [{name: LoadThreshold, weight: 1}]}}", 1},
		{"at Score", "plugins: {score: {enabled: [{name: LoadThreshold}]}}", 100},
		{"at Score with a weight", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, score: {enabled: [{name: LoadThreshold, weight: 7}]}}", 7},
		{"at Filter", "plugins: {filter: {enabled: [{name: LoadThreshold}]}}", 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, plugin := range pluginsOf(t, tt.profile).Score.Enabled {
				if plugin.Name == "LoadThreshold" {
					check.Equal(t, "weight", tt.want, plugin.Weight)
					return
				}
			}
			t.Error("does not score")
		})
	}
}

func TestSoftLimitDefaults_OtherConfigurationsKeepStockDefaults(t *testing.T) {
	for name, profiles := range map[string]string{
		"no profile":              "",
		"two profiles":            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {multiPoint: {enabled: [{name: NodeAffinity}]}, postFilter: {enabled: []}}}]",
		"plugins of this project": "profiles: [{plugins: {score: {enabled: [{name: TargetLoadPacking}]}}}]",
		"preemption disabled":     "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]",
	} {
		t.Run(name, func(t *testing.T) {
			read := func() *configv1.KubeSchedulerConfiguration {
				cfg := &configv1.KubeSchedulerConfiguration{}
				check.OK(t, yaml.UnmarshalStrict([]byte(head+profiles), cfg))
				return cfg
			}
			stock, ours := read(), read()
			stockv1.SetObjectDefaults_KubeSchedulerConfiguration(stock)
			stockscheme.Scheme.Default(ours)
			check.Equal(t, "defaults", stock, ours)
			written := [2][]byte{}
			for i, cfg := range []*configv1.KubeSchedulerConfiguration{stock, ours} {
				var err error
				if written[i], err = json.Marshal(cfg); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(written[0], written[1]) {
				t.Errorf("written differently:\n%s\n%s", written[0], written[1])
			}
		})
	}
}
