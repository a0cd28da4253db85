package v1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	defaultWindow          = 5 * time.Minute
	defaultRefreshInterval = 30 * time.Second
	defaultMaxAge          = 5 * time.Minute
	defaultTimeout         = 10 * time.Second
	defaultDriftTolerance  = 10.0

	defaultTargetUtilization         = 40
	defaultRequestMilliCPU           = 1000
	defaultDefaultRequestsMultiplier = "1.5"
	defaultMaxLimitRequestRatio      = 10.0

	defaultSafeVarianceMargin      = 1.0
	defaultSafeVarianceSensitivity = 1.0

	defaultCPUThreshold    = 80
	defaultMemoryThreshold = 90
	defaultStdDevFactor    = 1.0

	defaultMetricWeight = 1
)

// SetDefaults_MetricProviderSpec fills in the fields that are not given, except the timeout: its default depends on MaxAge.
func SetDefaults_MetricProviderSpec(obj *MetricProviderSpec) {
	if obj.Type == "" {
		obj.Type = KubernetesMetricsServer
	}
	if obj.InsecureSkipVerify == nil {
		obj.InsecureSkipVerify = ptr.To(false)
	}
	if obj.Dialect == "" {
		obj.Dialect = DialectAuto
	}
	// An empty list is kept: validation refuses it.
	if obj.NodeLabels == nil {
		obj.NodeLabels = []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname"}
	}
}

// SetDefaults_LoadSpec fills in the fields that are not given.
func SetDefaults_LoadSpec(obj *LoadSpec) {
	if obj.Window == nil {
		obj.Window = &metav1.Duration{Duration: defaultWindow}
	}
	if obj.RefreshInterval == nil {
		obj.RefreshInterval = &metav1.Duration{Duration: defaultRefreshInterval}
	}
	if obj.MaxAge == nil {
		obj.MaxAge = &metav1.Duration{Duration: defaultMaxAge}
	}
	if obj.DriftTolerance == nil {
		obj.DriftTolerance = ptr.To(defaultDriftTolerance)
	}
	if obj.MetricProvider.Timeout == nil {
		timeout := defaultTimeout
		// Half of maxAge leaves time for another refresh, after one that hangs, before the load expires. Validation refuses
		// a maxAge that has no positive half.
		if half := obj.MaxAge.Duration / 2; half > 0 {
			timeout = min(timeout, half)
		}
		obj.MetricProvider.Timeout = &metav1.Duration{Duration: timeout}
	}
}

// SetDefaults_TargetLoadPackingArgs fills in the fields that are not given.
func SetDefaults_TargetLoadPackingArgs(obj *TargetLoadPackingArgs) {
	if obj.MissingLoad == "" {
		obj.MissingLoad = MissingLoadRequests
	}
	if obj.TargetUtilization == nil {
		obj.TargetUtilization = ptr.To[int64](defaultTargetUtilization)
	}
	// An empty list is kept: such containers are then expected to use nothing.
	if obj.DefaultRequests == nil {
		obj.DefaultRequests = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(defaultRequestMilliCPU, resource.DecimalSI),
		}
	}
	if obj.DefaultRequestsMultiplier == nil {
		obj.DefaultRequestsMultiplier = ptr.To(defaultDefaultRequestsMultiplier)
	}
	if obj.MaxLimitRequestRatio == nil {
		obj.MaxLimitRequestRatio = ptr.To(defaultMaxLimitRequestRatio)
	}
}

// SetDefaults_LoadVariationRiskBalancingArgs fills in the fields that are not given.
func SetDefaults_LoadVariationRiskBalancingArgs(obj *LoadVariationRiskBalancingArgs) {
	if obj.MissingLoad == "" {
		obj.MissingLoad = MissingLoadRequests
	}
	if obj.SafeVarianceMargin == nil {
		obj.SafeVarianceMargin = ptr.To(defaultSafeVarianceMargin)
	}
	if obj.SafeVarianceSensitivity == nil {
		obj.SafeVarianceSensitivity = ptr.To(defaultSafeVarianceSensitivity)
	}
}

// SetDefaults_LoadThresholdArgs fills in the fields that are not given.
func SetDefaults_LoadThresholdArgs(obj *LoadThresholdArgs) {
	if obj.MissingLoad == "" {
		obj.MissingLoad = MissingLoadRequests
	}
	if obj.Thresholds.CPU == nil && obj.Thresholds.Memory == nil {
		obj.Thresholds = Thresholds{CPU: ptr.To[int64](defaultCPUThreshold), Memory: ptr.To[int64](defaultMemoryThreshold)}
	}
	window := obj.Window
	if window == nil { // the defaults of the embedded LoadSpec are set after these
		window = &metav1.Duration{Duration: defaultWindow}
	}
	if obj.Windows.CPU == nil {
		obj.Windows.CPU = ptr.To(*window)
	}
	if obj.Windows.Memory == nil {
		obj.Windows.Memory = ptr.To(*window)
	}
	if obj.Statistic == "" {
		obj.Statistic = StatisticMean
	}
	if obj.StdDevFactor == nil {
		obj.StdDevFactor = ptr.To(defaultStdDevFactor)
	}
	if obj.IgnoreDaemonSets == nil {
		obj.IgnoreDaemonSets = ptr.To(true)
	}
	if obj.WhenNoneFits == "" {
		obj.WhenNoneFits = WhenNoneFitsRelax
	}
}

// SetDefaults_NodeMetricsArgs fills in the fields that are not given.
func SetDefaults_NodeMetricsArgs(obj *NodeMetricsArgs) {
	for i := range obj.Metrics {
		if obj.Metrics[i].Weight == nil {
			obj.Metrics[i].Weight = ptr.To[int64](defaultMetricWeight)
		}
	}
	if obj.WhenNoneFits == "" {
		obj.WhenNoneFits = WhenNoneFitsRelax
	}
}
