//go:build kubernetes_1_34 || kubernetes_1_35

package minortest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// PodGroupCycle skips the test.
func PodGroupCycle(t testing.TB) fwk.CycleState {
	t.Helper()
	t.Skip("before Kubernetes 1.36, each cycle places one pod")
	return nil
}

// Before Kubernetes 1.36 the queue wants a logger and no context.

// JoinPodGroup puts the pod into a pod group. It returns false: there are none.
func JoinPodGroup(*corev1.Pod) bool { return false }

func add(ctx context.Context, q *queue.PriorityQueue, pod *corev1.Pod) {
	q.Add(klog.FromContext(ctx), pod)
}

// Update tells the queue that a pod in it has changed.
func Update(ctx context.Context, q *queue.PriorityQueue, before, now *corev1.Pod) {
	q.Update(klog.FromContext(ctx), before, now)
}

// Synced reports whether an informer has synced.
func Synced(i cache.SharedInformer) bool { return i.HasSynced() }
