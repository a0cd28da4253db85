package scheme_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeschedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const head = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// knownConfiguration has only fields that existing implementations of the plugins have.
const knownConfiguration = head + `
leaderElection:
  leaderElect: false
profiles:
- schedulerName: load-aware
  plugins:
    score:
      disabled:
      - name: NodeResourcesBalancedAllocation
      enabled:
      - name: TargetLoadPacking
        weight: 5
      - name: LoadVariationRiskBalancing
  pluginConfig:
  - name: TargetLoadPacking
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: TargetLoadPackingArgs
      defaultRequests:
        cpu: "2000m"
      defaultRequestsMultiplier: "1"
      targetUtilization: 70
      metricProvider:
        type: Prometheus
        address: http://prometheus-k8s.monitoring.svc.cluster.local:9090
  - name: LoadVariationRiskBalancing
    args:
      safeVarianceMargin: 1
      safeVarianceSensitivity: 2
      watcherAddress: http://127.0.0.1:2020
      metricProvider:
        type: SignalFx
        address: https://api.example.com
        token: hunter2
        insecureSkipVerify: true
`

func load(t *testing.T, yaml string) (*kubeschedulerconfig.KubeSchedulerConfiguration, error) {
	t.Helper()
	file := check.File(t, "config.yaml", yaml)
	return options.LoadConfigFromFile(logr.Discard(), file)
}

func mustLoad(t *testing.T, yaml string) *kubeschedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	return check.Value(load(t, yaml))(t)
}

// argsOf returns the arguments of a plugin in the first profile.
func argsOf(t *testing.T, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, plugin string) runtime.Object {
	t.Helper()
	for _, pluginConfig := range cfg.Profiles[0].PluginConfig {
		if pluginConfig.Name == plugin {
			return pluginConfig.Args
		}
	}
	t.Fatalf("no arguments of %s", plugin)
	return nil
}

// withDefaults returns the documented defaults with a change; nil changes nothing.
func withDefaults(change func(*config.LoadSpec)) config.LoadSpec {
	spec := config.LoadSpec{
		MetricProvider: config.MetricProviderSpec{
			Type: config.KubernetesMetricsServer, Dialect: config.DialectAuto,
			NodeLabels: []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname", "k8s_node_name"},
			Timeout:    metav1.Duration{Duration: 10 * time.Second},
		},
		Window:          metav1.Duration{Duration: 5 * time.Minute},
		RefreshInterval: metav1.Duration{Duration: 30 * time.Second},
		MaxAge:          metav1.Duration{Duration: 5 * time.Minute},
		DriftTolerance:  10,
	}
	if change != nil {
		change(&spec)
	}
	return spec
}

func TestScheme_DecodesFile(t *testing.T) {
	for _, tt := range []struct {
		name, yaml, plugin string
		want               runtime.Object
	}{
		{
			name: "a known configuration of TargetLoadPacking", yaml: knownConfiguration, plugin: "TargetLoadPacking", want: &config.TargetLoadPackingArgs{
				LoadSpec: withDefaults(func(spec *config.LoadSpec) {
					spec.MetricProvider.Type = config.Prometheus
					spec.MetricProvider.Address = "http://prometheus-k8s.monitoring.svc.cluster.local:9090"
				}),
				MissingLoad:               config.MissingLoadRequests,
				TargetUtilization:         70,
				DefaultRequests:           corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2000m")},
				DefaultRequestsMultiplier: "1",
				MaxLimitRequestRatio:      10,
			},
		},
		{
			name: "a known configuration of LoadVariationRiskBalancing", yaml: knownConfiguration, plugin: "LoadVariationRiskBalancing",
			want: &config.LoadVariationRiskBalancingArgs{
				LoadSpec: withDefaults(func(spec *config.LoadSpec) {
					spec.WatcherAddress = "http://127.0.0.1:2020"
					spec.MetricProvider.Type = config.SignalFx
					spec.MetricProvider.Address = "https://api.example.com"
					spec.MetricProvider.Token = "hunter2"
					spec.MetricProvider.InsecureSkipVerify = true
				}),
				MissingLoad:             config.MissingLoadRequests,
				SafeVarianceMargin:      1,
				SafeVarianceSensitivity: 2,
			},
		},
		{
			name:   "a known configuration of LowRiskOverCommitment",
			yaml:   head + "profiles: [{pluginConfig: [{name: LowRiskOverCommitment, args: {smoothingWindowSize: 3, riskLimitWeights: {cpu: .75, memory: 0.25}, watcherAddress: 'http://127.0.0.1:2020'}}]}]",
			plugin: "LowRiskOverCommitment", want: &config.LowRiskOverCommitmentArgs{
				LoadSpec:    withDefaults(func(spec *config.LoadSpec) { spec.WatcherAddress = "http://127.0.0.1:2020" }),
				MissingLoad: config.MissingLoadNeutral, SmoothingWindowSize: 3,
				RiskLimitWeights: map[corev1.ResourceName]float64{"cpu": 0.75, "memory": 0.25}, UnlimitedPods: config.UnlimitedPodsAsRequest,
			},
		},
		{
			name:   "a known configuration of Peaks",
			yaml:   head + "profiles: [{pluginConfig: [{name: Peaks, args: {watcherAddress: 'http://127.0.0.1:2020', nodePowerModel: {node-1: {k0: 471.7412504, k1: -91.50493019, k2: -0.07186049}}}}]}]",
			plugin: "Peaks", want: &config.PeaksArgs{
				LoadSpec:       withDefaults(func(spec *config.LoadSpec) { spec.WatcherAddress = "http://127.0.0.1:2020" }),
				MissingLoad:    config.MissingLoadNeutral,
				NodePowerModel: map[string]config.PowerModel{"node-1": {K0: 471.7412504, K1: -91.50493019, K2: -0.07186049}},
			},
		},
		{
			name: "an enabled plugin without pluginConfig", yaml: head + "profiles: [{plugins: {score: {enabled: [{name: LoadVariationRiskBalancing}]}}}]",
			plugin: "LoadVariationRiskBalancing", want: &config.LoadVariationRiskBalancingArgs{
				LoadSpec: withDefaults(nil), MissingLoad: config.MissingLoadRequests, SafeVarianceMargin: 1, SafeVarianceSensitivity: 1,
			},
		},
		{
			name: "a pluginConfig without args", yaml: head + "profiles: [{pluginConfig: [{name: TargetLoadPacking}]}]", plugin: "TargetLoadPacking",
			want: &config.TargetLoadPackingArgs{
				LoadSpec: withDefaults(nil), MissingLoad: config.MissingLoadRequests, TargetUtilization: 40,
				DefaultRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}, DefaultRequestsMultiplier: "1.5",
				MaxLimitRequestRatio: 10,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "args differ", tt.want, argsOf(t, mustLoad(t, tt.yaml), tt.plugin))
		})
	}
}

func TestScheme_KnownConfigurationIsValid(t *testing.T) {
	cfg := mustLoad(t, knownConfiguration)
	if err := kubeschedulervalidation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		t.Errorf("stock validation refuses it: %v", err)
	}
	if err := validation.ValidatePluginConfigs(cfg, false); err != nil {
		t.Errorf("validation refuses it: %v", err)
	}
}

func TestScheme_RefusesUnknownAndMistypedFields(t *testing.T) {
	pluginConfig := func(args string) string {
		return head + "profiles:\n- pluginConfig:\n  - name: TargetLoadPacking\n    args: " + args + "\n"
	}
	for _, tt := range []struct {
		name, yaml string
		want       []string
	}{
		{name: "an unknown field", yaml: pluginConfig("{targetUtilisation: 50}"), want: []string{".profiles[0].pluginConfig[0]", `unknown field "targetUtilisation"`}},
		{
			name: "an unknown field of metricProvider", yaml: pluginConfig("{metricProvider: {addr: x}}"),
			want: []string{".profiles[0].pluginConfig[0]", `unknown field "metricProvider.addr"`},
		},
		{name: "the shared fields are not nested", yaml: pluginConfig("{loadSpec: {window: 5m}}"), want: []string{`unknown field "loadSpec"`}},
		{name: "a duplicate field", yaml: pluginConfig("{targetUtilization: 50, targetUtilization: 60}"), want: []string{`key "targetUtilization" already set`}},
		{
			name: "another plugin's kind", yaml: pluginConfig("{apiVersion: kubescheduler.config.k8s.io/v1, kind: LoadVariationRiskBalancingArgs}"),
			want: []string{".profiles[0].pluginConfig[0]", "not of type TargetLoadPackingArgs"},
		},
		{
			name: "a number without quotes for the multiplier", yaml: pluginConfig("{defaultRequestsMultiplier: 1.5}"),
			want: []string{".profiles[0].pluginConfig[0]", "defaultRequestsMultiplier"},
		},
		{
			name: "a token that is no string is not shown", yaml: pluginConfig("{metricProvider: {token: [hunter2]}}"),
			want: []string{".profiles[0].pluginConfig[0]", "metricProvider.token"},
		},
		{name: "a duplicate token is not shown", yaml: pluginConfig("{metricProvider: {token: hunter2, token: hunter2}}"), want: []string{`key "token" already set`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.yaml)
			check.Error(t, err)
			check.Error(t, err, tt.want...)
			check.Lacks(t, err.Error(), "hunter2")
		})
	}
}

// loggedConfiguration returns a configuration as the kube-scheduler logs it at verbosity 2.
func loggedConfiguration(t *testing.T, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) string {
	t.Helper()
	var logged string
	logger := funcr.NewJSON(func(line string) {
		var entry struct{ Config string }
		check.OK(t, json.Unmarshal([]byte(line), &entry))
		logged += entry.Config
	}, funcr.Options{Verbosity: 2})
	check.OK(t, options.LogOrWriteConfig(logger, "", cfg, cfg.Profiles))
	return logged
}

func TestScheme_LogHidesToken(t *testing.T) {
	cfg := mustLoad(t, knownConfiguration)
	logged := loggedConfiguration(t, cfg)
	check.Lacks(t, logged, "hunter2")
	for _, want := range []string{"token: <redacted>", "kind: TargetLoadPackingArgs", "targetUtilization: 70"} {
		check.Contains(t, logged, want)
	}
	if args := argsOf(t, cfg, "LoadVariationRiskBalancing").(*config.LoadVariationRiskBalancingArgs); args.MetricProvider.Token != "hunter2" {
		t.Error("logging changed the token that is used")
	}
}

func TestScheme_ConfigzHidesToken(t *testing.T) {
	// configz serves the internal configuration as JSON.
	served := check.Value(json.Marshal(mustLoad(t, knownConfiguration)))(t)
	check.Lacks(t, string(served), "hunter2")
	check.Contains(t, string(served), "redacted")
}

func TestScheme_ReadsBackWrittenConfiguration(t *testing.T) {
	cfg := mustLoad(t, strings.ReplaceAll(knownConfiguration, "token: hunter2", `token: ""`))
	again := mustLoad(t, loggedConfiguration(t, cfg.DeepCopy()))
	for i := range again.Profiles { // from Kubernetes 1.38 on, each defaulting adds DefaultPreemption once more
		disabled := &again.Profiles[i].Plugins.Reserve.Disabled
		*disabled = slices.Compact(*disabled)
	}
	check.Equal(t, "read back differs", cfg, again)
}

func TestScheme_RefusesPlaceholderOfWrittenToken(t *testing.T) {
	again := mustLoad(t, loggedConfiguration(t, mustLoad(t, knownConfiguration)))
	err := validation.ValidatePluginConfigs(again, false)
	check.Error(t, err, "profiles[0].pluginConfig[1].args.metricProvider.token: ", "put the token back")
}

func TestAddToScheme_MayBeCalledTwice(t *testing.T) {
	s := runtime.NewScheme()
	for range 2 {
		check.OK(t, scheme.AddToScheme(s))
	}
}
