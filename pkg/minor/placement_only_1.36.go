//go:build kubernetes_1_36

package minor

import fwk "k8s.io/kube-scheduler/framework"

// PlacementCycleState is what ScorePlacement gets.
type PlacementCycleState = fwk.PodGroupCycleState

// GroupOf returns the state of the cycle that places the pod group.
func GroupOf(state PlacementCycleState) fwk.PodGroupCycleState { return state }
