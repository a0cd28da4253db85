package plugintest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// QueueWithRefused returns a queue of the scheduler's own, with a pod that the plugin refused.
func QueueWithRefused(t *testing.T, plugin minor.EnqueueExtensions, pod *corev1.Pod) *queue.PriorityQueue {
	t.Helper()
	metrics.Register()
	events := check.Value(plugin.EventsToRegister(t.Context()))(t)
	hints := queue.QueueingHintMap{}
	for _, event := range events {
		fn := event.QueueingHintFn
		if fn == nil {
			fn = func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil } // as the scheduler does
		}
		hints[event.Event] = append(hints[event.Event], &queue.QueueingHintFunction{PluginName: plugin.Name(), QueueingHintFn: fn})
	}
	q := minortest.NewQueue(t.Context(),
		queue.WithQueueingHintMapPerProfile(queue.QueueingHintMapPerProfile{pod.Spec.SchedulerName: hints}))
	t.Cleanup(q.Close)
	check.OK(t, minortest.Refuse(t.Context(), q, pod, plugin.Name()))
	check.Require(t, "pods wait, want the one that was refused", 1, len(q.UnschedulablePods()))
	return q
}
