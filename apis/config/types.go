package config

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// MetricProviderType names a kind of metrics source.
type MetricProviderType string

// The kinds of metrics sources.
const (
	KubernetesMetricsServer MetricProviderType = "KubernetesMetricsServer"
	Prometheus              MetricProviderType = "Prometheus"
	SignalFx                MetricProviderType = "SignalFx"
	Datadog                 MetricProviderType = "Datadog"
)

// Dialect names the family of series that hold a node's load.
type Dialect string

// Auto takes the first of Prometheus' dialects with at least half as many nodes as the best. The next ones measure the nodes that
// it lacks. It searches again when that returns no data. The last two are those of Datadog.
const (
	DialectAuto         Dialect = "Auto"
	DialectNodeExporter Dialect = "NodeExporter"
	DialectUtilization  Dialect = "Utilization"
	DialectDatadogAgent Dialect = "DatadogAgent"
)

// PrometheusDialects returns the dialects of Prometheus that Auto tries, the preferred one first.
func PrometheusDialects() []Dialect {
	return []Dialect{
		DialectNodeExporter, "KubePrometheus", "OpenShift", "WindowsExporter", "OpenTelemetry", "Kubelet", "cAdvisor", "KubeletStats",
	}
}

// MissingLoad says how a plugin evaluates a node with unknown load.
type MissingLoad string

// Requests evaluates the node by its pods' requests. Neutral gives it the mean score of the nodes whose load is known, and Lowest
// the lowest score. Pass and Reject are for filters.
const (
	MissingLoadRequests MissingLoad = "Requests"
	MissingLoadNeutral  MissingLoad = "Neutral"
	MissingLoadLowest   MissingLoad = "Lowest"
	MissingLoadPass     MissingLoad = "Pass"
	MissingLoadReject   MissingLoad = "Reject"
)

// Statistic is the statistic of the measured load that is compared with a threshold.
type Statistic string

// The statistics over the window. The predicted peak follows from those of the pods' workloads.
const (
	StatisticMean           Statistic = "Mean"
	StatisticMeanPlusStdDev Statistic = "MeanPlusStdDev"
	StatisticP95            Statistic = "P95"
	StatisticMax            Statistic = "Max"
	StatisticPredictedPeak  Statistic = "PredictedPeak"
)

// UnlimitedPods selects the limit that LowRiskOverCommitment assumes for a pod that has a container without one.
type UnlimitedPods string

// Unlimited takes 10 times the request of the pod, and at most the allocatable of the node. AsRequest takes the sum of the
// containers' limits, and at least the pod's request.
const (
	UnlimitedPodsUnlimited UnlimitedPods = "Unlimited"
	UnlimitedPodsAsRequest UnlimitedPods = "AsRequest"
)

// Strategy says which predicted peaks PredictedPeak prefers.
type Strategy string

// Spread prefers the node of the lowest peak, and Pack nodes up to a target.
const (
	StrategySpread Strategy = "Spread"
	StrategyPack   Strategy = "Pack"
)

// WhenNoneFits says what happens to a pod when a soft limit rejects every node that the pod would otherwise fit.
type WhenNoneFits string

// Relax waives the limit for the pod, at once and before any pod is preempted. Reject keeps the pod pending.
const (
	WhenNoneFitsRelax  WhenNoneFits = "Relax"
	WhenNoneFitsReject WhenNoneFits = "Reject"
)

// Preference says which values of a metric are better.
type Preference string

// The preferences.
const (
	PreferLower  Preference = "Lower"
	PreferHigher Preference = "Higher"
)

// LoadQueries are custom queries in the provider's language. They replace those of the dialect, a known set of series. A query
// yields one series per node.
//
//   - Prometheus: the value is the mean utilization over `$window`, as a fraction of capacity in [0, 1].
//   - SignalFx, Datadog: the values are utilizations in percent.
//   - Datadog: `$filter` is the filter by hostNameSuffix and clusterName, `$interval` the distance of points in seconds.
//
// At least one of cpu and memory is required. A resource without a query uses the dialect's.
type LoadQueries struct {
	// CPU is the query for a node's CPU utilization.
	CPU string `json:"cpu,omitempty"`
	// Memory is the query for a node's memory utilization.
	Memory string `json:"memory,omitempty"`
}

// DefaultNodeLabels returns the labels of a series that may name its node where the arguments name none.
func DefaultNodeLabels() []string {
	return []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname", "k8s_node_name"}
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
	HTTPConfigFile     string
	InsecureSkipVerify bool
	ClusterName        string
	HostNameSuffix     string
	Dialect            Dialect
	Queries            *LoadQueries
	NodeLabels         []string
	Selector           string
	// PodsFromMetricsServer is set with Prometheus alone.
	PodsFromMetricsServer bool
	Timeout               metav1.Duration
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

// PowerModel is the power of a node at a CPU utilization of x percent: k0 + k1·e^(k2·x). All models share a unit.
// k0, k1 and k1·e^(k2·100) are in [-1e15, 1e15].
type PowerModel struct {
	K0 float64 `json:"k0"`
	K1 float64 `json:"k1"`
	K2 float64 `json:"k2"`
}

// NodePowerModel is the power model of the nodes that a selector selects.
type NodePowerModel struct {
	// NodeSelector selects the nodes that have all of these labels. Without it all nodes are selected.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	PowerModel   `json:",inline"`
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
	// CPU is the CPU utilization that no node may exceed.
	CPU *int64 `json:"cpu,omitempty"`
	// Memory is the memory utilization that no node may exceed.
	Memory *int64 `json:"memory,omitempty"`
}

// NodeThresholds are the thresholds of a pool of nodes. The rebalancer has them too.
type NodeThresholds struct {
	// NodeSelector selects the nodes that have all of these labels.
	NodeSelector map[string]string `json:"nodeSelector"`
	Thresholds   `json:",inline"`
}

// ThresholdWindows are the windows over which the resources are measured.
type ThresholdWindows struct{ CPU, Memory metav1.Duration }

// Exemption selects the pods that thresholds do not apply to.
type Exemption struct {
	// PriorityClassNames exempts the pods of these priority classes.
	PriorityClassNames []string `json:"priorityClassNames,omitempty"`
	// PodSelector exempts the pods whose labels it matches. Without it none is exempt by label. Whoever writes a pod sets its
	// labels: prefer PriorityClassNames where that may be anybody.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector exempts the pods of the namespaces whose labels it matches. Without it none is exempt by namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadThresholdArgs holds the arguments of the LoadThreshold plugin.
type LoadThresholdArgs struct {
	metav1.TypeMeta
	LoadSpec
	MissingLoad      MissingLoad
	Thresholds       Thresholds
	NodeThresholds   []NodeThresholds
	Windows          ThresholdWindows
	DefaultRequests  corev1.ResourceList
	Statistic        Statistic
	StdDevFactor     float64
	PredictedPeak    PeakSpec
	IgnoreDaemonSets bool
	Exempt           Exemption
	WhenNoneFits     WhenNoneFits
}

// MetricBounds are the values of a metric that get the highest and the lowest score. They differ.
type MetricBounds struct {
	// Best is the value at which, and beyond which, the score is the highest.
	Best float64 `json:"best"`
	// Worst is the value at which, and beyond which, the score is the lowest.
	Worst float64 `json:"worst"`
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

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IncrementalPodTopologySpreadArgs holds the arguments of the IncrementalPodTopologySpread plugin. They are those of the stock
// PodTopologySpread.
type IncrementalPodTopologySpreadArgs struct {
	metav1.TypeMeta

	DefaultConstraints []corev1.TopologySpreadConstraint
	DefaultingType     schedulerconfig.PodTopologySpreadConstraintsDefaulting
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IncrementalInterPodAffinityArgs holds the arguments of the IncrementalInterPodAffinity plugin. They are those of the stock
// InterPodAffinity.
type IncrementalInterPodAffinityArgs struct {
	metav1.TypeMeta

	HardPodAffinityWeight              int32
	IgnorePreferredTermsOfExistingPods bool
}

// RedactedSecret is shown in place of a Secret.
const RedactedSecret = "<redacted>"

// Secret is a string that is never shown in a log, in an error or in a written configuration. It is decoded like a string. A
// written configuration holds RedactedSecret in its place.
type Secret string

// String hides the value. An empty secret is shown as empty, so that a log reports whether one was given.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return RedactedSecret
}

// Format hides the value from every verb: fmt would print the string for verbs of other types.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = fmt.Fprintf(f, "%q", s.String())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText hides the value from encoders of text, JSON and YAML. At verbosity 2, the kube-scheduler
// logs its whole configuration. It also serves it at /configz.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
