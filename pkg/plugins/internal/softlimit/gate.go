// Package softlimit filters nodes by a soft limit on a measurement. If no node is left for a pod, the limit is waived before
// other pods are preempted. Otherwise, the pod waits and is retried after a new measurement that may let it in.
package softlimit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Limit is the soft limit of one plugin. Its functions may be called from many goroutines at once.
type Limit struct {
	// Plugin is the plugin's name.
	Plugin string
	// WhenNoneFits says what happens to a pod for which the limit leaves no node.
	WhenNoneFits config.WhenNoneFits
	// Refuses reports whether the limit rules the node out in the scheduling cycle, whether or not it is waived.
	Refuses func(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool
	// HasRoom returns whether the limit admits the pod to a node by present measurements. Pods that are not measured yet do not
	// count.
	HasRoom func(pod *corev1.Pod) func(node *corev1.Node) bool
}

// Gate relaxes the limit of one plugin, or requeues the pods that wait for it. It is safe for concurrent use.
type Gate struct {
	limit    Limit
	handle   minor.Handle
	waivers  *waivers
	requeuer *requeuer
}

// NewGate returns the gate of the limit on what the snapshots show, and requeues pods until ctx is done.
func NewGate(ctx context.Context, limit Limit, handle minor.Handle, snapshots *estimate.Snapshots, c clock.Clock) *Gate {
	g := &Gate{
		limit: limit, handle: handle, waivers: newWaivers(limit.Plugin, handle, c), requeuer: newRequeuer(limit, handle, snapshots, c),
	}
	go g.requeuer.run(ctx, klog.FromContext(ctx)) // klog's own logger may be replaced later
	return g
}

// Begin begins an attempt to schedule the pod; call it at PreFilter. It reports whether the limit is waived for the attempt.
//
// A signature need not contain the waiver. From a pod of the same signature, the scheduler reuses only a node hint. It runs the
// filters on that node again.
func (g *Gate) Begin(state fwk.CycleState, pod *corev1.Pod) (waived bool) {
	g.requeuer.forget(pod.UID)
	return g.waivers.begin(state, pod.UID)
}

// Waived reports whether the limit is waived in the scheduling cycle.
func (g *Gate) Waived(state fwk.CycleState) bool { return g.waivers.waived(state) }

func (g *Gate) relaxes() bool { return g.limit.WhenNoneFits == config.WhenNoneFitsRelax }

// Refuse is the status of a node that the limit rules out. With a strict limit, preemption does not help: measurements fall too
// late after an eviction.
func (g *Gate) Refuse(reason string) *fwk.Status {
	if g.relaxes() {
		return fwk.NewStatus(fwk.Unschedulable, reason)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// PostFilter implements the extension point. It has to run before DefaultPreemption.
//
// A limit that is relaxed, and that alone ruled out some node, is waived for the pod's next attempt. The attempt is made at
// once, and PostFilter succeeds, so that no pod is preempted. Where the limits of several plugins keep the pod out together,
// the last of them waives all.
//
// Otherwise the next plugins run. For them a relaxed limit holds if preemption can give the pod a node below it. If not, it
// is waived for them, because measurements still contain the pods that preemption would evict. A strict
// limit always holds.
//
// Where the limit holds, the pod waits until a node has room.
func (g *Gate) PostFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses minor.NodeToStatusReader,
) (*minor.PostFilterResult, *fwk.Status) {
	unschedulable := fwk.NewStatus(fwk.Unschedulable)
	if state.GetSkipFilterPlugins().Has(g.limit.Plugin) {
		return nil, unschedulable // the limit has no part in it
	}
	if g.relaxes() {
		// Nodes that a waiver or preemption could make feasible.
		nodes, err := statuses.NodesForStatusCode(g.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		if g.waivers.waiveNext(ctx, state, pod, nodes, statuses) {
			return nil, fwk.NewStatus(fwk.Success)
		}
		if !g.preemptionHelps(ctx, state, pod, nodes) {
			g.waivers.waive(state)
			return nil, unschedulable
		}
	}
	if err := g.requeuer.wait(ctx, state, pod, statuses); err != nil {
		return nil, fwk.AsStatus(err)
	}
	return nil, unschedulable
}
