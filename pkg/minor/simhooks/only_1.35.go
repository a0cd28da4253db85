//go:build kubernetes_1_35

package simhooks

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// GetNodeHint returns no hint, and no signature, so that nothing is stored.
func (NoBatching) GetNodeHint(context.Context, *corev1.Pod, fwk.CycleState, int64) (string, fwk.PodSignature) {
	return "", nil
}
