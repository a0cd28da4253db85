//go:build kubernetes_1_35

package dryrun

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// GetNodeHint returns no hint, and no signature, without which nothing is stored.
func (Unbatched) GetNodeHint(context.Context, *corev1.Pod, fwk.CycleState, int64) (string, fwk.PodSignature) {
	return "", nil
}
