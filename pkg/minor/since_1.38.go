//go:build kubernetes_1_38

package minor

import corev1 "k8s.io/api/core/v1"

// GroupOf returns the state of the cycle that places the pod group.
func GroupOf(state interface{ GetPodGroupCycleState() PodGroupCycleState }) PodGroupCycleState {
	return state.GetPodGroupCycleState()
}

// UnscheduledPods returns the pods of the group that its cycle places.
func UnscheduledPods(group PodGroupInfo) []*corev1.Pod { return group.GetAllUnscheduledPods() }

// EmptySelectsNothing reports whether PodTopologySpread counts no pod for an empty selector.
const EmptySelectsNothing = false
