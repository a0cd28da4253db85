package v1

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	defaultWindow               = 5 * time.Minute
	defaultMaxLimitRequestRatio = 10.0
)

// SetDefaults_MetricProviderSpec sets unset fields, except the timeout: its default depends on MaxAge.
func SetDefaults_MetricProviderSpec(obj *MetricProviderSpec) {
	obj.Type = cmp.Or(obj.Type, config.KubernetesMetricsServer)
	switch obj.Type {
	case config.SignalFx:
		obj.Address = cmp.Or(obj.Address, "https://api.signalfx.com")
	case config.Datadog:
		obj.Address = cmp.Or(obj.Address, "https://api.datadoghq.com")
	}
	obj.InsecureSkipVerify = cmp.Or(obj.InsecureSkipVerify, ptr.To(false))
	obj.PodsFromMetricsServer = cmp.Or(obj.PodsFromMetricsServer, ptr.To(false))
	obj.Dialect = cmp.Or(obj.Dialect, config.DialectAuto)
	// An empty list is kept: validation refuses it.
	if obj.NodeLabels == nil {
		obj.NodeLabels = config.DefaultNodeLabels()
	}
}

// SetDefaults_LoadSpec sets unset fields.
func SetDefaults_LoadSpec(obj *LoadSpec) {
	obj.Window = cmp.Or(obj.Window, &metav1.Duration{Duration: defaultWindow})
	obj.RefreshInterval = cmp.Or(obj.RefreshInterval, &metav1.Duration{Duration: 30 * time.Second})
	obj.MaxAge = cmp.Or(obj.MaxAge, &metav1.Duration{Duration: 5 * time.Minute})
	obj.DriftTolerance = cmp.Or(obj.DriftTolerance, ptr.To(10.0))
	if obj.MetricProvider.Timeout == nil {
		timeout := 10 * time.Second
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
	obj.TargetUtilization = cmp.Or(obj.TargetUtilization, ptr.To[int64](40))
	// An explicit empty list is kept: containers with neither limit nor request are then expected to use nothing.
	if obj.DefaultRequests == nil {
		obj.DefaultRequests = ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(1000, resource.DecimalSI)}
	}
	obj.DefaultRequestsMultiplier = cmp.Or(obj.DefaultRequestsMultiplier, ptr.To("1.5"))
	obj.MaxLimitRequestRatio = cmp.Or(obj.MaxLimitRequestRatio, ptr.To(defaultMaxLimitRequestRatio))
}

// SetDefaults_LoadVariationRiskBalancingArgs sets unset fields.
func SetDefaults_LoadVariationRiskBalancingArgs(obj *LoadVariationRiskBalancingArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadRequests)
	obj.SafeVarianceMargin = cmp.Or(obj.SafeVarianceMargin, ptr.To(1.0))
	obj.SafeVarianceSensitivity = cmp.Or(obj.SafeVarianceSensitivity, ptr.To(1.0))
}

// SetDefaults_LowRiskOverCommitmentArgs sets unset fields.
func SetDefaults_LowRiskOverCommitmentArgs(obj *LowRiskOverCommitmentArgs) {
	// Not Requests: a node with unknown load would then have no measured risk, and would usually get the best score.
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadNeutral)
	obj.SmoothingWindowSize = cmp.Or(obj.SmoothingWindowSize, ptr.To[int64](5))
	obj.UnlimitedPods = cmp.Or(obj.UnlimitedPods, config.UnlimitedPodsAsRequest)
	if obj.RiskLimitWeights == nil {
		obj.RiskLimitWeights = map[corev1.ResourceName]float64{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := obj.RiskLimitWeights[name]; !ok {
			obj.RiskLimitWeights[name] = 0.5
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
		obj.Thresholds = config.Thresholds{CPU: ptr.To[int64](80), Memory: ptr.To[int64](90)}
	}
	window := cmp.Or(obj.Window, &metav1.Duration{Duration: defaultWindow}) // the embedded LoadSpec gets its defaults after this
	obj.Windows.CPU = cmp.Or(obj.Windows.CPU, ptr.To(*window))
	obj.Windows.Memory = cmp.Or(obj.Windows.Memory, ptr.To(*window))
	obj.Statistic = cmp.Or(obj.Statistic, config.StatisticMean)
	obj.StdDevFactor = cmp.Or(obj.StdDevFactor, ptr.To(1.0))
	obj.IgnoreDaemonSets = cmp.Or(obj.IgnoreDaemonSets, ptr.To(true))
	obj.WhenNoneFits = cmp.Or(obj.WhenNoneFits, config.WhenNoneFitsRelax)
}

// SetDefaults_NodeMetricsArgs sets unset fields.
func SetDefaults_NodeMetricsArgs(obj *NodeMetricsArgs) {
	window := cmp.Or(obj.Window, &metav1.Duration{Duration: defaultWindow}) // the embedded LoadSpec gets its defaults after this
	for i := range obj.Metrics {
		m := &obj.Metrics[i]
		m.Weight = cmp.Or(m.Weight, ptr.To[int64](1))
		if m.Pending != nil {
			m.Pending.Window = cmp.Or(m.Pending.Window, ptr.To(*window))
		}
	}
	obj.WhenNoneFits = cmp.Or(obj.WhenNoneFits, config.WhenNoneFitsRelax)
}

// SetDefaults_StatisticsSpec sets unset fields.
func SetDefaults_StatisticsSpec(obj *StatisticsSpec) {
	obj.History = cmp.Or(obj.History, &metav1.Duration{Duration: 24 * time.Hour})
}

// SetDefaults_UnknownUsage sets unset fields.
func SetDefaults_UnknownUsage(obj *UnknownUsage) {
	obj.RequestMultiplier = cmp.Or(obj.RequestMultiplier, ptr.To(1.5))
	// An explicit empty list is kept: containers with neither limit nor request are then expected to use nothing.
	if obj.Default == nil {
		obj.Default = ResourceList{
			// In replays, 2 cores gave fewer hot minutes than 1 core; 3 cores gave no improvement over 2.
			corev1.ResourceCPU: *resource.NewQuantity(2, resource.DecimalSI),
			// What kube-scheduler's scoring assumes for a container without a memory request.
			corev1.ResourceMemory: *resource.NewQuantity(200<<20, resource.BinarySI),
		}
	}
}

// SetDefaults_PeakSpec sets unset fields.
func SetDefaults_PeakSpec(obj *PeakSpec) {
	obj.MinHistory = cmp.Or(obj.MinHistory, &metav1.Duration{Duration: 30 * time.Minute})
	obj.Deviations = cmp.Or(obj.Deviations, ptr.To(1.0))
	obj.MaxLimitRequestRatio = cmp.Or(obj.MaxLimitRequestRatio, ptr.To(defaultMaxLimitRequestRatio))
}

// SetDefaults_PredictedPeakArgs sets unset fields.
func SetDefaults_PredictedPeakArgs(obj *PredictedPeakArgs) {
	obj.MissingLoad = cmp.Or(obj.MissingLoad, config.MissingLoadRequests)
	obj.Strategy = cmp.Or(obj.Strategy, config.StrategySpread)
	obj.Target = cmp.Or(obj.Target, ptr.To[int64](70))
}

// SetDefaults_DecisionRecordArgs sets unset fields.
func SetDefaults_DecisionRecordArgs(obj *DecisionRecordArgs) {
	obj.EventsPerSecond = cmp.Or(obj.EventsPerSecond, ptr.To[int64](1))
	obj.Burst = cmp.Or(obj.Burst, ptr.To[int64](10))
}

// SetDefaults_IncrementalPodTopologySpreadArgs sets unset fields.
func SetDefaults_IncrementalPodTopologySpreadArgs(obj *IncrementalPodTopologySpreadArgs) {
	obj.DefaultingType = cmp.Or(obj.DefaultingType, schedulerconfig.SystemDefaulting)
}

// SetDefaults_IncrementalInterPodAffinityArgs sets unset fields.
func SetDefaults_IncrementalInterPodAffinityArgs(obj *IncrementalInterPodAffinityArgs) {
	obj.HardPodAffinityWeight = cmp.Or(obj.HardPodAffinityWeight, ptr.To[int32](1))
}
