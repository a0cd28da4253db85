//go:build !kubernetes_1_34

package minortest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Batch tells the framework that the pod was placed on the node, and which one was the next best. It returns the node that the
// framework then tries first for another pod. The test fails if their signatures differ, because nothing would be reused.
func Batch(
	t testing.TB, fw framework.Framework, placed *corev1.Pod, node, nextBest string, other *corev1.Pod,
) func(fwk.CycleState) string {
	t.Helper()
	signature := sign(t.Context(), fw, placed)
	if signature == nil || string(signature) != string(sign(t.Context(), fw, other)) {
		t.Fatal("the pods are not signed alike, so that nothing is batched")
	}
	fw.StoreScheduleResults(t.Context(), signature, "", node, &sortedNodes{nextBest}, 1)
	return func(state fwk.CycleState) string { return nodeHint(t.Context(), fw, other, signature, state, 2) }
}

// SetPodStatus sets the requests of the whole pod in its status: what is allocated, and what it runs with.
func SetPodStatus(pod *corev1.Pod, allocated, running corev1.ResourceList) {
	pod.Status.AllocatedResources, pod.Status.Resources = allocated, &corev1.ResourceRequirements{Requests: running}
}
