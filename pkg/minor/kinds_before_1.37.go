//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package minor

import "k8s.io/apimachinery/pkg/runtime"

// Kinds returns the kinds that stock plugins read in some minors only: none before Kubernetes 1.37.
func Kinds() []runtime.Object { return nil }
