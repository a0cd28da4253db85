// Package minortest hides the differences between minor versions of Kubernetes from tests.
package minortest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// Refuse adds the pod to the empty queue, and pops it as the scheduler does. It then puts the pod back as refused by the plugin.
func Refuse(ctx context.Context, q *queue.PriorityQueue, pod *corev1.Pod, plugin string) error {
	logger := klog.FromContext(ctx)
	add(ctx, q, pod)
	info, err := pop(logger, q)
	if err != nil {
		return err
	}
	info.UnschedulablePlugins = sets.New(plugin)
	if err := putBack(logger, q, info); err != nil {
		return err
	}
	q.Done(pod.UID)
	return nil
}
