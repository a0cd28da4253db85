package config

// The plugins' names in a KubeSchedulerConfiguration.
const (
	LoadThreshold              = "LoadThreshold"
	LoadVariationRiskBalancing = "LoadVariationRiskBalancing"
	NodeMetrics                = "NodeMetrics"
	TargetLoadPacking          = "TargetLoadPacking"
)

// PluginNames returns the names of all plugins.
func PluginNames() []string {
	return []string{LoadThreshold, LoadVariationRiskBalancing, NodeMetrics, TargetLoadPacking}
}
