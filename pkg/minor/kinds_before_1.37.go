//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package minor

import "k8s.io/apimachinery/pkg/runtime"

// Kinds are the kinds of objects that the stock plugins of some minors only read. Before Kubernetes 1.37 there are none.
func Kinds() []runtime.Object { return nil }
