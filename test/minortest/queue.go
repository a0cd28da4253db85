// Package minortest hides the differences between minor versions of Kubernetes from tests.
package minortest

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// NewQueue returns a queue that pops the oldest pod first.
func NewQueue(ctx context.Context, options ...queue.Option) *queue.PriorityQueue {
	return queue.NewTestQueue(ctx, older, options...)
}

func older[T interface{ GetTimestamp() time.Time }](a, b T) bool {
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// Refuse adds the pod to the empty queue, and pops it as the scheduler does. It then puts the pod back as refused by the plugin.
func Refuse(ctx context.Context, q *queue.PriorityQueue, pod *corev1.Pod, plugin string) error {
	add(ctx, q, pod)
	popped, err := q.Pop(klog.FromContext(ctx))
	if err != nil {
		return err
	}
	info, ok := any(popped).(*framework.QueuedPodInfo)
	if !ok { // from Kubernetes 1.37 on, the queue may hold groups of pods too
		return fmt.Errorf("the queue returned %T, which is no pod", popped)
	}
	info.UnschedulablePlugins = sets.New(plugin)
	if err := putBack(ctx, q, info); err != nil {
		return err
	}
	q.Done(pod.UID)
	return nil
}
