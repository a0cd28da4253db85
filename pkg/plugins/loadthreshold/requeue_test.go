package loadthreshold

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// A refused pod is retried only after events that can let it in.
func TestEventsToRegister(t *testing.T) {
	pod := nothing()
	other := podOf("1", "0")
	other.UID, other.Name, other.Spec.NodeName = "other", "other", "n"
	labeled := func(pod *corev1.Pod, value string) *corev1.Pod {
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{"tier": value}
		return changed
	}
	annotated := func(key, value string) *corev1.Node {
		n := node("n")
		n.Annotations = map[string]string{key: value}
		return n
	}
	bigger := node("n")
	bigger.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: bigger.Status.Capacity[corev1.ResourceMemory]}
	smaller := other.DeepCopy()
	smaller.Spec.Containers[0].Resources.Requests = nil
	nodeEvent := func(before, now *corev1.Node) func(*testing.T, *queue.PriorityQueue) {
		return func(t *testing.T, q *queue.PriorityQueue) {
			for _, event := range framework.NodeSchedulingPropertiesChange(now, before) {
				q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), event, before, now, nil)
			}
		}
	}
	podEvent := func(now *corev1.Pod) func(*testing.T, *queue.PriorityQueue) {
		return func(t *testing.T, q *queue.PriorityQueue) {
			for _, event := range minortest.EventsOfPod(now, other) {
				q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), event, other, now, nil)
			}
		}
	}
	updated := func(now *corev1.Pod) func(*testing.T, *queue.PriorityQueue) {
		return func(t *testing.T, q *queue.PriorityQueue) { minortest.Update(t.Context(), q, pod, now) }
	}
	for _, tc := range []struct {
		name    string
		happens func(*testing.T, *queue.PriorityQueue)
		want    bool
	}{
		{"a node is added", func(t *testing.T, q *queue.PriorityQueue) {
			event := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
			q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), event, nil, node("n"), nil)
		}, true},
		{"a node's allocatable changes", nodeEvent(node("n"), bigger), true},
		{"a node gets a line of its own", nodeEvent(node("n"), node("n", "cpu=90")), true},
		{"a node's line changes", nodeEvent(node("n", "cpu=70"), node("n", "cpu=90")), true},
		{"a node loses its line", nodeEvent(node("n", ""), node("n")), true},
		{"another annotation of a node changes", nodeEvent(annotated("heartbeat", "1"), annotated("heartbeat", "2")), false},
		{"a pod ends", func(t *testing.T, q *queue.PriorityQueue) {
			q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), framework.EventAssignedPodDelete, other, nil, nil)
		}, true},
		{"a pod asks for less", podEvent(smaller), true},
		{"the labels of another pod change", podEvent(labeled(other, "front")), false},
		{"the pod's own labels come to exempt it", updated(labeled(pod, "front")), true},
		{"the pod's own labels change, and do not exempt it", updated(labeled(pod, "back")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const args = "exempt: {podSelector: {matchLabels: {tier: front}}}"
			q := plugintest.QueueWithRefused(t, build(t, args, nil), pod)
			tc.happens(t, q)
			if got := len(q.UnschedulablePods()) == 0; got != tc.want {
				t.Errorf("retried: %v, want %v", got, tc.want)
			}
		})
	}
}

// An event that cannot be read retries the pod.
func TestEventsToRegister_Unreadable(t *testing.T) {
	b := build(t, "", nil)
	for name, tc := range map[string]struct {
		hint        fwk.QueueingHintFn
		before, now any
		wantErr     bool
	}{
		"a node's annotations, of which the old are not known": {b.isQueueableAfterNodeAnnotation, nil, node("n"), false},
		"an old node that is none":                             {b.isQueueableAfterNodeAnnotation, nothing(), node("n"), true},
		"a new node that is none":                              {b.isQueueableAfterNodeAnnotation, node("n"), nothing(), true},
		"an old pod that is none":                              {b.isQueueableAfterPodLabel, node("n"), nothing(), true},
		"a new pod that is none":                               {b.isQueueableAfterPodLabel, nothing(), node("n"), true},
	} {
		if hint, err := tc.hint(klog.FromContext(t.Context()), nothing(), tc.before, tc.now); hint != fwk.Queue ||
			(err != nil) != tc.wantErr {
			t.Errorf("%s: %v, %v; want Queue, an error: %v", name, hint, err, tc.wantErr)
		}
	}
}
