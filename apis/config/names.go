package config

// The plugins' names in a KubeSchedulerConfiguration.
const (
	DecisionRecord               = "DecisionRecord"
	IncrementalInterPodAffinity  = "IncrementalInterPodAffinity"
	IncrementalPodTopologySpread = "IncrementalPodTopologySpread"
	LoadThreshold                = "LoadThreshold"
	LoadVariationRiskBalancing   = "LoadVariationRiskBalancing"
	LowRiskOverCommitment        = "LowRiskOverCommitment"
	NodeMetrics                  = "NodeMetrics"
	Peaks                        = "Peaks"
	PredictedPeak                = "PredictedPeak"
	RequestBounds                = "RequestBounds"
	TargetLoadPacking            = "TargetLoadPacking"
)

// MinNodeScore and MaxNodeScore bound a plugin's score of a node before its weight. Kubernetes' own constants are in another
// package in 1.34, and deprecated since 1.36.
const (
	MinNodeScore int64 = 0
	MaxNodeScore int64 = 100
)

// PluginNames returns the names of all plugins.
func PluginNames() []string {
	return []string{
		DecisionRecord, IncrementalInterPodAffinity, IncrementalPodTopologySpread, LoadThreshold, LoadVariationRiskBalancing,
		LowRiskOverCommitment, NodeMetrics, Peaks, PredictedPeak, RequestBounds, TargetLoadPacking,
	}
}
