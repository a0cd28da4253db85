//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package softlimit

import "github.com/plimsoll-scheduler/plimsoll/pkg/minor"

// rootCycle returns the cycle: no group has a parent.
func rootCycle(cycle minor.PodGroupCycleState) minor.PodGroupCycleState { return cycle }
