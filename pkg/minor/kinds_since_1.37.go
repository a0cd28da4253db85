//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package minor

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podresource "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// From Kubernetes 1.37 on, plugins may act where a pod group does not fit.
type (
	PodGroupCycleState       = fwk.PodGroupCycleState
	PodGroupInfo             = fwk.PodGroupInfo
	PodGroupPostFilterPlugin = fwk.PodGroupPostFilterPlugin
	PodGroupPostFilterResult = fwk.PodGroupPostFilterResult
	PodGroupSchedulingFunc   = fwk.PodGroupSchedulingFunc
	// PlacementCycleState is what ScorePlacement gets: from Kubernetes 1.37 on, each placement of a pod group has a state of its own.
	PlacementCycleState = fwk.PlacementCycleState
)

// PodGroupCycle returns the state that PodGroupPostFilter gets: that of the cycle that places the pod's group, or else the
// outermost composite group. It is nil for a pod without a group.
func PodGroupCycle(state fwk.CycleState) PodGroupCycleState {
	cycle := GroupOf(state)
	for cycle != nil && cycle.GetParentPlacementCycleState() != nil {
		cycle = GroupOf(cycle.GetParentPlacementCycleState())
	}
	return cycle
}

// Kinds returns the kinds that stock plugins read in some minor versions only: from Kubernetes 1.37 on, taints of devices.
func Kinds() []runtime.Object { return []runtime.Object{&resourcev1.DeviceTaintRule{}} }

// IsResizeOnly reports whether the pod has a node, and is only to get more of its resources.
func IsResizeOnly(f feature.Features, pod *corev1.Pod) bool {
	return f.EnableInPlacePodVerticalScalingSchedulerPreemption && podresource.IsPodResizeDeferred(pod)
}

// ForgetsNamespaceSelectors reports whether InterPodAffinity puts the namespaces that a term selects in the place of the selector.
const ForgetsNamespaceSelectors = true
