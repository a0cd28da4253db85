package config

// The plugins' names in a KubeSchedulerConfiguration.
const (
	LoadThreshold              = "LoadThreshold"
	LoadVariationRiskBalancing = "LoadVariationRiskBalancing"
	NodeMetrics                = "NodeMetrics"
	PredictedPeak              = "PredictedPeak"
	TargetLoadPacking          = "TargetLoadPacking"
)

// PluginNames returns the names of all plugins.
func PluginNames() []string {
	return []string{LoadThreshold, LoadVariationRiskBalancing, NodeMetrics, PredictedPeak, TargetLoadPacking}
}
