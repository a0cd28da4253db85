package config

// The plugins' names in a KubeSchedulerConfiguration.
const (
	DecisionRecord             = "DecisionRecord"
	LoadThreshold              = "LoadThreshold"
	LoadVariationRiskBalancing = "LoadVariationRiskBalancing"
	LowRiskOverCommitment      = "LowRiskOverCommitment"
	NodeMetrics                = "NodeMetrics"
	Peaks                      = "Peaks"
	PredictedPeak              = "PredictedPeak"
	RequestBounds              = "RequestBounds"
	TargetLoadPacking          = "TargetLoadPacking"
)

// PluginNames returns the names of all plugins.
func PluginNames() []string {
	return []string{
		DecisionRecord,
		LoadThreshold,
		LoadVariationRiskBalancing,
		LowRiskOverCommitment,
		NodeMetrics,
		Peaks,
		PredictedPeak,
		RequestBounds,
		TargetLoadPacking,
	}
}
