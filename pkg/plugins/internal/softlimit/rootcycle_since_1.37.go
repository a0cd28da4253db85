//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package softlimit

import "github.com/plimsoll-scheduler/plimsoll/pkg/minor"

// rootCycle returns the state that PodGroupPostFilter gets: that of the outermost composite group, or else of the group itself.
func rootCycle(cycle minor.PodGroupCycleState) minor.PodGroupCycleState {
	for parent := cycle.GetParentPlacementCycleState(); parent != nil; parent = cycle.GetParentPlacementCycleState() {
		cycle = minor.GroupOf(parent)
	}
	return cycle
}
