package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// SchemeGroupVersion is the group and version that users write as apiVersion.
var SchemeGroupVersion = schema.GroupVersion{Group: config.GroupName, Version: "v1"}

// localSchemeBuilder must keep its name: generated code registers conversions with it.
var localSchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, RegisterDefaults)

// AddToScheme registers the versioned types, their defaults, and their conversions to the internal types.
func AddToScheme(scheme *runtime.Scheme) error {
	return localSchemeBuilder.AddToScheme(scheme)
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&TargetLoadPackingArgs{}, &LoadVariationRiskBalancingArgs{}, &LowRiskOverCommitmentArgs{}, &PeaksArgs{}, &LoadThresholdArgs{},
		&NodeMetricsArgs{}, &PredictedPeakArgs{}, &DecisionRecordArgs{}, &IncrementalPodTopologySpreadArgs{},
		&IncrementalInterPodAffinityArgs{},
	)
	return nil
}
