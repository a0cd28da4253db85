package softlimit

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// waiverTTL is the lifetime of an unused waiver, for example of a deleted pod.
const waiverTTL = 10 * time.Minute

// waivers waive the limit of one plugin for the next attempt to schedule a pod. It is safe for concurrent use.
type waivers struct {
	plugin string
	key    fwk.StateKey
	handle minor.Handle
	clock  clock.PassiveClock

	mu sync.Mutex
	// granted has the time of each waiver, by pod.
	granted map[types.UID]time.Time
}

func newWaivers(plugin string, handle minor.Handle, c clock.PassiveClock) *waivers {
	return &waivers{plugin: plugin, key: waiverKey(plugin), handle: handle, clock: c, granted: map[types.UID]time.Time{}}
}

// waiverState says whether a plugin's limit is waived in the cycle.
type waiverState struct{ waived bool }

func (s waiverState) Clone() fwk.StateData { return s }

func waiverKey(plugin string) fwk.StateKey { return fwk.StateKey(plugin + "/waived") }

// hasAttempt reports whether the named plugin has a limit, and an attempt of it was begun in the cycle.
func hasAttempt(state fwk.CycleState, plugin string) bool {
	_, err := state.Read(waiverKey(plugin))
	return err == nil
}

// begin takes the waiver for the pod, if there is one, into the state of its attempt.
func (w *waivers) begin(state fwk.CycleState, pod types.UID) (waived bool) {
	w.mu.Lock()
	_, waived = w.granted[pod]
	delete(w.granted, pod)
	w.mu.Unlock()
	state.Write(w.key, waiverState{waived})
	return waived
}

func (w *waivers) waive(state fwk.CycleState) { state.Write(w.key, waiverState{true}) }

func (w *waivers) waived(state fwk.CycleState) bool {
	data, err := state.Read(w.key)
	return err == nil && data.(waiverState).waived
}

// grant waives the limit for the pod's next attempt.
func (w *waivers) grant(pod types.UID) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, at := range w.granted {
		if now.Sub(at) > waiverTTL {
			delete(w.granted, uid)
		}
	}
	w.granted[pod] = now
}

// insufficient holds the limits whose waiver alone did not help the pod. It is shared by clones, and immutable.
type insufficient struct{ limits []*waivers }

func (s insufficient) Clone() fwk.StateData { return s }

const insufficientKey fwk.StateKey = "softlimit/insufficient"

// waiveNext waives the sufficient limits for the pod's next attempt, and requeues the pod at once. It returns whether any
// limit was waived.
func (w *waivers) waiveNext(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses minor.NodeToStatusReader,
) bool {
	limits := w.sufficient(ctx, state, pod, nodes, statuses)
	if limits == nil {
		return false
	}
	logger := klog.FromContext(ctx)
	for _, limit := range limits {
		limit.grant(pod.UID)
		logger.V(4).
			Info("No node is left below the limit: it is waived for the pod's next attempt", "plugin", limit.plugin, "pod", klog.KObj(pod))
	}
	w.handle.Activate(logger, map[string]*corev1.Pod{keyOf(pod): pod})
	return true
}

// sufficient returns the limits to waive so that a node becomes feasible. These are this limit, or else all limits whose PostFilter
// was called in the cycle. It returns nil if waiving does not help.
func (w *waivers) sufficient(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses minor.NodeToStatusReader,
) []*waivers {
	// Where PreFilter is not enabled no attempt would find a waiver: the pod would be refused and waived forever.
	if !hasAttempt(state, w.plugin) {
		return nil
	}
	var others []*waivers
	if data, err := state.Read(insufficientKey); err == nil {
		others = data.(insufficient).limits
	}
	without := state.Clone()
	for _, other := range others {
		without.Write(other.key, waiverState{false}) // it may have been waived for preemption
	}
	alone, all := []*waivers{w}, append(slices.Clone(others), w)
	if w.suffices(ctx, without, pod, nodes, statuses, alone) {
		return alone
	}
	if len(others) > 0 && w.suffices(ctx, without, pod, nodes, statuses, all) {
		return all
	}
	state.Write(insufficientKey, insufficient{all})
	return nil
}

// suffices waives the limits in the state. It reports whether the pod then has a feasible node among the given ones.
func (w *waivers) suffices(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses minor.NodeToStatusReader,
	limits []*waivers,
) bool {
	for _, limit := range limits {
		limit.waive(state)
	}
	return slices.ContainsFunc(nodes, func(node fwk.NodeInfo) bool {
		by := statuses.Get(node.Node().Name).Plugin()
		return slices.ContainsFunc(limits, func(limit *waivers) bool { return limit.plugin == by }) &&
			w.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
	})
}
