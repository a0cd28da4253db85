package v1

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
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

	defaultSafeVarianceMargin      = 1.0
	defaultSafeVarianceSensitivity = 1.0

	defaultCPUThreshold    = 80
	defaultMemoryThreshold = 90
	defaultStdDevFactor    = 1.0
	// Stock scorers, by requests for the most part, have weights of 14 together.
	defaultLoadThresholdWeight = 100

	defaultMetricWeight = 1
)

// SetDefaults_MetricProviderSpec fills in what the operator left out, the timeout apart: that one depends on MaxAge.
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
	// A list that is given but empty is left alone: it is refused, not replaced.
	if obj.NodeLabels == nil {
		obj.NodeLabels = []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname"}
	}
}

// SetDefaults_LoadSpec fills in what the operator left out.
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
		// Half, so that after a reading that hangs there is time for another before the load expires. A maxAge that
		// leaves no half is refused for itself, and has no say here.
		if half := obj.MaxAge.Duration / 2; half > 0 {
			timeout = min(timeout, half)
		}
		obj.MetricProvider.Timeout = &metav1.Duration{Duration: timeout}
	}
}

// SetDefaults_TargetLoadPackingArgs fills in what the operator left out.
func SetDefaults_TargetLoadPackingArgs(obj *TargetLoadPackingArgs) {
	if obj.MissingLoad == "" {
		obj.MissingLoad = MissingLoadRequests
	}
	if obj.TargetUtilization == nil {
		obj.TargetUtilization = ptr.To[int64](defaultTargetUtilization)
	}
	// A list that is given but empty is left alone: it says that such containers are expected to use nothing.
	if obj.DefaultRequests == nil {
		obj.DefaultRequests = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(defaultRequestMilliCPU, resource.DecimalSI),
		}
	}
	if obj.DefaultRequestsMultiplier == nil {
		obj.DefaultRequestsMultiplier = ptr.To(defaultDefaultRequestsMultiplier)
	}
}

// SetDefaults_LoadVariationRiskBalancingArgs fills in what the operator left out.
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

// SetDefaults_LoadThresholdArgs fills in what the operator left out.
func SetDefaults_LoadThresholdArgs(obj *LoadThresholdArgs) {
	if obj.MissingLoad == "" {
		obj.MissingLoad = MissingLoadRequests
	}
	if obj.Thresholds.CPU == nil && obj.Thresholds.Memory == nil {
		obj.Thresholds = Thresholds{CPU: ptr.To[int64](defaultCPUThreshold), Memory: ptr.To[int64](defaultMemoryThreshold)}
	}
	window := obj.Window
	if window == nil { // the defaults of what is embedded are set after these
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

// SetDefaults_NodeMetricsArgs fills in what the operator left out.
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

// SetDefaults_SoftLimits completes what profiles enable of LoadThreshold and NodeMetrics, whose soft limits work only where
// PreFilter, Filter and PostFilter are enabled together, and PostFilter before DefaultPreemption:
//
//   - Where multiPoint, preFilter or filter enables one of them, the three extension points do; for LoadThreshold also
//     PreScore and Score, by which a pod goes to the least loaded node when the thresholds are waived for it.
//   - Those that postFilter does not name yet come first in it. If DefaultPreemption would still run before them, or before
//     those that it names, DefaultPreemption is named in it behind the last of them; if it is named already the list stands
//     as it is.
//   - LoadThreshold scores with a weight that outvotes the stock plugins, unless another is given.
//
// What the operator disables at an extension point stays so.
func SetDefaults_SoftLimits(obj *kubeschedulerconfigv1.KubeSchedulerConfiguration) {
	for i := range obj.Profiles {
		if plugins := obj.Profiles[i].Plugins; plugins != nil {
			setDefaultsSoftLimits(plugins)
		}
	}
}

const (
	loadThreshold     = "LoadThreshold"
	nodeMetrics       = "NodeMetrics"
	defaultPreemption = "DefaultPreemption"
)

func setDefaultsSoftLimits(plugins *kubeschedulerconfigv1.Plugins) {
	var limits []string
	for _, point := range []*kubeschedulerconfigv1.PluginSet{&plugins.MultiPoint, &plugins.PreFilter, &plugins.Filter} {
		for _, plugin := range point.Enabled {
			if (plugin.Name == loadThreshold || plugin.Name == nodeMetrics) && !slices.Contains(limits, plugin.Name) {
				limits = append(limits, plugin.Name)
			}
		}
	}
	var first []kubeschedulerconfigv1.Plugin
	for _, name := range limits {
		if !names(plugins.PostFilter.Enabled, name) && !disables(&plugins.PostFilter, name) {
			first = append(first, kubeschedulerconfigv1.Plugin{Name: name})
		}
		if names(plugins.MultiPoint.Enabled, name) {
			continue
		}
		points := []*kubeschedulerconfigv1.PluginSet{&plugins.PreFilter, &plugins.Filter}
		if name == loadThreshold {
			points = append(points, &plugins.PreScore, &plugins.Score)
		}
		for _, point := range points {
			if !names(point.Enabled, name) && !disables(point, name) {
				point.Enabled = append(point.Enabled, kubeschedulerconfigv1.Plugin{Name: name})
			}
		}
	}
	plugins.PostFilter.Enabled = slices.Insert(plugins.PostFilter.Enabled, 0, first...)
	setDefaultsPreemptionLast(plugins)
	for _, point := range []*kubeschedulerconfigv1.PluginSet{&plugins.MultiPoint, &plugins.Score} {
		for i := range point.Enabled {
			if plugin := &point.Enabled[i]; plugin.Name == loadThreshold && ptr.Deref(plugin.Weight, 0) == 0 {
				plugin.Weight = ptr.To[int32](defaultLoadThresholdWeight)
			}
		}
	}
}

// setDefaultsPreemptionLast makes the order of postFilter that of its list. Of what is enabled there, the framework runs
// first what multiPoint enables as well, which DefaultPreemption is by default.
func setDefaultsPreemptionLast(plugins *kubeschedulerconfigv1.Plugins) {
	point, last := &plugins.PostFilter, -1
	for i, plugin := range point.Enabled {
		if (plugin.Name == loadThreshold || plugin.Name == nodeMetrics) && !names(plugins.MultiPoint.Enabled, plugin.Name) {
			last = i
		}
	}
	if last < 0 || !names(plugins.MultiPoint.Enabled, defaultPreemption) || disables(point, defaultPreemption) {
		return
	}
	if !names(point.Enabled, defaultPreemption) {
		point.Enabled = slices.Insert(point.Enabled, last+1, kubeschedulerconfigv1.Plugin{Name: defaultPreemption})
	}
	// Disabled, it is what the list says and not what multiPoint says.
	point.Disabled = append(point.Disabled, kubeschedulerconfigv1.Plugin{Name: defaultPreemption})
}

func names(plugins []kubeschedulerconfigv1.Plugin, name string) bool {
	return slices.ContainsFunc(plugins, func(plugin kubeschedulerconfigv1.Plugin) bool { return plugin.Name == name })
}

func disables(point *kubeschedulerconfigv1.PluginSet, name string) bool {
	return names(point.Disabled, name) || names(point.Disabled, "*")
}
