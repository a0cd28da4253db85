package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kube-scheduler's configuration, to which the plugins' arguments belong.
const GroupName = "kubescheduler.config.k8s.io"

// SchemeGroupVersion is the group and version under which the internal types are registered.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

// AddToScheme registers the internal types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&TargetLoadPackingArgs{}, &LoadVariationRiskBalancingArgs{}, &LowRiskOverCommitmentArgs{}, &PeaksArgs{}, &LoadThresholdArgs{},
		&NodeMetricsArgs{}, &PredictedPeakArgs{}, &DecisionRecordArgs{}, &IncrementalPodTopologySpreadArgs{},
		&IncrementalInterPodAffinityArgs{},
	)
	return nil
}
