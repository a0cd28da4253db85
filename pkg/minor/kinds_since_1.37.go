//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package minor

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds returns the kinds that stock plugins read in some minors only: from Kubernetes 1.37 on, taints of devices.
func Kinds() []runtime.Object { return []runtime.Object{&resourcev1.DeviceTaintRule{}} }
