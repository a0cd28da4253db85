package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kube-scheduler's configuration, which the plugins' arguments are part of.
const GroupName = "kubescheduler.config.k8s.io"

// SchemeGroupVersion is the group and version that the internal types are registered under.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

// AddToScheme registers the internal types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&TargetLoadPackingArgs{},
		&LoadVariationRiskBalancingArgs{},
		&LoadThresholdArgs{},
		&NodeMetricsArgs{},
	)
	return nil
}
