//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package minor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// Kinds returns the kinds that stock plugins read in some minor versions only: none before Kubernetes 1.37.
func Kinds() []runtime.Object { return nil }

// IsResizeOnly returns false: before Kubernetes 1.37, only pods without a node are filtered.
func IsResizeOnly(feature.Features, *corev1.Pod) bool { return false }

// ForgetsNamespaceSelectors reports whether InterPodAffinity puts the namespaces that a term selects in the place of the selector.
// Before Kubernetes 1.37, it changes a copy of the term: a selector that matches a namespace without labels selects all namespaces.
const ForgetsNamespaceSelectors = false
