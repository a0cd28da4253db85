package loadthreshold

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// EventsToRegister names the events after which a pod that the thresholds kept out can fit. New load is not among them: pl.gate
// requeues pods after refreshes.
func (pl *LoadThreshold) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation},
			QueueingHintFn: pl.isQueueableAfterNodeAnnotation,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: pl.isQueueableAfterPodLabel},
	}, nil
}

// isQueueableAfterNodeAnnotation retries the pod if the node's thresholds changed. Other annotations change all the time.
func (pl *LoadThreshold) isQueueableAfterNodeAnnotation(
	_ klog.Logger, _ *corev1.Pod, oldObj, newObj any,
) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before == nil || now == nil || annotationChanged(before, now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isQueueableAfterPodLabel retries the pod if its own labels changed, and exempt it now.
func (pl *LoadThreshold) isQueueableAfterPodLabel(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if now != nil && now.UID == pod.UID && pl.exemptions.cover(now) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
