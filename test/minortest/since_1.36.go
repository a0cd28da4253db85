//go:build !kubernetes_1_34 && !kubernetes_1_35

package minortest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// PodGroupCycle returns the state of a cycle that places the pods of a group.
func PodGroupCycle(testing.TB) fwk.CycleState {
	state := framework.NewCycleState()
	SetPodGroupCycle(state, framework.NewCycleState())
	return state
}

// JoinPodGroup puts the pod into a pod group.
func JoinPodGroup(pod *corev1.Pod) bool {
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	return true
}

func add(ctx context.Context, q *queue.PriorityQueue, pod *corev1.Pod) { q.Add(ctx, pod) }

// Update tells the queue that a pod in it has changed.
func Update(ctx context.Context, q *queue.PriorityQueue, before, now *corev1.Pod) {
	q.Update(ctx, before, now)
}

func sign(ctx context.Context, fw framework.Framework, pod *corev1.Pod) fwk.PodSignature {
	return fw.SignPod(ctx, pod)
}

func nodeHint(
	ctx context.Context, fw framework.Framework, pod *corev1.Pod, signature fwk.PodSignature, state fwk.CycleState, cycle int64,
) string {
	return fw.GetNodeHint(ctx, pod, signature, state, cycle)
}

// Synced reports whether an informer tells by both of its ways that it has synced.
func Synced(i cache.SharedInformer) bool { return i.HasSynced() && cache.IsDone(i.HasSyncedChecker()) }
