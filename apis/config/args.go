package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// LoadSpecOf returns the arguments that all plugins of this project share; nil if args are those of another plugin.
func LoadSpecOf(args runtime.Object) *LoadSpec {
	if a, ok := args.(interface{ GetLoadSpec() *LoadSpec }); ok {
		return a.GetLoadSpec()
	}
	return nil
}

// MetricsOf returns the node metrics in the arguments of a plugin.
func MetricsOf(args runtime.Object) []NodeMetric {
	if a, ok := args.(*NodeMetricsArgs); ok {
		return a.Metrics
	}
	return nil
}

// Environment variables that known deployments set for SignalFx and Datadog.
const (
	// TokenVariable has SignalFx's access token or Datadog's API key, and ApplicationKeyVariable Datadog's application key.
	TokenVariable          = "METRICS_PROVIDER_TOKEN"
	ApplicationKeyVariable = "METRICS_PROVIDER_APP_KEY"
)

// HostFilterVariables returns the names of the environment variables for ClusterName and HostNameSuffix of the type, if any.
func HostFilterVariables(t MetricProviderType) (clusterName, hostNameSuffix string) {
	switch t {
	case SignalFx:
		return "SIGNALFX_CLUSTER_NAME", "SIGNALFX_HOST_NAME_SUFFIX"
	case Datadog:
		return "DATADOG_CLUSTER_NAME", "DATADOG_HOST_NAME_SUFFIX"
	}
	return "", ""
}

// IsHosted reports whether load is read from a service outside of the cluster, which has accounts of its own.
func (s *LoadSpec) IsHosted() bool {
	return s.WatcherAddress == "" && (s.MetricProvider.Type == SignalFx || s.MetricProvider.Type == Datadog)
}

// ReadsPrometheus reports whether load is read from Prometheus.
func (s *LoadSpec) ReadsPrometheus() bool {
	return s.WatcherAddress == "" && s.MetricProvider.Type == Prometheus
}

// ReadsPodsFromPrometheus reports whether the usage of pods is read from Prometheus, else from metrics-server.
func (s *LoadSpec) ReadsPodsFromPrometheus() bool {
	return s.ReadsPrometheus() && !s.MetricProvider.PodsFromMetricsServer
}

// CompleteFromEnvironment sets empty fields of a SignalFx or Datadog spec from environment variables.
// lookup returns a variable's value, as os.Getenv does. Other specs do not change.
func (s *LoadSpec) CompleteFromEnvironment(lookup func(variable string) string) {
	if !s.IsHosted() {
		return
	}
	provider := &s.MetricProvider
	clusterName, hostNameSuffix := HostFilterVariables(provider.Type)
	if provider.ClusterName == "" {
		provider.ClusterName = lookup(clusterName)
	}
	if provider.HostNameSuffix == "" {
		provider.HostNameSuffix = lookup(hostNameSuffix)
	}
	if provider.Token == "" && provider.TokenFile == "" {
		provider.Token = Secret(lookup(TokenVariable))
	}
	if provider.Type == Datadog && provider.ApplicationKey == "" && provider.ApplicationKeyFile == "" {
		provider.ApplicationKey = Secret(lookup(ApplicationKeyVariable))
	}
}

// NodePowerModelVariable is the environment variable that names a JSON file of power models by node name.
const NodePowerModelVariable = "NODE_POWER_MODEL"

// Power is what a node draws at a CPU utilization in percent. It has the unit of K0 and K1.
func (m *PowerModel) Power(percent float64) float64 { return m.K0 + m.K1*math.Exp(m.K2*percent) }

// Packs reports whether the plugin prefers used nodes, up to its target.
func (a *TargetLoadPackingArgs) Packs() bool { return true }

// Packs reports whether the plugin prefers used nodes, up to its target.
func (a *PredictedPeakArgs) Packs() bool { return a.Strategy == StrategyPack }

// SpreadsUnasked reports whether the plugin spreads pods without constraints of their own.
func (a *IncrementalPodTopologySpreadArgs) SpreadsUnasked() bool {
	return a.DefaultingType == schedulerconfig.SystemDefaulting || len(a.DefaultConstraints) > 0
}

// PowerModels are arguments of a plugin that scores by power models.
type PowerModels interface {
	PowerModelOf(node string, labels map[string]string) *PowerModel
	// HasPowerModels reports whether there are any.
	HasPowerModels() bool
}

// PowerModelOf returns the node's power model, or nil. A model for the node's name wins over nodeSelectors.
// Otherwise the first matching nodeSelector counts.
func (a *PeaksArgs) PowerModelOf(name string, labels map[string]string) *PowerModel {
	if model, ok := a.NodePowerModel[name]; ok {
		return &model
	}
	for i := range a.NodePowerModels {
		if Selects(a.NodePowerModels[i].NodeSelector, labels) {
			return &a.NodePowerModels[i].PowerModel
		}
	}
	return nil
}

// PoolOf returns the position of the first thresholds that select a node with the labels; -1 if none do.
func PoolOf(pools []NodeThresholds, labels map[string]string) int {
	for i := range pools { // slices.IndexFunc would allocate
		if Selects(pools[i].NodeSelector, labels) {
			return i
		}
	}
	return -1
}

// Selects reports whether a node with the labels has all labels of the selector.
func Selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if actual, ok := labels[key]; !ok || actual != value {
			return false
		}
	}
	return true
}

func (a *PeaksArgs) HasPowerModels() bool { return len(a.NodePowerModel)+len(a.NodePowerModels) > 0 }

// AddDefaultPowerModel adds a power model for all nodes without another.
func (a *PeaksArgs) AddDefaultPowerModel(model PowerModel) {
	a.NodePowerModels = append(a.NodePowerModels, NodePowerModel{PowerModel: model})
}

// The plugins' names in a KubeSchedulerConfiguration.
const (
	DecisionRecord               = "DecisionRecord"
	IncrementalInterPodAffinity  = "IncrementalInterPodAffinity"
	IncrementalPodTopologySpread = "IncrementalPodTopologySpread"
	LoadThreshold                = "LoadThreshold"
	LoadVariationRiskBalancing   = "LoadVariationRiskBalancing"
	LowRiskOverCommitment        = "LowRiskOverCommitment"
	NodeMetrics                  = "NodeMetrics"
	Peaks                        = "Peaks"
	PredictedPeak                = "PredictedPeak"
	RequestBounds                = "RequestBounds"
	TargetLoadPacking            = "TargetLoadPacking"
)

// MinNodeScore and MaxNodeScore bound a plugin's score of a node before its weight. Kubernetes' own constants are in another
// package in 1.34, and deprecated since 1.36.
const (
	MinNodeScore int64 = 0
	MaxNodeScore int64 = 100
)

// PluginNames returns the names of all plugins.
func PluginNames() []string {
	return []string{
		DecisionRecord, IncrementalInterPodAffinity, IncrementalPodTopologySpread, LoadThreshold, LoadVariationRiskBalancing,
		LowRiskOverCommitment, NodeMetrics, Peaks, PredictedPeak, RequestBounds, TargetLoadPacking,
	}
}

// RejectRule rejects the nodes whose value of a metric is above or below a bound. The zero value rejects none.
type RejectRule struct {
	operator string
	bound    float64
}

// ParseRejectRule parses a rule such as "> 5": one of >, >=, <, <= and a finite number. The empty string is the rule that
// rejects none.
func ParseRejectRule(text string) (RejectRule, error) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return RejectRule{}, nil
	}
	for _, operator := range []string{">=", "<=", ">", "<"} { // the longer ones first
		number, ok := strings.CutPrefix(trimmed, operator)
		if !ok {
			continue
		}
		bound, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) {
			break
		}
		return RejectRule{operator: operator, bound: bound}, nil
	}
	return RejectRule{}, fmt.Errorf(`%q is not one of >, >=, <, <= and a finite number, such as "> 5"`, text)
}

// RulesOut reports whether the rule rejects a node with the given value. It never rejects NaN.
func (r RejectRule) RulesOut(value float64) bool {
	switch r.operator {
	case ">":
		return value > r.bound
	case ">=":
		return value >= r.bound
	case "<":
		return value < r.bound
	case "<=":
		return value <= r.bound
	}
	return false
}

// IsZero reports whether the rule rejects no node, whatever its value.
func (r RejectRule) IsZero() bool { return r.operator == "" }

// String returns the rule as in a configuration, such as "> 5".
func (r RejectRule) String() string {
	if r.IsZero() {
		return ""
	}
	return r.operator + " " + strconv.FormatFloat(r.bound, 'g', -1, 64)
}
