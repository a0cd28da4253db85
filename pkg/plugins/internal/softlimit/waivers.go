package softlimit

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// waiverTTL is the lifetime of an unused waiver, for example of a deleted pod.
const waiverTTL = 10 * time.Minute

// waiverState says whether a plugin's limit is waived in the cycle.
type waiverState struct{ waived bool }

func (s waiverState) Clone() fwk.StateData { return s }

func waiverKey(plugin string) fwk.StateKey { return fwk.StateKey(plugin + "/waived") }

// hasAttempt reports whether the named plugin has a limit, and an attempt of it was begun in the cycle.
func hasAttempt(state fwk.CycleState, plugin string) bool {
	_, err := state.Read(waiverKey(plugin))
	return err == nil
}

// Begin begins an attempt to schedule the pod; call it at PreFilter. It reports whether the limit is waived for the attempt.
// A signature need not contain the waiver: from a pod of the same signature, the scheduler reuses only a node hint, and runs the
// filters on that node again.
func (g *Gate) Begin(state fwk.CycleState, pod *corev1.Pod) (waived bool) {
	g.requeuer.forget(pod.UID)
	g.mu.Lock()
	_, waived = g.granted[pod.UID]
	delete(g.granted, pod.UID)
	g.mu.Unlock()
	state.Write(g.key, waiverState{waived})
	return waived
}

func (g *Gate) waive(state fwk.CycleState) { state.Write(g.key, waiverState{true}) }

// Waived reports whether the limit is waived in the scheduling cycle.
func (g *Gate) Waived(state fwk.CycleState) bool {
	data, err := state.Read(g.key)
	return err == nil && data.(waiverState).waived
}

// grant waives the limit for the pod's next attempt.
func (g *Gate) grant(pod types.UID) {
	now := g.clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, at := range g.granted {
		if now.Sub(at) > waiverTTL {
			delete(g.granted, uid)
		}
	}
	g.granted[pod] = now
}

// insufficient holds the limits whose waiver alone did not help the pod. It is shared by clones, and immutable.
type insufficient struct{ limits []*Gate }

func (s insufficient) Clone() fwk.StateData { return s }

const insufficientKey fwk.StateKey = "softlimit/insufficient"

// waiveNext waives the sufficient limits for the pod's next attempt, and requeues the pod at once. It returns whether any
// limit was waived.
func (g *Gate) waiveNext(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses minor.NodeToStatusReader,
) bool {
	limits := g.sufficient(ctx, state, pod, nodes, statuses)
	if limits == nil {
		return false
	}
	logger := klog.FromContext(ctx)
	for _, limit := range limits {
		limit.grant(pod.UID)
		logger.V(4).Info("No node is left below the limit: it is waived for the pod's next attempt",
			"plugin", limit.limit.Plugin, "pod", klog.KObj(pod))
	}
	g.handle.Activate(logger, map[string]*corev1.Pod{keyOf(pod): pod})
	return true
}

// sufficient returns the limits to waive so that a node becomes feasible. These are this limit, or else all limits whose PostFilter
// was called in the cycle. It returns nil if waiving does not help.
func (g *Gate) sufficient(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses minor.NodeToStatusReader,
) []*Gate {
	// Where PreFilter is not enabled no attempt would find a waiver: the pod would be refused and waived forever.
	if !hasAttempt(state, g.limit.Plugin) {
		return nil
	}
	var others []*Gate
	if data, err := state.Read(insufficientKey); err == nil {
		others = data.(insufficient).limits
	}
	without := state.Clone()
	for _, other := range others {
		without.Write(other.key, waiverState{false}) // it may have been waived for preemption
	}
	alone, all := []*Gate{g}, append(slices.Clone(others), g)
	if g.suffices(ctx, without, pod, nodes, statuses, alone) {
		return alone
	}
	if len(others) > 0 && g.suffices(ctx, without, pod, nodes, statuses, all) {
		return all
	}
	state.Write(insufficientKey, insufficient{all})
	return nil
}

// suffices waives the limits in the state. It reports whether the pod then has a feasible node among the given ones.
func (g *Gate) suffices(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses minor.NodeToStatusReader,
	limits []*Gate,
) bool {
	for _, limit := range limits {
		limit.waive(state)
	}
	return slices.ContainsFunc(nodes, func(node fwk.NodeInfo) bool {
		by := statuses.Get(node.Node().Name).Plugin()
		return slices.ContainsFunc(limits, func(limit *Gate) bool { return limit.limit.Plugin == by }) &&
			g.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
	})
}
