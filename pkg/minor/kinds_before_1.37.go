//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package minor

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// See kinds_since_1.37.go. Nothing calls a PodGroupPostFilterPlugin before.
type (
	PodGroupCycleState interface {
		Read(key fwk.StateKey) (fwk.StateData, error)
		Write(key fwk.StateKey, data fwk.StateData)
	}
	PodGroupInfo             interface{ GetUnscheduledPods() []*corev1.Pod }
	PodGroupPostFilterPlugin = Plugin
	PodGroupPostFilterResult struct{}
	PodGroupSchedulingFunc   func(ctx context.Context) (any, *fwk.Status)
)

// PodGroupCycle returns nil: before Kubernetes 1.37, PostFilter is called for the pods of a group one by one.
func PodGroupCycle(fwk.CycleState) PodGroupCycleState { return nil }

// Kinds returns the kinds that stock plugins read in some minor versions only: none before Kubernetes 1.37.
func Kinds() []runtime.Object { return nil }

// IsResizeOnly returns false: before Kubernetes 1.37, only pods without a node are filtered.
func IsResizeOnly(feature.Features, *corev1.Pod) bool { return false }

// ForgetsNamespaceSelectors reports whether InterPodAffinity puts the namespaces that a term selects in the place of the selector.
// Before Kubernetes 1.37, it changes a copy of the term: a selector that matches a namespace without labels selects all namespaces.
const ForgetsNamespaceSelectors = false
