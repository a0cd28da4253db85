//go:build kubernetes_1_34 || kubernetes_1_35

package minor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventRecorder is what a scheduler records events with.
type EventRecorder = events.EventRecorder

// DoneChecker is cache.DoneChecker of Kubernetes 1.36. Nothing uses it before.
type DoneChecker interface {
	Name() string
	Done() <-chan struct{}
}

// IsPodGroupCycle returns false: before Kubernetes 1.36, each cycle places one pod.
func IsPodGroupCycle(fwk.CycleState) bool { return false }

// PodGroupOf returns an empty name: before Kubernetes 1.36, pods have no group.
func PodGroupOf(*corev1.Pod) string { return "" }
