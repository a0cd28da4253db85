//go:build !kubernetes_1_34 && !kubernetes_1_35

package minor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// EventRecorder is what a scheduler records events with.
type EventRecorder = events.EventRecorderLogger

// DoneChecker reports that an informer has synced.
type DoneChecker = cache.DoneChecker

// IsPodGroupCycle reports whether the cycle places the pods of a group one by one. Such cycles change NodeInfos without a new
// generation. Pod groups are placed as one from Kubernetes 1.36 on.
func IsPodGroupCycle(state fwk.CycleState) bool { return state.IsPodGroupSchedulingCycle() }

// PodGroupOf returns the name of the group that the pod is placed with, in its namespace; empty if it has none.
func PodGroupOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil {
		return ""
	}
	return ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "")
}
