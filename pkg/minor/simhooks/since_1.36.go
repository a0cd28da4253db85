//go:build !kubernetes_1_34 && !kubernetes_1_35

package simhooks

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func (NoBatching) GetNodeHint(context.Context, *corev1.Pod, fwk.PodSignature, fwk.CycleState, int64) string {
	return ""
}

// SchedulePod chooses a node.
func SchedulePod(
	ctx context.Context, s *scheduler.Scheduler, fw framework.Framework, state fwk.CycleState, pod *framework.PodInfo,
) (scheduler.ScheduleResult, error) {
	return s.SchedulePod(ctx, fw, state, &framework.QueuedPodInfo{PodInfo: pod})
}
