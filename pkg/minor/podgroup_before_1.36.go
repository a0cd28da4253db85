//go:build kubernetes_1_34 || kubernetes_1_35

package minor

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// IsPodGroupCycle returns false: before Kubernetes 1.36, each cycle places one pod.
func IsPodGroupCycle(fwk.CycleState) bool { return false }

// InPodGroup returns false: before Kubernetes 1.36, pods have no group.
func InPodGroup(*corev1.Pod) bool { return false }
