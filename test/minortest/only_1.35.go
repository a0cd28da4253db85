//go:build kubernetes_1_35

package minortest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func sign(ctx context.Context, fw framework.Framework, pod *corev1.Pod) fwk.PodSignature {
	const recordStats = false
	return fw.SignPod(ctx, pod, recordStats)
}

// Before Kubernetes 1.36 the framework signs the pod itself.
func nodeHint(
	ctx context.Context, fw framework.Framework, pod *corev1.Pod, _ fwk.PodSignature, state fwk.CycleState, cycle int64,
) string {
	hint, _ := fw.GetNodeHint(ctx, pod, state, cycle)
	return hint
}
