package v1

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	defaultSignalFxAddress = "https://api.signalfx.com"
	defaultDatadogAddress  = "https://api.datadoghq.com"

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

	defaultSmoothingWindowSize = 5
	defaultRiskLimitWeight     = 0.5

	defaultCPUThreshold    = 80
	defaultMemoryThreshold = 90
	defaultStdDevFactor    = 1.0

	defaultMetricWeight = 1

	defaultHistory                  = 24 * time.Hour
	defaultMinHistory               = 30 * time.Minute
	defaultDeviations               = 1.0
	defaultUnknownRequestMultiplier = 1.5
	// defaultUnknownCPU is in cores. In replays, 2 cores gave fewer hot minutes than 1 core; 3 cores gave no improvement over 2.
	defaultUnknownCPU = 2
	// defaultUnknownMemoryBytes is what kube-scheduler's scoring assumes for a container without a memory request.
	defaultUnknownMemoryBytes = 200 << 20
	defaultPeakTarget         = 70
)

// SetDefaults_MetricProviderSpec sets unset fields, except the timeout: its default depends on MaxAge.
func SetDefaults_MetricProviderSpec(obj *MetricProviderSpec) {
	obj.Type = cmp.Or(obj.Type, config.KubernetesMetricsServer)
	switch obj.Type {
	case config.SignalFx:
		obj.Address = cmp.Or(obj.Address, defaultSignalFxAddress)
	case config.Datadog:
		obj.Address = cmp.Or(obj.Address, defaultDatadogAddress)
	}
	obj.InsecureSkipVerify = cmp.Or(obj.InsecureSkipVerify, ptr.To(false))
	obj.Dialect = cmp.Or(obj.Dialect, config.DialectAuto)
	// An empty list is kept: validation refuses it.
	if obj.NodeLabels == nil {
		obj.NodeLabels = config.DefaultNodeLabels()
	}
}

// SetDefaults_LoadSpec sets unset fields.
func SetDefaults_LoadSpec(obj *LoadSpec) {
	obj.Window = cmp.Or(obj.Window, &metav1.Duration{Duration: defaultWindow})
	obj.RefreshInterval = cmp.Or(obj.RefreshInterval, &metav1.Duration{Duration: defaultRefreshInterval})
	obj.MaxAge = cmp.Or(obj.MaxAge, &metav1.Duration{Duration: defaultMaxAge})
	obj.DriftTolerance = cmp.Or(obj.DriftTolerance, ptr.To(defaultDriftTolerance))
	if obj.MetricProvider.Timeout == nil {
		timeout := defaultTimeout
		// With at most half of maxAge, one refresh can hang and another can still succeed before the load expires. Validation
		// refuses a maxAge of zero or less.
		if half := obj.MaxAge.Duration / 2; half > 0 {
			timeout = min(timeout, half)
		}
		obj.MetricProvider.Timeout = &metav1.Duration{Duration: timeout}
	}
}

// SetDefaults_TargetLoadPackingArgs sets unset fields.
func SetDefaults_TargetLoadPackingArgs(obj *TargetLoadPackingArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadRequests)
	obj.TargetUtilization = cmp.Or(obj.TargetUtilization, ptr.To[int64](defaultTargetUtilization))
	// An explicit empty list is kept: containers with neither limit nor request are then expected to use nothing.
	if obj.DefaultRequests == nil {
		obj.DefaultRequests = ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(defaultRequestMilliCPU, resource.DecimalSI),
		}
	}
	obj.DefaultRequestsMultiplier = cmp.Or(obj.DefaultRequestsMultiplier, ptr.To(defaultDefaultRequestsMultiplier))
	obj.MaxLimitRequestRatio = cmp.Or(obj.MaxLimitRequestRatio, ptr.To(defaultMaxLimitRequestRatio))
}

// SetDefaults_LoadVariationRiskBalancingArgs sets unset fields.
func SetDefaults_LoadVariationRiskBalancingArgs(obj *LoadVariationRiskBalancingArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadRequests)
	obj.SafeVarianceMargin = cmp.Or(obj.SafeVarianceMargin, ptr.To(defaultSafeVarianceMargin))
	obj.SafeVarianceSensitivity = cmp.Or(obj.SafeVarianceSensitivity, ptr.To(defaultSafeVarianceSensitivity))
}

// SetDefaults_LowRiskOverCommitmentArgs sets unset fields.
func SetDefaults_LowRiskOverCommitmentArgs(obj *LowRiskOverCommitmentArgs) {
	// Not Requests: a node with unknown load would then have no measured risk, and would usually get the best score.
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadNeutral)
	obj.SmoothingWindowSize = cmp.Or(obj.SmoothingWindowSize, ptr.To[int64](defaultSmoothingWindowSize))
	obj.UnlimitedPods = cmp.Or(obj.UnlimitedPods, config.UnlimitedPodsAsRequest)
	if obj.RiskLimitWeights == nil {
		obj.RiskLimitWeights = map[corev1.ResourceName]float64{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := obj.RiskLimitWeights[name]; !ok {
			obj.RiskLimitWeights[name] = defaultRiskLimitWeight
		}
	}
}

// SetDefaults_PeaksArgs sets unset fields.
func SetDefaults_PeaksArgs(obj *PeaksArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadNeutral)
}

// SetDefaults_LoadThresholdArgs sets unset fields.
func SetDefaults_LoadThresholdArgs(obj *LoadThresholdArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadRequests)
	if obj.Thresholds.CPU == nil && obj.Thresholds.Memory == nil {
		obj.Thresholds = Thresholds{CPU: ptr.To[int64](defaultCPUThreshold), Memory: ptr.To[int64](defaultMemoryThreshold)}
	}
	window := cmp.Or(obj.Window, &metav1.Duration{Duration: defaultWindow}) // the embedded LoadSpec gets its defaults after this
	obj.Windows.CPU = cmp.Or(obj.Windows.CPU, ptr.To(*window))
	obj.Windows.Memory = cmp.Or(obj.Windows.Memory, ptr.To(*window))
	obj.Statistic = cmp.Or(obj.Statistic, config.StatisticMean)
	obj.StdDevFactor = cmp.Or(obj.StdDevFactor, ptr.To(defaultStdDevFactor))
	obj.IgnoreDaemonSets = cmp.Or(obj.IgnoreDaemonSets, ptr.To(true))
	obj.WhenNoneFits = cmp.Or(obj.WhenNoneFits, config.WhenNoneFitsRelax)
}

// SetDefaults_NodeMetricsArgs sets unset fields.
func SetDefaults_NodeMetricsArgs(obj *NodeMetricsArgs) {
	window := cmp.Or(obj.Window, &metav1.Duration{Duration: defaultWindow}) // the embedded LoadSpec gets its defaults after this
	for i := range obj.Metrics {
		m := &obj.Metrics[i]
		m.Weight = cmp.Or(m.Weight, ptr.To[int64](defaultMetricWeight))
		if m.Pending != nil {
			m.Pending.Window = cmp.Or(m.Pending.Window, ptr.To(*window))
		}
	}
	obj.WhenNoneFits = cmp.Or(obj.WhenNoneFits, config.WhenNoneFitsRelax)
}

// SetDefaults_StatisticsSpec sets unset fields.
func SetDefaults_StatisticsSpec(obj *StatisticsSpec) {
	if obj.History == nil {
		obj.History = &metav1.Duration{Duration: defaultHistory}
	}
}

// SetDefaults_UnknownUsage sets unset fields.
func SetDefaults_UnknownUsage(obj *UnknownUsage) {
	if obj.RequestMultiplier == nil {
		obj.RequestMultiplier = ptr.To(defaultUnknownRequestMultiplier)
	}
	// An explicit empty list is kept: containers with neither limit nor request are then expected to use nothing.
	if obj.Default == nil {
		obj.Default = ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(defaultUnknownCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(defaultUnknownMemoryBytes, resource.BinarySI),
		}
	}
}

// SetDefaults_PeakSpec sets unset fields.
func SetDefaults_PeakSpec(obj *PeakSpec) {
	if obj.MinHistory == nil {
		obj.MinHistory = &metav1.Duration{Duration: defaultMinHistory}
	}
	if obj.Deviations == nil {
		obj.Deviations = ptr.To(defaultDeviations)
	}
	if obj.MaxLimitRequestRatio == nil {
		obj.MaxLimitRequestRatio = ptr.To(defaultMaxLimitRequestRatio)
	}
}

// SetDefaults_PredictedPeakArgs sets unset fields.
func SetDefaults_PredictedPeakArgs(obj *PredictedPeakArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadRequests)
	obj.Strategy = cmp.Or(obj.Strategy, config.StrategySpread)
	obj.Target = cmp.Or(obj.Target, ptr.To[int64](defaultPeakTarget))
}

// SetDefaults_DecisionRecordArgs sets unset fields.
func SetDefaults_DecisionRecordArgs(obj *DecisionRecordArgs) {
	obj.EventsPerSecond = cmp.Or(obj.EventsPerSecond, ptr.To[int64](1))
	obj.Burst = cmp.Or(obj.Burst, ptr.To[int64](10))
}
