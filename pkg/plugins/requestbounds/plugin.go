// Package requestbounds rejects pods whose requests are a thousand times what any node has.
package requestbounds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
)

// Name is the name of the plugin in configurations.
const Name = config.RequestBounds

// RequestBounds is a plugin that rejects pods with impossible requests. It is safe for concurrent use.
//
// The scheduler's sums are of int64 and wrap. Two containers with 5Ei of memory sum up to a negative request. It fits every node.
type RequestBounds struct{}

var (
	_ minor.PreFilterPlugin   = &RequestBounds{}
	_ minor.EnqueueExtensions = &RequestBounds{}
	_ minor.SignPlugin        = &RequestBounds{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.WithoutLoad(descriptor.Descriptor{Name: Name}, func(descriptor.Inputs) (minor.Plugin, error) {
		return &RequestBounds{}, nil
	})
}

// Name returns the name of the plugin.
func (pl *RequestBounds) Name() string { return Name }

// PreFilter rejects the pod if its requests are beyond a bound.
func (pl *RequestBounds) PreFilter(
	_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	if small(pod, nodes) {
		return nil, nil
	}
	if x := beyond(pod, nodes); x != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, x.reason())
	}
	return nil, nil
}

// PreFilterExtensions returns nil: pods that come or go change neither the pod's requests nor what nodes have.
func (pl *RequestBounds) PreFilterExtensions() minor.PreFilterExtensions { return nil }

// EventsToRegister names the events after which a rejected pod can fit.
func (pl *RequestBounds) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable},
			QueueingHintFn: pl.isQueueableAfterNode,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodScaleDown},
			QueueingHintFn: pl.isQueueableAfterPodScaleDown,
		},
	}, nil
}

// isQueueableAfterNode retries the pod if the node is now large enough for one of its requests.
func (pl *RequestBounds) isQueueableAfterNode(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if grows(pod, infos(before), infos(now)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// infos returns the node alone; nothing if it is nil.
func infos(node *corev1.Node) []fwk.NodeInfo {
	if node == nil {
		return nil
	}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return []fwk.NodeInfo{info}
}

// isQueueableAfterPodScaleDown retries the pod if its own requests went down.
func (pl *RequestBounds) isQueueableAfterPodScaleDown(
	_ klog.Logger, pod *corev1.Pod, oldObj, newObj any,
) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if now != nil && now.UID == pod.UID {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// SignPod signs nothing: PreFilter checks every pod, also one for which a node is known from a batch.
func (pl *RequestBounds) SignPod(context.Context, *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return nil, nil
}
