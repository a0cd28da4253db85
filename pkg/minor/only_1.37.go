//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_38

package minor

import fwk "k8s.io/kube-scheduler/framework"

// PodGroupCycle returns the state of the cycle that places the pod's group; nil for a pod without a group.
func PodGroupCycle(state fwk.CycleState) PodGroupCycleState {
	return state.GetPodGroupSchedulingCycle()
}

// GroupOf returns the state of the cycle that places the pod group.
func GroupOf(state PlacementCycleState) PodGroupCycleState {
	return state.GetPodGroupSchedulingCycle()
}
