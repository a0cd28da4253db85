package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// MetricProviderType names a kind of metrics source.
type MetricProviderType string

const (
	// KubernetesMetricsServer reads metrics.k8s.io of the cluster that is scheduled.
	KubernetesMetricsServer MetricProviderType = "KubernetesMetricsServer"
	// Prometheus reads any server that speaks the Prometheus HTTP API.
	Prometheus MetricProviderType = "Prometheus"
	// SignalFx is read through a load-watcher service: watcherAddress has to be set.
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

	// MissingLoadPass lets a filter pass the node.
	MissingLoadPass MissingLoad = "Pass"
	// MissingLoadReject lets a filter rule the node out.
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

// PrometheusQueries replaces a dialect by the operator's own PromQL. An expression yields one series per node, whose
// value is the mean utilization over the window as a fraction of capacity, in [0, 1]; `$window` in it stands for the
// window. At least one of the two is given; a resource without an expression is left to the dialect.
type PrometheusQueries struct {
	// CPU is the expression for a node's CPU utilization.
	CPU string `json:"cpu,omitempty"`
	// Memory is the expression for a node's memory utilization.
	Memory string `json:"memory,omitempty"`
}

// MetricProviderSpec says where load is read from, and how.
type MetricProviderSpec struct {
	// Type is KubernetesMetricsServer (default), Prometheus or SignalFx.
	Type MetricProviderType `json:"type,omitempty"`
	// Address is the server's http(s) URL with its path prefix, if it has one, but without user, query and fragment.
	// Prometheus needs it, the other types do not use it.
	Address string `json:"address,omitempty"`
	// Token is a bearer token: printable ASCII without blanks, and without the word Bearer. It stands in the
	// configuration in plain text: prefer tokenFile. At most one of the two is given.
	Token config.Secret `json:"token,omitempty"`
	// TokenFile is the path of a file that holds a bearer token. It is read anew as the token rotates.
	TokenFile string `json:"tokenFile,omitempty"`
	// CAFile is the path of a bundle of at least one PEM certificate that the server's certificate is verified with.
	// Without it the system's roots are used.
	CAFile string `json:"caFile,omitempty"`
	// InsecureSkipVerify takes the server's certificate unverified. Defaults to false.
	InsecureSkipVerify *bool `json:"insecureSkipVerify,omitempty"`
	// Dialect is the family of series that Prometheus is asked for: Auto (default), NodeExporter, KubePrometheus,
	// Kubelet or cAdvisor.
	Dialect Dialect `json:"dialect,omitempty"`
	// Queries are asked in place of the dialect's. Only Prometheus takes them.
	Queries *PrometheusQueries `json:"queries,omitempty"`
	// NodeLabels are the labels of Prometheus series that may name a node, most telling first; at least one, each a
	// letter or underscore followed by letters, digits and underscores. Defaults to node, instance, nodename,
	// kubernetes_node, exported_instance, hostname.
	NodeLabels []string `json:"nodeLabels,omitempty"`
	// Timeout bounds one refresh. More than 0, and at most maxAge. Defaults to 10s, or to half of maxAge where that is
	// less, so that after a reading that hangs there is time for another before the load expires.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// LoadSpec is what every plugin that reads load has in its arguments.
type LoadSpec struct {
	// WatcherAddress is the http(s) URL of a load-watcher service. When given, load is read from there, and of
	// metricProvider only what a connection needs is used: token, tokenFile, caFile, insecureSkipVerify and timeout.
	WatcherAddress string `json:"watcherAddress,omitempty"`
	// MetricProvider is the source that load is read from when watcherAddress is not given.
	MetricProvider MetricProviderSpec `json:"metricProvider"`
	// Window is the span that means and deviations are taken over. From 10s to 1h. Defaults to 5m.
	Window *metav1.Duration `json:"window,omitempty"`
	// RefreshInterval is the time between two readings of the source. At least 1s, at most maxAge. Defaults to 30s.
	RefreshInterval *metav1.Duration `json:"refreshInterval,omitempty"`
	// MaxAge is the age beyond which a node's load is no longer trusted, however steady it was. At least
	// refreshInterval. Defaults to 5m.
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// DriftTolerance is by how many percentage points a node's load may have moved, at its usual pace, before it is no
	// longer trusted. More than 0. Defaults to 10.
	DriftTolerance *float64 `json:"driftTolerance,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TargetLoadPackingArgs holds the arguments of the TargetLoadPacking plugin.
type TargetLoadPackingArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad says how a node without known load is judged: Requests (default), Neutral or Lowest.
	MissingLoad MissingLoad `json:"missingLoad,omitempty"`
	// TargetUtilization is the CPU utilization, in percent of capacity, that nodes are packed up to. From 1 to 99.
	// Defaults to 40.
	TargetUtilization *int64 `json:"targetUtilization,omitempty"`
	// DefaultRequests is the usage expected of a container that states neither limit nor request. Only cpu is read; a
	// list without it expects nothing. Not negative. Defaults to one core.
	DefaultRequests corev1.ResourceList `json:"defaultRequests,omitempty"`
	// DefaultRequestsMultiplier is by how much a container without a limit is expected to exceed its request. A finite
	// decimal number that is not negative, in quotes; an empty string is refused. Defaults to "1.5".
	DefaultRequestsMultiplier *string `json:"defaultRequestsMultiplier,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadVariationRiskBalancingArgs holds the arguments of the LoadVariationRiskBalancing plugin.
type LoadVariationRiskBalancingArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad says how a node without known load is judged: Requests (default), Neutral or Lowest.
	MissingLoad MissingLoad `json:"missingLoad,omitempty"`
	// SafeVarianceMargin multiplies the standard deviation. Not negative. Defaults to 1.
	SafeVarianceMargin *float64 `json:"safeVarianceMargin,omitempty"`
	// SafeVarianceSensitivity is the root that is taken of the standard deviation; 0 switches the deviation off. Not
	// negative. Defaults to 1.
	SafeVarianceSensitivity *float64 `json:"safeVarianceSensitivity,omitempty"`
}

// Thresholds are utilizations in percent, from 1 to 100. A resource without one is not looked at.
type Thresholds struct {
	// CPU is the CPU utilization that no node is to pass.
	CPU *int64 `json:"cpu,omitempty"`
	// Memory is the memory utilization that no node is to pass.
	Memory *int64 `json:"memory,omitempty"`
}

// ThresholdWindows are the windows that the resources are measured over. Each defaults to window.
type ThresholdWindows struct {
	// CPU is the window of the CPU threshold. From 10s to 1h.
	CPU *metav1.Duration `json:"cpu,omitempty"`
	// Memory is the window of the memory threshold. From 10s to 1h.
	Memory *metav1.Duration `json:"memory,omitempty"`
}

// Exemption names the pods that thresholds do not hold for.
type Exemption struct {
	// PriorityClassNames exempts the pods of these priority classes.
	PriorityClassNames []string `json:"priorityClassNames,omitempty"`
	// PodSelector exempts the pods whose labels it matches. Without it none is exempt by label.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadThresholdArgs holds the arguments of the LoadThreshold plugin.
type LoadThresholdArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad says how a node without known load is judged: Requests (default), Pass or Reject.
	MissingLoad MissingLoad `json:"missingLoad,omitempty"`
	// Thresholds are the utilizations, in percent, that no node is to pass with the pod on it. Defaults to cpu 80 and
	// memory 90; where one of them is given the other is not looked at.
	Thresholds Thresholds `json:"thresholds"`
	// Windows are what the resources are measured over. Defaults to window for each.
	Windows ThresholdWindows `json:"windows"`
	// Statistic is what is held against the thresholds: Mean (default) or MeanPlusStdDev.
	Statistic Statistic `json:"statistic,omitempty"`
	// StdDevFactor multiplies the standard deviation of MeanPlusStdDev. Not negative. Defaults to 1.
	StdDevFactor *float64 `json:"stdDevFactor,omitempty"`
	// IgnoreDaemonSets exempts the pods of DaemonSets, which cannot go elsewhere. Defaults to true.
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`
	// Exempt names further pods that the thresholds do not hold for.
	Exempt Exemption `json:"exempt"`
	// WhenNoneFits says what becomes of a pod that no node is left for: Relax (default) or Reject.
	WhenNoneFits WhenNoneFits `json:"whenNoneFits,omitempty"`
}

// MetricBounds are the values of a metric that score highest and lowest. They differ.
type MetricBounds struct {
	// Best is the value that scores highest, as every better one does.
	Best float64 `json:"best"`
	// Worst is the value that scores lowest, as every worse one does.
	Worst float64 `json:"worst"`
}

// NodeMetric is one metric that nodes are judged by.
type NodeMetric struct {
	// Name is what the metric is called in reasons and logs. Unique.
	Name string `json:"name"`
	// Query is PromQL that yields one series per node.
	Query string `json:"query"`
	// Prefer is Lower or Higher.
	Prefer Preference `json:"prefer"`
	// Weight is the metric's share of the score. Not negative; 0 leaves the metric out of the score. Defaults to 1.
	Weight *int64 `json:"weight,omitempty"`
	// Bounds fix the scale of the score. Without them it spans the candidates of the decision.
	Bounds *MetricBounds `json:"bounds,omitempty"`
	// Reject rules a node out: one of >, >=, <, <= and a number, such as "> 5".
	Reject string `json:"reject,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeMetricsArgs holds the arguments of the NodeMetrics plugin.
type NodeMetricsArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// Metrics are what nodes are judged by. At least one.
	Metrics []NodeMetric `json:"metrics"`
	// WhenNoneFits says what becomes of a pod that the reject rules leave no node for: Relax (default) or Reject.
	WhenNoneFits WhenNoneFits `json:"whenNoneFits,omitempty"`
}
