package softlimit

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// preemptionHelps reports whether preemption can give the pod one of the nodes that have room.
func (g *Gate) preemptionHelps(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	hasRoom := g.limit.HasRoom(pod)
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return !hasRoom(node.Node()) })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var helps atomic.Bool
	g.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		if canEvict(pod, nodes[i]) && g.fitsOnceEvicted(ctx, state.Clone(), pod, nodes[i].Snapshot()) {
			helps.Store(true)
			cancel()
		}
	}, g.limit.Plugin)
	return helps.Load()
}

// fitsOnceEvicted reports whether the pod fits the node without its possible victims, as DefaultPreemption does. It changes
// the state and the node.
func (g *Gate) fitsOnceEvicted(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
	logger := klog.FromContext(ctx)
	for _, other := range slices.Clone(node.GetPods()) {
		if !outranks(pod, other.GetPod()) {
			continue
		}
		if node.RemovePod(logger, other.GetPod()) != nil ||
			!g.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, other, node).IsSuccess() {
			return false
		}
	}
	return g.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
}

// canEvict reports whether the node runs pods that may be evicted for the pod.
func canEvict(pod *corev1.Pod, node fwk.NodeInfo) bool {
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return false
	}
	return slices.ContainsFunc(node.GetPods(), func(other fwk.PodInfo) bool { return outranks(pod, other.GetPod()) })
}

func outranks(pod, other *corev1.Pod) bool {
	return schedulingcorev1.PodPriority(other) < schedulingcorev1.PodPriority(pod)
}
