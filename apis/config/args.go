package config

import "k8s.io/apimachinery/pkg/runtime"

// LoadSpecOf returns the arguments that all plugins of this project share; nil if args are those of another plugin.
func LoadSpecOf(args runtime.Object) *LoadSpec {
	if a, ok := args.(interface{ GetLoadSpec() *LoadSpec }); ok {
		return a.GetLoadSpec()
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
