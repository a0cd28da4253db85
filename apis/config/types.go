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
	Type MetricProviderType
	// Address is the server's http(s) URL, a path prefix included. Prometheus, SignalFx and Datadog have one.
	Address string
	// Token is a bearer token, SignalFx's access token or Datadog's API key. TokenFile names a file with the token, and is
	// reread as it rotates. At most one is set.
	Token     Secret
	TokenFile string
	// ApplicationKey is Datadog's second key; ApplicationKeyFile names a file that holds one and is reread as it rotates. At most
	// one is set.
	ApplicationKey     Secret
	ApplicationKeyFile string
	// CAFile names a PEM bundle of trusted authorities for the server's certificate. Empty means the system's roots.
	CAFile string
	// InsecureSkipVerify accepts any certificate of the server.
	InsecureSkipVerify bool
	// ClusterName is what SignalFx or Datadog call the cluster that is read; empty means all. HostNameSuffix is what hosts have
	// there after the names of nodes.
	ClusterName    string
	HostNameSuffix string
	// Prometheus and Datadog use Dialect, these two and SignalFx use Queries, and Prometheus alone uses NodeLabels.
	Dialect Dialect
	Queries *LoadQueries
	// NodeLabels are the labels of a series that may name its node, in order of precedence. Not empty.
	NodeLabels []string
	// Selector holds PromQL label matchers in braces. Queries of a dialect read only series that match. Empty means all series.
	Selector string
	// Timeout bounds one refresh. In (0, MaxAge].
	Timeout metav1.Duration
}

// LoadSpec holds the arguments that all plugins share: the source of load, the window, and the trust.
type LoadSpec struct {
	// WatcherAddress is the http(s) URL of a load-watcher service. If set, the service is the source.
	// MetricProvider then only sets the connection: Token, TokenFile, CAFile, InsecureSkipVerify and Timeout.
	WatcherAddress string
	MetricProvider MetricProviderSpec
	// Window is the time over which means and standard deviations are taken. In [10s, 1h].
	Window metav1.Duration
	// RefreshInterval is the time between two refreshes from the source. In [1s, MaxAge].
	RefreshInterval metav1.Duration
	// MaxAge is the age beyond which a node's load is no longer trusted, however steady it was.
	MaxAge metav1.Duration
	// DriftTolerance is the drift, in percentage points, at which load expires. > 0.
	DriftTolerance float64
}

// GetLoadSpec returns s. The arguments of all plugins embed a LoadSpec, and thereby have this method.
func (s *LoadSpec) GetLoadSpec() *LoadSpec { return s }

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TargetLoadPackingArgs holds the arguments of the TargetLoadPacking plugin.
type TargetLoadPackingArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node with unknown load is evaluated.
	MissingLoad MissingLoad
	// TargetUtilization is the CPU utilization, in percent of capacity, up to which nodes are packed. In [1, 99].
	TargetUtilization int64
	// DefaultRequests is the usage of a container without limit and request. Only cpu is used, and memory is allowed. ≥ 0.
	DefaultRequests corev1.ResourceList
	// DefaultRequestsMultiplier times its request is the usage expected of a container without a limit. A finite decimal number
	// ≥ 0.
	DefaultRequestsMultiplier string
	// MaxLimitRequestRatio bounds the pending usage of pods with a limit. A limit counts up to this multiple of its request.
	// Finite and ≥ 1.
	MaxLimitRequestRatio float64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadVariationRiskBalancingArgs holds the arguments of the LoadVariationRiskBalancing plugin.
type LoadVariationRiskBalancingArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node with unknown load is evaluated.
	MissingLoad MissingLoad
	// DefaultRequests is the request of a pod that requests nothing of a resource. Only cpu and memory are allowed. ≥ 0.
	DefaultRequests corev1.ResourceList
	// SafeVarianceMargin multiplies the standard deviation. Finite and ≥ 0.
	SafeVarianceMargin float64
	// SafeVarianceSensitivity s makes the score use the s-th root of the standard deviation; 0 leaves the deviation out. Finite
	// and ≥ 0.
	SafeVarianceSensitivity float64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LowRiskOverCommitmentArgs holds the arguments of the LowRiskOverCommitment plugin.
type LowRiskOverCommitmentArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node with unknown load is evaluated.
	MissingLoad MissingLoad
	// SmoothingWindowSize is the number of samples in each measured mean. Its square root multiplies the deviation. ≥ 1.
	SmoothingWindowSize int64
	// RiskLimitWeights are the weights, in [0, 1], of the risk by limits beside that by load. They hold cpu and memory.
	RiskLimitWeights map[corev1.ResourceName]float64
	// UnlimitedPods selects the limit of a pod that has a container without one.
	UnlimitedPods UnlimitedPods
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
	// MissingLoad says how a node with unknown load is evaluated. A node without a power model gets the mean score of the others, or
	// the lowest if this is Lowest.
	MissingLoad MissingLoad
	// NodePowerModel are power models by name of the node. If it is empty, and the environment variable NODE_POWER_MODEL names a file,
	// they are read from there.
	NodePowerModel map[string]PowerModel
	// NodePowerModels are for nodes without a model by name: the first that selects the node counts.
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
	// PriorityClassNames exempts the pods of these priority classes.
	PriorityClassNames []string
	// PodSelector exempts the pods whose labels it matches; nil matches none. Whoever writes a pod sets its labels.
	PodSelector *metav1.LabelSelector
	// NamespaceSelector exempts the pods of the namespaces whose labels it matches; nil matches none.
	NamespaceSelector *metav1.LabelSelector
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadThresholdArgs holds the arguments of the LoadThreshold plugin.
type LoadThresholdArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node with unknown load is evaluated: Requests, Pass or Reject.
	MissingLoad MissingLoad
	// Thresholds are the utilizations that no node may exceed with the pod on it.
	Thresholds Thresholds
	// Windows are the windows over which the resources are measured. In [10s, 1h], from a Prometheus in [10s, 24h] unless Statistic is
	// PredictedPeak.
	Windows ThresholdWindows
	// DefaultRequests is the request of a pod that requests nothing of a resource. Only cpu and memory are allowed. ≥ 0.
	DefaultRequests corev1.ResourceList
	// Statistic is compared with the thresholds. Only Prometheus has P95 and Max.
	// StdDevFactor, ≥ 0, multiplies the standard deviation in MeanPlusStdDev.
	// PredictedPeak says how peaks are predicted where Statistic is PredictedPeak.
	Statistic     Statistic
	StdDevFactor  float64
	PredictedPeak PeakSpec
	// IgnoreDaemonSets exempts the pods of DaemonSets, which cannot go elsewhere.
	IgnoreDaemonSets bool
	// Exempt selects further pods that the thresholds do not apply to.
	Exempt Exemption
	// WhenNoneFits says what happens to a pod for which the thresholds leave no node.
	WhenNoneFits WhenNoneFits
}

// MetricBounds are the values of a metric that get the highest and the lowest score.
type MetricBounds struct {
	Best  float64
	Worst float64
}

// PendingPods counts pods that a metric does not show yet.
type PendingPods struct {
	// PerPod is by how much each of them makes the metric's value worse, in the metric's unit; > 0.
	PerPod float64
	// Window is the span that the query takes its values over.
	Window metav1.Duration
}

// NodeMetric is one metric that evaluates nodes.
type NodeMetric struct {
	// Name stands for the metric in reasons, Events and logs; unique within the plugin's arguments.
	Name string
	// Query is PromQL that yields one series per node.
	Query  string
	Prefer Preference
	// Weight is the metric's share of the score, ≥ 0; 0 leaves it out of the score.
	Weight int64
	// Bounds fix the scale of the score; without them it spans the values of the candidate nodes.
	Bounds *MetricBounds
	// Pending makes the score count recently placed pods; nil counts none.
	Pending *PendingPods
	// Reject is a rule such as "> 5" by which a node is rejected; empty rejects none.
	Reject string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeMetricsArgs holds the arguments of the NodeMetrics plugin.
type NodeMetricsArgs struct {
	metav1.TypeMeta
	LoadSpec
	// Metrics are the metrics that evaluate nodes; at least one.
	Metrics []NodeMetric
	// WhenNoneFits says what happens to a pod for which the reject rules leave no node.
	WhenNoneFits WhenNoneFits
}

// StatisticsSpec says which statistics of workloads are kept.
type StatisticsSpec struct {
	// History is the time over which a workload's usage counts. In [10m, 30d].
	History metav1.Duration
	// WorkloadLabel is the key of the label that names a pod's workload. Without label or key, the controlling owner is the
	// workload.
	WorkloadLabel string
}

// UnknownUsage says what is expected of a pod whose workload has too little history.
type UnknownUsage struct {
	// RequestMultiplier times its request is the peak expected of a container without a limit. Finite and > 0.
	RequestMultiplier float64
	// Default is the peak expected of a container that has neither limit nor request. Only cpu and memory are allowed. ≥ 0.
	Default corev1.ResourceList
}

// PeakSpec says how the peaks of nodes are predicted.
type PeakSpec struct {
	StatisticsSpec
	// MinHistory is the observation time, summed over a workload's pods, before its statistics are used. In [0, History].
	MinHistory metav1.Duration
	// Deviations is the z-factor for all pods of a node except the pod with the largest peak. Finite and ≥ 0.
	Deviations float64
	// Unknown is for pods whose workload has less than MinHistory.
	Unknown UnknownUsage
	// MaxLimitRequestRatio bounds the pending peak of a pod without history: a limit counts up to this multiple of its request.
	// Finite and ≥ 1.
	MaxLimitRequestRatio float64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PredictedPeakArgs holds the arguments of the PredictedPeak plugin.
type PredictedPeakArgs struct {
	metav1.TypeMeta
	LoadSpec
	PeakSpec
	// MissingLoad says how a node with unknown load is evaluated.
	MissingLoad MissingLoad
	// Strategy says which peaks are preferred.
	Strategy Strategy
	// Target is the predicted peak, in percent of capacity, up to which nodes are packed where Strategy is Pack. In [1, 99].
	Target int64
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DecisionRecordArgs holds the arguments of the DecisionRecord plugin.
type DecisionRecordArgs struct {
	metav1.TypeMeta

	// EventsPerSecond is the mean number of decisions recorded per second.
	EventsPerSecond int64
	// Burst is the number of decisions recorded at once.
	Burst int64
}
