//go:build kubernetes_1_34

package minortest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Batch skips the test.
func Batch(t testing.TB, _ framework.Framework, _ *corev1.Pod, _, _ string, _ *corev1.Pod) func(fwk.CycleState) string {
	t.Helper()
	t.Skip("before Kubernetes 1.35, no scores are reused")
	return nil
}

// SetPodStatus does nothing: before Kubernetes 1.35, a pod's status has no resources of the whole pod.
func SetPodStatus(*corev1.Pod, corev1.ResourceList, corev1.ResourceList) {}
