package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MetricProviderType names a kind of metrics source.
type MetricProviderType string

const (
	// KubernetesMetricsServer reads metrics.k8s.io of the cluster that is scheduled.
	KubernetesMetricsServer MetricProviderType = "KubernetesMetricsServer"
	// Prometheus reads any server that speaks the Prometheus HTTP API.
	Prometheus MetricProviderType = "Prometheus"
	// SignalFx reads SignalFx, which is now Splunk Observability Cloud.
	SignalFx MetricProviderType = "SignalFx"
	// Datadog reads Datadog.
	Datadog MetricProviderType = "Datadog"
)

// Dialect names the family of series that hold a node's load.
type Dialect string

const (
	// DialectAuto takes the first dialect with at least half as many nodes as the best. It searches again when that returns no data.
	DialectAuto Dialect = "Auto"
	// DialectNodeExporter reads node_exporter's raw series.
	DialectNodeExporter Dialect = "NodeExporter"
	// DialectKubePrometheus reads the recording rules of the kube-prometheus mixins.
	DialectKubePrometheus Dialect = "KubePrometheus"
	// DialectKubelet reads the kubelet's /metrics/resource.
	DialectKubelet Dialect = "Kubelet"
	// DialectCAdvisor reads the root cgroup of the kubelet's /metrics/cadvisor.
	DialectCAdvisor Dialect = "cAdvisor"

	// DialectUtilization reads cpu.utilization and memory.utilization of Datadog.
	DialectUtilization Dialect = "Utilization"
	// DialectDatadogAgent reads system.cpu.idle and system.mem.pct_usable of Datadog's own agent.
	DialectDatadogAgent Dialect = "DatadogAgent"
)

// MissingLoad says how a plugin evaluates a node with unknown load.
type MissingLoad string

const (
	// MissingLoadRequests evaluates the node by its pods' requests.
	MissingLoadRequests MissingLoad = "Requests"
	// MissingLoadNeutral gives the node the mean score of the nodes whose load is known.
	MissingLoadNeutral MissingLoad = "Neutral"
	// MissingLoadLowest gives the node the lowest score.
	MissingLoadLowest MissingLoad = "Lowest"

	// MissingLoadPass makes a filter accept the node.
	MissingLoadPass MissingLoad = "Pass"
	// MissingLoadReject makes a filter reject the node.
	MissingLoadReject MissingLoad = "Reject"
)

// Statistic is the statistic of the measured load that is compared with a threshold.
type Statistic string

const (
	// StatisticMean is the mean over the window.
	StatisticMean Statistic = "Mean"
	// StatisticMeanPlusStdDev is the mean plus a multiple of the standard deviation.
	StatisticMeanPlusStdDev Statistic = "MeanPlusStdDev"
	// StatisticP95 is the 95th percentile over the window.
	StatisticP95 Statistic = "P95"
	// StatisticMax is the maximum over the window.
	StatisticMax Statistic = "Max"
	// StatisticPredictedPeak is the peak that the statistics of the pods' workloads predict.
	StatisticPredictedPeak Statistic = "PredictedPeak"
)

// UnlimitedPods selects the limit that LowRiskOverCommitment assumes for a pod that has a container without one.
type UnlimitedPods string

const (
	// UnlimitedPodsUnlimited takes 10 times the request of the pod, and at most the allocatable of the node.
	UnlimitedPodsUnlimited UnlimitedPods = "Unlimited"
	// UnlimitedPodsAsRequest takes the sum of the containers' limits, and at least the pod's request.
	UnlimitedPodsAsRequest UnlimitedPods = "AsRequest"
)

// Strategy says which predicted peaks PredictedPeak prefers.
type Strategy string

const (
	// StrategySpread prefers the node of the lowest peak.
	StrategySpread Strategy = "Spread"
	// StrategyPack prefers nodes up to a target, and from there on the node of the lowest peak.
	StrategyPack Strategy = "Pack"
)

// WhenNoneFits says what happens to a pod when a soft limit rejects every node that the pod would otherwise fit.
type WhenNoneFits string

const (
	// WhenNoneFitsRelax waives the limit for the pod, at once and before any pod is preempted.
	WhenNoneFitsRelax WhenNoneFits = "Relax"
	// WhenNoneFitsReject keeps the pod pending until a node is below the limit again.
	WhenNoneFitsReject WhenNoneFits = "Reject"
)

// Preference says which values of a metric are better.
type Preference string

const (
	// PreferLower prefers low values.
	PreferLower Preference = "Lower"
	// PreferHigher prefers high values.
	PreferHigher Preference = "Higher"
)

// LoadQueries are custom queries in the provider's language. They replace the dialect's. Each query yields one series per node.
//
//   - Prometheus: the value is the mean utilization over `$window`, as a fraction of capacity.
//   - SignalFx, Datadog: the values are utilizations in percent.
//
// At least one of the two is set. A resource without a query uses the dialect's.
type LoadQueries struct {
	CPU    string
	Memory string
}

// DefaultNodeLabels returns the labels of a series that may name its node where the arguments name none.
func DefaultNodeLabels() []string {
	return []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname"}
}

// MetricProviderSpec describes a source of load.
type MetricProviderSpec struct {
	Type               MetricProviderType
	Address            string
	Token              Secret
	TokenFile          string
	ApplicationKey     Secret
	ApplicationKeyFile string
	CAFile             string
	InsecureSkipVerify bool
	ClusterName        string
	HostNameSuffix     string
	Dialect            Dialect
	Queries            *LoadQueries
	NodeLabels         []string
	Selector           string
	Timeout            metav1.Duration
}

// LoadSpec holds the arguments that all plugins share: the source of load, the window, and the trust.
type LoadSpec struct {
	WatcherAddress  string
	MetricProvider  MetricProviderSpec
	Window          metav1.Duration
	RefreshInterval metav1.Duration
	MaxAge          metav1.Duration
	DriftTolerance  float64
}

// GetLoadSpec returns s. The arguments of all plugins embed a LoadSpec, and thereby have this method.
func (s *LoadSpec) GetLoadSpec() *LoadSpec { return s }

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TargetLoadPackingArgs holds the arguments of the TargetLoadPacking plugin.
type TargetLoadPackingArgs struct {
	metav1.TypeMeta
	LoadSpec
	MissingLoad               MissingLoad
	TargetUtilization         int64
	DefaultRequests           corev1.ResourceList
	DefaultRequestsMultiplier string
	MaxLimitRequestRatio      float64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadVariationRiskBalancingArgs holds the arguments of the LoadVariationRiskBalancing plugin.
type LoadVariationRiskBalancingArgs struct {
	metav1.TypeMeta
	LoadSpec
	MissingLoad             MissingLoad
	DefaultRequests         corev1.ResourceList
	SafeVarianceMargin      float64
	SafeVarianceSensitivity float64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LowRiskOverCommitmentArgs holds the arguments of the LowRiskOverCommitment plugin.
type LowRiskOverCommitmentArgs struct {
	metav1.TypeMeta
	LoadSpec
	MissingLoad         MissingLoad
	SmoothingWindowSize int64
	RiskLimitWeights    map[corev1.ResourceName]float64
	UnlimitedPods       UnlimitedPods
}

// PowerModel is the power of a node at a CPU utilization of x percent: K0 + K1·e^(K2·x). All models share a unit.
// K0, K1 and K1·e^(K2·100) are in [-1e15, 1e15].
type PowerModel struct {
	K0, K1, K2 float64
}

// NodePowerModel is the power model of the nodes with all labels of NodeSelector. An empty one selects all nodes.
type NodePowerModel struct {
	NodeSelector map[string]string
	PowerModel
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeaksArgs holds the arguments of the Peaks plugin.
type PeaksArgs struct {
	metav1.TypeMeta
	LoadSpec
	MissingLoad     MissingLoad
	NodePowerModel  map[string]PowerModel
	NodePowerModels []NodePowerModel
}

// Thresholds are utilizations in percent, in [1, 100]; a resource without one is not limited.
type Thresholds struct {
	CPU    *int64
	Memory *int64
}

// ThresholdWindows are the windows over which the resources are measured.
type ThresholdWindows struct {
	CPU    metav1.Duration
	Memory metav1.Duration
}

// Exemption selects the pods that thresholds do not apply to.
type Exemption struct {
	PriorityClassNames []string
	PodSelector        *metav1.LabelSelector
	NamespaceSelector  *metav1.LabelSelector
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadThresholdArgs holds the arguments of the LoadThreshold plugin.
type LoadThresholdArgs struct {
	metav1.TypeMeta
	LoadSpec
	MissingLoad      MissingLoad
	Thresholds       Thresholds
	Windows          ThresholdWindows
	DefaultRequests  corev1.ResourceList
	Statistic        Statistic
	StdDevFactor     float64
	PredictedPeak    PeakSpec
	IgnoreDaemonSets bool
	Exempt           Exemption
	WhenNoneFits     WhenNoneFits
}

// MetricBounds are the values of a metric that get the highest and the lowest score.
type MetricBounds struct {
	Best  float64
	Worst float64
}

// PendingPods counts pods that a metric does not show yet.
type PendingPods struct {
	PerPod float64
	Window metav1.Duration
}

// NodeMetric is one metric that evaluates nodes.
type NodeMetric struct {
	Name    string
	Query   string
	Prefer  Preference
	Weight  int64
	Bounds  *MetricBounds
	Pending *PendingPods
	Reject  string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeMetricsArgs holds the arguments of the NodeMetrics plugin.
type NodeMetricsArgs struct {
	metav1.TypeMeta
	LoadSpec
	Metrics      []NodeMetric
	WhenNoneFits WhenNoneFits
}

// StatisticsSpec says which statistics of workloads are kept.
type StatisticsSpec struct {
	History       metav1.Duration
	WorkloadLabel string
}

// UnknownUsage says what is expected of a pod whose workload has too little history.
type UnknownUsage struct {
	RequestMultiplier float64
	Default           corev1.ResourceList
}

// PeakSpec says how the peaks of nodes are predicted.
type PeakSpec struct {
	StatisticsSpec
	MinHistory           metav1.Duration
	Deviations           float64
	Unknown              UnknownUsage
	MaxLimitRequestRatio float64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PredictedPeakArgs holds the arguments of the PredictedPeak plugin.
type PredictedPeakArgs struct {
	metav1.TypeMeta
	LoadSpec
	PeakSpec
	MissingLoad MissingLoad
	Strategy    Strategy
	Target      int64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DecisionRecordArgs holds the arguments of the DecisionRecord plugin.
type DecisionRecordArgs struct {
	metav1.TypeMeta

	EventsPerSecond int64
	Burst           int64
}
