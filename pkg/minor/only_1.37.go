//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_38

package minor

// GroupOf returns the state of the cycle that places the pod group.
func GroupOf(state interface{ GetPodGroupSchedulingCycle() PodGroupCycleState }) PodGroupCycleState {
	return state.GetPodGroupSchedulingCycle()
}
