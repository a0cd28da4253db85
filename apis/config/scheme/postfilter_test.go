package scheme_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	stockscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	stockv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// relaxer stands for one of the plugins that may relax a soft limit.
type relaxer struct{ name string }

func (r relaxer) Name() string { return r.name }
func (r relaxer) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, nil
}

// postFilters is the order in which the framework that a profile is run by asks PostFilter plugins.
func postFilters(t *testing.T, profile string) []string {
	t.Helper()
	cfg := mustLoad(t, head+"profiles:\n- "+profile)
	metrics.Register()
	registry := plugins.NewInTreeRegistry()
	for _, name := range []string{"LoadThreshold", "NodeMetrics"} {
		if err := registry.Register(name, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return relaxer{name}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	client := fake.NewClientset()
	f, err := frameworkruntime.NewFramework(t.Context(), registry, &cfg.Profiles[0],
		frameworkruntime.WithSnapshotSharedLister(cache.NewEmptySnapshot()), frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, plugin := range f.ListPlugins().PostFilter.Enabled {
		if plugin.Name != "DynamicResources" { // which evicts nobody
			names = append(names, plugin.Name)
		}
	}
	return names
}

func TestWhatRelaxesALimitStandsBeforePreemption(t *testing.T) {
	for _, tt := range []struct {
		name    string
		profile string
		want    []string
	}{
		{"enabled nowhere", "{}", []string{"DefaultPreemption"}},
		{"enabled by multiPoint", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"two, in the order they are enabled in", "plugins: {multiPoint: {enabled: [{name: NodeMetrics}, {name: LoadThreshold}]}}", []string{"NodeMetrics", "LoadThreshold", "DefaultPreemption"}},
		{"where preemption is enabled by name", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: DefaultPreemption}]}}", []string{"LoadThreshold", "DefaultPreemption"}},
		{"named by the operator", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {enabled: [{name: DefaultPreemption}, {name: LoadThreshold}]}}", []string{"DefaultPreemption", "LoadThreshold"}},
		{"preemption disabled by the operator", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: DefaultPreemption}]}}", []string{"LoadThreshold"}},
		{"disabled by the operator", "plugins: {multiPoint: {enabled: [{name: LoadThreshold}, {name: NodeMetrics}]}, postFilter: {disabled: [{name: LoadThreshold}]}}", []string{"NodeMetrics", "DefaultPreemption"}},
		{"all disabled by the operator", `plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}, postFilter: {disabled: [{name: "*"}]}}`, nil},
		// Without multiPoint the order is the framework's, as for any plugin: the READMEs say to enable these by multiPoint.
		{"enabled at PostFilter alone", "plugins: {postFilter: {enabled: [{name: LoadThreshold}]}}", []string{"DefaultPreemption", "LoadThreshold"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, postFilters(t, tt.profile)); diff != "" {
				t.Errorf("order of PostFilter (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAConfigurationWithoutThePluginsHasTheStockDefaults(t *testing.T) {
	for name, profiles := range map[string]string{
		"no profile":               "",
		"two profiles":             "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {multiPoint: {enabled: [{name: NodeAffinity}]}, postFilter: {enabled: []}}}]",
		"plugins of this project":  "profiles: [{plugins: {score: {enabled: [{name: TargetLoadPacking}]}}}]",
		"preemption not preferred": "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]",
	} {
		t.Run(name, func(t *testing.T) {
			read := func() *configv1.KubeSchedulerConfiguration {
				cfg := &configv1.KubeSchedulerConfiguration{}
				if err := yaml.UnmarshalStrict([]byte(head+profiles), cfg); err != nil {
					t.Fatal(err)
				}
				return cfg
			}
			stock, ours := read(), read()
			stockv1.SetObjectDefaults_KubeSchedulerConfiguration(stock)
			stockscheme.Scheme.Default(ours)
			if diff := cmp.Diff(stock, ours); diff != "" {
				t.Errorf("defaults (-stock +ours):\n%s", diff)
			}
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

func TestLimitsAreDecoded(t *testing.T) {
	cfg := mustLoad(t, head+`
profiles:
- plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}, {name: NodeMetrics}]
  pluginConfig:
  - name: LoadThreshold
    args:
      thresholds: {cpu: 80, memory: 90}
      windows: {cpu: 5m, memory: 15m}
      exempt: {priorityClassNames: [critical], podSelector: {matchLabels: {a: b}}}
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://prometheus:9090"}
      metrics:
      - name: http-latency
        query: sum by (node) (rate(http_request_duration_seconds_sum[5m])) / sum by (node) (rate(http_request_duration_seconds_count[5m]))
        prefer: Lower            # or Higher
        weight: 3
        bounds: {best: 0.05, worst: 2}     # optional; without it, normalised over the candidates of the decision
        reject: "> 5"                       # optional: a Filter rule, > >= < <=
`)
	threshold := argsOf(t, cfg, "LoadThreshold").(*config.LoadThresholdArgs)
	if *threshold.Thresholds.CPU != 80 || *threshold.Thresholds.Memory != 90 || threshold.Windows.CPU.Duration != 5*time.Minute ||
		threshold.Windows.Memory.Duration != 15*time.Minute || !threshold.IgnoreDaemonSets || threshold.WhenNoneFits != config.WhenNoneFitsRelax {
		t.Errorf("LoadThreshold: %+v", threshold)
	}
	exempt := config.Exemption{PriorityClassNames: []string{"critical"}, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	if diff := cmp.Diff(exempt, threshold.Exempt); diff != "" {
		t.Errorf("exempt (-want +got):\n%s", diff)
	}
	want := []config.NodeMetric{{
		Name:   "http-latency",
		Query:  "sum by (node) (rate(http_request_duration_seconds_sum[5m])) / sum by (node) (rate(http_request_duration_seconds_count[5m]))",
		Prefer: config.PreferLower,
		Weight: 3,
		Bounds: &config.MetricBounds{Best: 0.05, Worst: 2},
		Reject: "> 5",
	}}
	if diff := cmp.Diff(want, argsOf(t, cfg, "NodeMetrics").(*config.NodeMetricsArgs).Metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
