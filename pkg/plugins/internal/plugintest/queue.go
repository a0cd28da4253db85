package plugintest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// RefusedIn is the scheduler's own queue in which the pod waits that the plugin refused.
func RefusedIn(t *testing.T, plugin fwk.EnqueueExtensions, pod *corev1.Pod) *queue.PriorityQueue {
	t.Helper()
	metrics.Register()
	events, err := plugin.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hints := queue.QueueingHintMap{}
	for _, event := range events {
		fn := event.QueueingHintFn
		if fn == nil {
			fn = func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil } // as the scheduler does
		}
		hints[event.Event] = append(hints[event.Event], &queue.QueueingHintFunction{PluginName: plugin.Name(), QueueingHintFn: fn})
	}
	first := func(a, b fwk.QueuedPodInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) }
	q := queue.NewTestQueue(t.Context(), first, queue.WithQueueingHintMapPerProfile(queue.QueueingHintMapPerProfile{pod.Spec.SchedulerName: hints}))
	t.Cleanup(q.Close)
	logger := klog.FromContext(t.Context())
	q.Add(t.Context(), pod)
	info, err := q.Pop(logger)
	if err != nil {
		t.Fatal(err)
	}
	info.UnschedulablePlugins = sets.New(plugin.Name())
	if err := q.AddUnschedulableIfNotPresent(logger, info, q.SchedulingCycle()); err != nil {
		t.Fatal(err)
	}
	q.Done(pod.UID)
	if n := len(q.UnschedulablePods()); n != 1 {
		t.Fatalf("%d pods wait, want the one that was refused", n)
	}
	return q
}
