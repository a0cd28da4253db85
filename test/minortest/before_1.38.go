//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_38

package minortest

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// SetPodGroupCycle makes the state that of a pod that a group's cycle places.
func SetPodGroupCycle(state *framework.CycleState, cycle fwk.PodGroupCycleState) {
	state.SetPodGroupSchedulingCycle(cycle)
}
