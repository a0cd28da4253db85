package config

import "k8s.io/apimachinery/pkg/runtime"

// LoadSpecOf returns the arguments that all plugins of this project share; nil if args are those of another plugin.
func LoadSpecOf(args runtime.Object) *LoadSpec {
	if a, ok := args.(interface{ GetLoadSpec() *LoadSpec }); ok {
		return a.GetLoadSpec()
	}
	return nil
}

// PeakSpecOf returns how a plugin's arguments say that peaks are predicted; nil if they do not.
func PeakSpecOf(args runtime.Object) *PeakSpec {
	switch a := args.(type) {
	case *PredictedPeakArgs:
		return &a.PeakSpec
	case *LoadThresholdArgs:
		return &a.PredictedPeak
	}
	return nil
}

// MetricsOf returns the node metrics in the arguments of a plugin.
func MetricsOf(args runtime.Object) []NodeMetric {
	if a, ok := args.(*NodeMetricsArgs); ok {
		return a.Metrics
	}
	return nil
}
