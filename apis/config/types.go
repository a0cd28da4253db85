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
	// SignalFx is known for the sake of existing configurations; it is read through a load-watcher service.
	SignalFx MetricProviderType = "SignalFx"
)

// Dialect names the family of Prometheus series that hold a node's load.
type Dialect string

const (
	// DialectAuto takes the first dialect that answers, and looks again whenever an answer is empty.
	DialectAuto Dialect = "Auto"
	// DialectNodeExporter reads node_exporter's raw series.
	DialectNodeExporter Dialect = "NodeExporter"
	// DialectKubePrometheus reads the recording rules of the kube-prometheus mixins.
	DialectKubePrometheus Dialect = "KubePrometheus"
	// DialectKubelet reads the kubelet's /metrics/resource.
	DialectKubelet Dialect = "Kubelet"
	// DialectCAdvisor reads the root cgroup of the kubelet's /metrics/cadvisor.
	DialectCAdvisor Dialect = "cAdvisor"
)

// MissingLoad says how a plugin judges a node whose load is not known.
type MissingLoad string

const (
	// MissingLoadRequests judges the node by what its pods request.
	MissingLoadRequests MissingLoad = "Requests"
	// MissingLoadNeutral gives the node the mean score of the decision's known nodes.
	MissingLoadNeutral MissingLoad = "Neutral"
	// MissingLoadLowest gives the node the lowest score.
	MissingLoadLowest MissingLoad = "Lowest"

	// MissingLoadPass lets a filter pass the node; MissingLoadReject lets it rule the node out.
	MissingLoadPass   MissingLoad = "Pass"
	MissingLoadReject MissingLoad = "Reject"
)

// Statistic is what of a measured load is held against a threshold.
type Statistic string

const (
	// StatisticMean is the mean over the window.
	StatisticMean Statistic = "Mean"
	// StatisticMeanPlusStdDev is the mean and a multiple of the standard deviation.
	StatisticMeanPlusStdDev Statistic = "MeanPlusStdDev"
)

// WhenNoneFits says what becomes of a pod for which a soft limit rules out every node that it could have.
type WhenNoneFits string

const (
	// WhenNoneFitsRelax waives the limit for the pod, at once and before anybody is preempted.
	WhenNoneFitsRelax WhenNoneFits = "Relax"
	// WhenNoneFitsReject lets the pod wait for a node to get back below the limit.
	WhenNoneFitsReject WhenNoneFits = "Reject"
)

// Preference says which values of a metric are the better ones.
type Preference string

const (
	// PreferLower prefers low values.
	PreferLower Preference = "Lower"
	// PreferHigher prefers high values.
	PreferHigher Preference = "Higher"
)

// PrometheusQueries replaces a dialect by the operator's own PromQL. Each expression yields one series per node whose
// value is the mean utilization over the window as a fraction of capacity; `$window` in it stands for the window. At
// least one of the two is set; a resource without an expression is left to the dialect.
type PrometheusQueries struct {
	CPU    string
	Memory string
}

// MetricProviderSpec says where load is read from, and how.
type MetricProviderSpec struct {
	Type MetricProviderType
	// Address is the server's http(s) URL, a path prefix included. Only Prometheus has one.
	Address string
	// Token is a bearer token; TokenFile names a file that holds one and is read anew as it rotates. At most one is set.
	Token     Secret
	TokenFile string
	// CAFile names a PEM bundle that the server's certificate is verified with; empty means the system's roots.
	CAFile string
	// InsecureSkipVerify takes the server's certificate unverified.
	InsecureSkipVerify bool
	// Dialect, Queries and NodeLabels are used by Prometheus alone.
	Dialect Dialect
	Queries *PrometheusQueries
	// NodeLabels are the series' labels that may name a node, most telling first. Not empty.
	NodeLabels []string
	// Timeout bounds one refresh. In (0, MaxAge].
	Timeout metav1.Duration
}

// LoadSpec is what every plugin that reads load has in its arguments.
type LoadSpec struct {
	// WatcherAddress is the http(s) URL of a load-watcher service. When set, it is the source: of MetricProvider only
	// what a connection needs is used (Token, TokenFile, CAFile, InsecureSkipVerify, Timeout).
	WatcherAddress string
	MetricProvider MetricProviderSpec
	// Window is the span that means and deviations are taken over. In [10s, 1h].
	Window metav1.Duration
	// RefreshInterval is the time between two readings of the source. In [1s, MaxAge].
	RefreshInterval metav1.Duration
	// MaxAge is the age beyond which a node's load is no longer trusted, however steady it was.
	MaxAge metav1.Duration
	// DriftTolerance is by how many percentage points a node's load may have moved, at its usual pace, before it is no
	// longer trusted. > 0.
	DriftTolerance float64
}

// GetLoadSpec returns s. By it, the LoadSpec of any plugin's arguments can be had without their type.
func (s *LoadSpec) GetLoadSpec() *LoadSpec { return s }

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TargetLoadPackingArgs holds the arguments of the TargetLoadPacking plugin.
type TargetLoadPackingArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node without known load is judged.
	MissingLoad MissingLoad
	// TargetUtilization is the CPU utilization, in percent of capacity, that nodes are packed up to. In [1, 99].
	TargetUtilization int64
	// DefaultRequests is the usage expected of a container that states neither limit nor request. Only cpu is read. ≥ 0.
	DefaultRequests corev1.ResourceList
	// DefaultRequestsMultiplier is by how much a container without a limit is expected to exceed its request. A finite
	// decimal number ≥ 0.
	DefaultRequestsMultiplier string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadVariationRiskBalancingArgs holds the arguments of the LoadVariationRiskBalancing plugin.
type LoadVariationRiskBalancingArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node without known load is judged.
	MissingLoad MissingLoad
	// SafeVarianceMargin multiplies the standard deviation. Finite and ≥ 0.
	SafeVarianceMargin float64
	// SafeVarianceSensitivity is the root that is taken of the standard deviation; 0 switches the deviation off. Finite
	// and ≥ 0.
	SafeVarianceSensitivity float64
}

// Thresholds are utilizations in percent, in [1, 100]; a resource without one is not looked at.
type Thresholds struct {
	CPU    *int64
	Memory *int64
}

// ThresholdWindows are the windows that the resources are measured over.
type ThresholdWindows struct {
	CPU    metav1.Duration
	Memory metav1.Duration
}

// Exemption names the pods that thresholds do not hold for.
type Exemption struct {
	// PriorityClassNames exempts the pods of these priority classes.
	PriorityClassNames []string
	// PodSelector exempts the pods whose labels it matches; nil matches none.
	PodSelector *metav1.LabelSelector
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadThresholdArgs holds the arguments of the LoadThreshold plugin.
type LoadThresholdArgs struct {
	metav1.TypeMeta
	LoadSpec
	// MissingLoad says how a node without known load is judged: Pass, Requests or Reject.
	MissingLoad MissingLoad
	// Thresholds are the utilizations that no node is to pass with the pod on it.
	Thresholds Thresholds
	// Windows are what the resources are measured over.
	Windows ThresholdWindows
	// Statistic is what is held against the thresholds; StdDevFactor, ≥ 0, multiplies the deviation of MeanPlusStdDev.
	Statistic    Statistic
	StdDevFactor float64
	// IgnoreDaemonSets exempts the pods of DaemonSets, which cannot go elsewhere.
	IgnoreDaemonSets bool
	// Exempt names further pods that the thresholds do not hold for.
	Exempt Exemption
	// WhenNoneFits says what becomes of a pod that no node is left for.
	WhenNoneFits WhenNoneFits
}

// MetricBounds are the values of a metric that score highest and lowest.
type MetricBounds struct {
	Best  float64
	Worst float64
}

// NodeMetric is one metric that nodes are judged by.
type NodeMetric struct {
	// Name is what the metric is called in reasons and logs; unique within the plugin's arguments.
	Name string
	// Query is PromQL that yields one series per node.
	Query  string
	Prefer Preference
	// Weight is the metric's share of the score, ≥ 0; 0 leaves it out of the score.
	Weight int64
	// Bounds fix the scale of the score; without them it spans the candidates of the decision.
	Bounds *MetricBounds
	// Reject is a rule such as "> 5" that rules a node out; empty rules none out.
	Reject string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeMetricsArgs holds the arguments of the NodeMetrics plugin.
type NodeMetricsArgs struct {
	metav1.TypeMeta
	LoadSpec
	// Metrics are what nodes are judged by; at least one.
	Metrics []NodeMetric
	// WhenNoneFits says what becomes of a pod that the reject rules leave no node for.
	WhenNoneFits WhenNoneFits
}
