package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// MetricProviderSpec describes a source of load.
type MetricProviderSpec struct {
	// Type is KubernetesMetricsServer (default), Prometheus, SignalFx or Datadog.
	Type config.MetricProviderType `json:"type,omitempty"`
	// Address is the server's http(s) URL with its path prefix, if it has one, but without user, query and fragment.
	// Prometheus needs it. It defaults to https://api.signalfx.com with SignalFx, and to https://api.datadoghq.com with Datadog.
	// KubernetesMetricsServer does not use it.
	Address string `json:"address,omitempty"`
	// Token is a bearer token, SignalFx's access token or Datadog's API key. It is printable ASCII without blanks, and without
	// the word Bearer. The configuration holds it in plain text: prefer tokenFile. Set token or tokenFile, not both.
	// SignalFx and Datadog require one of them.
	Token config.Secret `json:"token,omitempty"`
	// TokenFile is the path of a file with the token. A rotated file is read again.
	TokenFile string `json:"tokenFile,omitempty"`
	// ApplicationKey is an application key of Datadog. The configuration holds it in plain text: prefer applicationKeyFile. Set
	// applicationKey or applicationKeyFile, not both. Datadog requires one of them; other types do not use them.
	ApplicationKey config.Secret `json:"applicationKey,omitempty"`
	// ApplicationKeyFile is the path of a file that holds an application key. It is reread as the key rotates.
	ApplicationKeyFile string `json:"applicationKeyFile,omitempty"`
	// CAFile is the path of a PEM bundle of trusted authorities for the server's certificate. Defaults to the system's roots.
	CAFile string `json:"caFile,omitempty"`
	// HTTPConfigFile is the path of a file with Prometheus' HTTP client configuration. With Prometheus, it replaces token, tokenFile,
	// caFile and insecureSkipVerify. Rotated files that it names are read again.
	HTTPConfigFile string `json:"httpConfigFile,omitempty"`
	// InsecureSkipVerify accepts any certificate of the server. Defaults to false.
	InsecureSkipVerify *bool `json:"insecureSkipVerify,omitempty"`
	// ClusterName selects the hosts of this cluster: by SignalFx's dimension cluster, or by Datadog's tag cluster_name.
	// Letters, digits and . _ - / alone. Defaults to all hosts.
	ClusterName string `json:"clusterName,omitempty"`
	// HostNameSuffix is the suffix that hosts of SignalFx or Datadog add to names of nodes, such as .example.com. Only
	// hosts with the suffix are read. Letters, digits and . _ - / alone. Defaults to none.
	HostNameSuffix string `json:"hostNameSuffix,omitempty"`
	// Dialect is the family of queried series: Auto (default) or a dialect of the type. Other types have none.
	//
	//   - Prometheus: NodeExporter, KubePrometheus, OpenShift, WindowsExporter, OpenTelemetry, Kubelet, cAdvisor or KubeletStats.
	//   - Datadog: Utilization or DatadogAgent.
	Dialect config.Dialect `json:"dialect,omitempty"`
	// Queries are used in place of the dialect's. KubernetesMetricsServer has none.
	Queries *config.LoadQueries `json:"queries,omitempty"`
	// NodeLabels are the labels of a Prometheus series that name its node, in order of precedence. At least one.
	// Each is a letter or underscore, then letters, digits and underscores.
	// Defaults to node, instance, nodename, kubernetes_node, exported_instance, hostname, k8s_node_name.
	NodeLabels []string `json:"nodeLabels,omitempty"`
	// Selector are label matchers of PromQL, such as '{namespace="monitoring", job="node-exporter"}'. With Prometheus, the dialect
	// reads only series that match. Defaults to all series.
	Selector string `json:"selector,omitempty"`
	// PodsFromMetricsServer reads the usage of pods from metrics-server, where Prometheus has none. With Prometheus alone: otherwise
	// it is read there anyway. Defaults to false.
	PodsFromMetricsServer *bool `json:"podsFromMetricsServer,omitempty"`
	// Timeout bounds one refresh. More than 0, and at most maxAge. Defaults to 10s, or to half of maxAge if that is less.
	// With the default, there is time for another refresh after a hanging one before the load expires.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// LoadSpec holds the arguments that all plugins share: the source of load, the window, and how long load is used.
type LoadSpec struct {
	// WatcherAddress is the http(s) URL of a load-watcher service. If set, the service is the source.
	// metricProvider then only sets the connection: token, tokenFile, caFile, insecureSkipVerify and timeout.
	WatcherAddress string `json:"watcherAddress,omitempty"`
	// MetricProvider is the source from which load is read if watcherAddress is unset.
	MetricProvider MetricProviderSpec `json:"metricProvider"`
	// Window is the time over which means and standard deviations are taken. From 10s to 1h. Defaults to 5m.
	Window *metav1.Duration `json:"window,omitempty"`
	// RefreshInterval is the time between two refreshes from the source. At least 1s, at most maxAge. Defaults to 30s.
	RefreshInterval *metav1.Duration `json:"refreshInterval,omitempty"`
	// MaxAge is the age beyond which a node's load is no longer trusted, however steady it was. At least
	// refreshInterval. Defaults to 5m.
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// DriftTolerance bounds the predicted change of a node's load since its measurement, in percentage points. Beyond it the load
	// expires, but not before two refreshes. More than 0. Defaults to 10.
	DriftTolerance *float64 `json:"driftTolerance,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TargetLoadPackingArgs holds the arguments of the TargetLoadPacking plugin.
type TargetLoadPackingArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad selects the score of a node with unknown load. Requests (default): by its pods' requests. Neutral: the mean score of
	// nodes with known load. Lowest: the lowest score.
	MissingLoad config.MissingLoad `json:"missingLoad,omitempty"`
	// TargetUtilization is the CPU utilization, in percent of capacity, up to which nodes are packed. From 1 to 99.
	// Defaults to 40.
	TargetUtilization *int64 `json:"targetUtilization,omitempty"`
	// DefaultRequests is the usage expected of a container that has neither limit nor request. memory is accepted and
	// ignored; with a list without cpu, no usage is expected. Not negative. Defaults to one core.
	DefaultRequests ResourceList `json:"defaultRequests,omitempty"`
	// DefaultRequestsMultiplier multiplies the request of a container without a limit. The product is its expected usage. A finite
	// decimal number that is not negative, in quotes; an empty string is refused. Defaults to "1.5".
	DefaultRequestsMultiplier *string `json:"defaultRequestsMultiplier,omitempty"`
	// MaxLimitRequestRatio bounds the pending usage of pods with a limit. A limit counts up to this multiple of the container's
	// request. At least 1. Defaults to 10.
	MaxLimitRequestRatio *float64 `json:"maxLimitRequestRatio,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadVariationRiskBalancingArgs holds the arguments of the LoadVariationRiskBalancing plugin.
type LoadVariationRiskBalancingArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad selects the score of a node with unknown load. Requests (default): by its pods' requests. Neutral: the mean score of
	// nodes with known load. Lowest: the lowest score.
	MissingLoad config.MissingLoad `json:"missingLoad,omitempty"`
	// DefaultRequests is the request that counts for a pod that requests nothing of a resource. Only cpu and memory are allowed. Not
	// negative. Defaults to none.
	DefaultRequests ResourceList `json:"defaultRequests,omitempty"`
	// SafeVarianceMargin multiplies the standard deviation. Not negative. Defaults to 1.
	SafeVarianceMargin *float64 `json:"safeVarianceMargin,omitempty"`
	// SafeVarianceSensitivity s makes the score use the s-th root of the standard deviation; 0 leaves the deviation out. Not
	// negative. Defaults to 1.
	SafeVarianceSensitivity *float64 `json:"safeVarianceSensitivity,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LowRiskOverCommitmentArgs holds the arguments of the LowRiskOverCommitment plugin.
type LowRiskOverCommitmentArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad selects the score of a node with unknown load. Neutral (default): the mean score of nodes with known load.
	// Requests: by its pods' requests. Lowest: the lowest score.
	MissingLoad config.MissingLoad `json:"missingLoad,omitempty"`
	// SmoothingWindowSize is the number of samples in each measured mean. Its square root multiplies the deviation.
	// At least 1. Defaults to 5.
	SmoothingWindowSize *int64 `json:"smoothingWindowSize,omitempty"`
	// RiskLimitWeights are the weights of the risk by limits, for cpu and memory, from 0 to 1. The risk by load has the rest, up
	// to 1. Each defaults to 0.5.
	RiskLimitWeights map[corev1.ResourceName]float64 `json:"riskLimitWeights,omitempty"`
	// UnlimitedPods selects the limit of a pod that has a container without one. AsRequest (default): a container
	// without a limit adds nothing, and the pod's limit is at least its request. Unlimited: 10 times the request, and at most
	// the node's allocatable.
	UnlimitedPods config.UnlimitedPods `json:"unlimitedPods,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeaksArgs holds the arguments of the Peaks plugin.
type PeaksArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad selects the score of a node with unknown load. Neutral (default): the mean score of nodes with known load.
	// Requests: by its pods' requests. Lowest: the lowest score. A node without a power model gets the mean score of the others, or
	// the lowest if this is Lowest.
	MissingLoad config.MissingLoad `json:"missingLoad,omitempty"`
	// NodePowerModel are power models by name of the node. Without it they are read from the JSON file that the environment variable
	// NODE_POWER_MODEL names, if that is set.
	NodePowerModel map[string]config.PowerModel `json:"nodePowerModel,omitempty"`
	// NodePowerModels are power models by labels, for nodes without a model by name: the first that selects the node counts.
	NodePowerModels []config.NodePowerModel `json:"nodePowerModels,omitempty"`
}

// ThresholdWindows are the windows over which the resources are measured. Each defaults to window.
type ThresholdWindows struct {
	// CPU is the window of the CPU threshold. From 10s to 1h. From Prometheus, SignalFx and Datadog up to 24h,
	// unless statistic is PredictedPeak.
	CPU *metav1.Duration `json:"cpu,omitempty"`
	// Memory is the window of the memory threshold. From 10s to 1h. From Prometheus, SignalFx and Datadog up to 24h,
	// unless statistic is PredictedPeak.
	Memory *metav1.Duration `json:"memory,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LoadThresholdArgs holds the arguments of the LoadThreshold plugin.
type LoadThresholdArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// MissingLoad says what happens to a node with unknown load. Requests (default): its pods' requests are compared with the
	// thresholds. Pass: the node is accepted. Reject: it is rejected.
	MissingLoad config.MissingLoad `json:"missingLoad,omitempty"`
	// Thresholds are the utilizations, in percent, that no node may exceed with the pod on it. Defaults to cpu 80 and memory
	// 90; if only one of them is set, the other resource is not limited.
	Thresholds config.Thresholds `json:"thresholds"`
	// NodeThresholds are the thresholds of pools of nodes: the first that selects the node counts. A resource that it does not name
	// keeps that of thresholds. A node's annotation wins.
	NodeThresholds []config.NodeThresholds `json:"nodeThresholds,omitempty"`
	// Windows are the windows over which the resources are measured. Each defaults to window.
	Windows ThresholdWindows `json:"windows"`
	// DefaultRequests is the request that counts for a pod that requests nothing of a resource. Only cpu and memory are allowed. Not
	// negative. Defaults to none.
	DefaultRequests ResourceList `json:"defaultRequests,omitempty"`
	// Statistic is compared with the thresholds: Mean (default), MeanPlusStdDev, P95, Max or PredictedPeak.
	// P95 and Max are read from a Prometheus alone.
	Statistic config.Statistic `json:"statistic,omitempty"`
	// StdDevFactor multiplies the standard deviation in MeanPlusStdDev. Not negative. Defaults to 1.
	StdDevFactor *float64 `json:"stdDevFactor,omitempty"`
	// PredictedPeak says how peaks are predicted where statistic is PredictedPeak. Otherwise it is not used.
	PredictedPeak PeakSpec `json:"predictedPeak"`
	// IgnoreDaemonSets exempts the pods of DaemonSets, which cannot go elsewhere. Defaults to true.
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`
	// Exempt selects further pods that the thresholds do not apply to.
	Exempt config.Exemption `json:"exempt"`
	// WhenNoneFits says what happens to a pod for which the thresholds leave no node. Relax (default): they are waived for the pod.
	// Reject: the pod stays pending.
	WhenNoneFits config.WhenNoneFits `json:"whenNoneFits,omitempty"`
}

// PendingPods estimates the effect of recently placed pods on a metric.
type PendingPods struct {
	// PerPod is the amount by which one recent pod makes the metric's value worse, in the metric's unit. Greater than 0.
	PerPod float64 `json:"perPod"`
	// Window is the range of the query. The effect of a pod fades to zero while the pod runs for Window. From 10s to 1h.
	// Defaults to the plugin's window.
	Window *metav1.Duration `json:"window,omitempty"`
}

// NodeMetric is one metric that evaluates nodes.
type NodeMetric struct {
	// Name stands for the metric in reasons, Events and logs. Unique, and without "%".
	Name string `json:"name"`
	// Query is PromQL that yields one series per node.
	Query string `json:"query"`
	// Prefer is Lower or Higher.
	Prefer config.Preference `json:"prefer"`
	// Weight is the metric's share of the score. Not negative; 0 leaves the metric out of the score. Defaults to 1.
	Weight *int64 `json:"weight,omitempty"`
	// Bounds fix the scale of the score. Without them it spans the values of the candidate nodes.
	Bounds *config.MetricBounds `json:"bounds,omitempty"`
	// Pending makes the score count recently placed pods. Without it, many pods at once go to one node.
	Pending *PendingPods `json:"pending,omitempty"`
	// Reject is the rule by which a node is rejected: one of >, >=, <, <= and a number, such as "> 5".
	Reject string `json:"reject,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeMetricsArgs holds the arguments of the NodeMetrics plugin.
type NodeMetricsArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`

	// Metrics are the metrics that evaluate nodes. At least one.
	Metrics []NodeMetric `json:"metrics"`
	// WhenNoneFits says what happens to a pod for which the reject rules leave no node. Relax (default): they are waived for the
	// pod. Reject: the pod stays pending.
	WhenNoneFits config.WhenNoneFits `json:"whenNoneFits,omitempty"`
}

// StatisticsSpec says which statistics of workloads are kept.
type StatisticsSpec struct {
	// History is the time over which a workload's usage counts. From 10m to 720h. Defaults to 24h.
	History *metav1.Duration `json:"history,omitempty"`
	// WorkloadLabel is the key of the label whose value names a pod's workload. A pod without the label belongs to the workload of
	// its controlling owner, and so do all pods by default.
	WorkloadLabel string `json:"workloadLabel,omitempty"`
}

// UnknownUsage says what is expected of a pod whose workload has too little history.
type UnknownUsage struct {
	// RequestMultiplier multiplies the request of a container without a limit. The product is its expected peak. More than 0.
	// Defaults to 1.5.
	RequestMultiplier *float64 `json:"requestMultiplier,omitempty"`
	// Default is the peak expected of a container that has neither limit nor request. Only cpu and memory are used; a resource
	// that is not listed counts nothing. Not negative. Defaults to two cores and 200Mi.
	Default ResourceList `json:"default,omitempty"`
}

// PeakSpec says how the peaks of nodes are predicted.
type PeakSpec struct {
	StatisticsSpec `json:",inline"`

	// MinHistory is the observation time, summed over a workload's pods, before its statistics are used.
	// Not negative, at most history. Defaults to 30m.
	MinHistory *metav1.Duration `json:"minHistory,omitempty"`
	// Deviations is the factor of the standard deviation in a node's peak. The peak is the sum of the pods' means, the largest excess
	// of a pod's p95 over its mean, and Deviations times the standard deviation of the other pods. Not negative. Defaults to 1.
	Deviations *float64 `json:"deviations,omitempty"`
	// Unknown is for pods whose workload has less than minHistory.
	Unknown UnknownUsage `json:"unknown"`
	// MaxLimitRequestRatio bounds the pending peak of a pod without history. A limit counts up to this multiple of the
	// container's request. At least 1. Defaults to 10.
	MaxLimitRequestRatio *float64 `json:"maxLimitRequestRatio,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PredictedPeakArgs holds the arguments of the PredictedPeak plugin.
type PredictedPeakArgs struct {
	metav1.TypeMeta `json:",inline"`
	LoadSpec        `json:",inline"`
	PeakSpec        `json:",inline"`

	// MissingLoad selects the score of a node with unknown load. Requests (default): by its pods' requests. Neutral: the mean score of
	// nodes with known load. Lowest: the lowest score.
	MissingLoad config.MissingLoad `json:"missingLoad,omitempty"`
	// Strategy says which peaks are preferred: Spread (default), the lowest; or Pack, those up to target.
	Strategy config.Strategy `json:"strategy,omitempty"`
	// Target is the predicted peak, in percent of capacity, up to which strategy Pack fills nodes. From 1 to 99. Defaults to 70.
	Target *int64 `json:"target,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DecisionRecordArgs holds the arguments of the DecisionRecord plugin.
type DecisionRecordArgs struct {
	metav1.TypeMeta `json:",inline"`

	// EventsPerSecond is the mean number of decisions recorded per second. From 1 (default) to 10. Further ones are counted, not
	// recorded.
	EventsPerSecond *int64 `json:"eventsPerSecond,omitempty"`
	// Burst is the number of decisions recorded at once, before EventsPerSecond applies. From 1 to 100. Defaults to 10.
	Burst *int64 `json:"burst,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IncrementalPodTopologySpreadArgs holds the arguments of the IncrementalPodTopologySpread plugin. They are those of the stock
// PodTopologySpread.
type IncrementalPodTopologySpreadArgs struct {
	metav1.TypeMeta `json:",inline"`

	// DefaultConstraints are the constraints of pods without own ones. They have no labelSelector: a pod is counted with the pods of
	// its Service, ReplicaSet or StatefulSet. They must be empty if DefaultingType is System.
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	// DefaultingType is System (default), for the default constraints of Kubernetes, or List, for DefaultConstraints.
	DefaultingType schedulerconfig.PodTopologySpreadConstraintsDefaulting `json:"defaultingType,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IncrementalInterPodAffinityArgs holds the arguments of the IncrementalInterPodAffinity plugin. They are those of the stock
// InterPodAffinity.
type IncrementalInterPodAffinityArgs struct {
	metav1.TypeMeta `json:",inline"`

	// HardPodAffinityWeight is what a running pod's required affinity to the new pod adds to the scores of the nodes that its topology
	// key joins. From 0 to 100. Defaults to 1.
	HardPodAffinityWeight *int32 `json:"hardPodAffinityWeight,omitempty"`
	// IgnorePreferredTermsOfExistingPods leaves terms of running pods out of the scores of a pod without preferred terms.
	IgnorePreferredTermsOfExistingPods bool `json:"ignorePreferredTermsOfExistingPods,omitempty"`
}
