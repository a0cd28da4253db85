// Package softlimit filters nodes by a soft limit on a measurement. If no node is left for a pod, the limit is waived before
// other pods are preempted. Otherwise, the pod waits and is retried after a new measurement that may let it in.
package softlimit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Limit is the soft limit of one plugin. Its functions may be called from many goroutines at once.
type Limit struct {
	Plugin string
	// WhenNoneFits says what happens to a pod for which the limit leaves no node.
	WhenNoneFits config.WhenNoneFits
	// Refuses reports whether the limit rules the node out in the scheduling cycle, whether or not it is waived.
	Refuses func(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool
	// HasRoom returns whether the limit admits the pod to a node by present measurements. Pods that are not measured yet do not
	// count.
	HasRoom func(pod *corev1.Pod) func(node *corev1.Node) bool
}

// Gate relaxes the limit of one plugin, or requeues the pods that wait for it when a measurement may let them in. It is safe for
// concurrent use.
type Gate struct {
	limit     Limit
	handle    minor.Handle
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	snapshots *estimate.Snapshots
	clock     clock.Clock
	// key is that of the waiver in CycleState.
	key fwk.StateKey
	// outdated is signaled when a pod starts to wait because of an outdated snapshot, and when a group is to be retried at once.
	outdated chan struct{}

	mu sync.Mutex
	// granted has the time of each waiver for a pod's next attempt.
	granted map[types.UID]time.Time
	// repeated is the attempt that PodGroupPostFilter plugins repeat, until the next group is tried.
	repeated *groupAttempt
	waiting  map[types.UID]waitingPod
	// lastNodes are the nodes of the pod that began to wait last. Pods that wait for the same nodes share them.
	lastNodes []string
	// checked is the snapshot by which all waiting pods were checked, at the time checkedAt; nil if a pod is not checked yet.
	checked   *load.Snapshot
	checkedAt time.Time
}

// NewGate returns the gate of the limit on what the snapshots show, and requeues pods until ctx is done.
func NewGate(ctx context.Context, limit Limit, handle minor.Handle, snapshots *estimate.Snapshots, c clock.Clock) *Gate {
	informers := handle.SharedInformerFactory().Core().V1()
	g := &Gate{
		limit: limit, handle: handle, pods: informers.Pods().Lister(), nodes: informers.Nodes().Lister(), snapshots: snapshots, clock: c,
		key: waiverKey(limit.Plugin), outdated: make(chan struct{}, 1), granted: map[types.UID]time.Time{}, repeated: &groupAttempt{},
		waiting: map[types.UID]waitingPod{},
	}
	go g.run(ctx, klog.FromContext(ctx)) // klog's own logger may be replaced later
	return g
}

func (g *Gate) relaxes() bool { return g.limit.WhenNoneFits == config.WhenNoneFitsRelax }

// Filter is the status of a node that the limit rules out for a reason, or does not if the reason is empty. With a strict limit,
// preemption does not help: measurements fall too late after an eviction.
func (g *Gate) Filter(state fwk.CycleState, node fwk.NodeInfo, reason string) *fwk.Status {
	if reason == "" && !minor.IsPodGroupCycle(state) {
		return nil
	}
	s := g.waiver(state)
	if s.group != nil && !s.waived {
		reason = s.group.judge(s.pod, node.Node().Name, reason)
	}
	if reason == "" || s.waived {
		return nil
	}
	if g.relaxes() {
		return fwk.NewStatus(fwk.Unschedulable, reason)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// PostFilter implements the extension point. It has to run before DefaultPreemption: where waiving helps, it succeeds, so that no
// pod is preempted. Otherwise a relaxed limit holds for the next plugins only if preemption can give the pod a node below it:
// measurements still contain the pods that preemption would evict. Where the limit holds, the pod waits until a node has room.
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
		if g.waiveNext(ctx, state, pod, nodes, statuses) {
			return nil, fwk.NewStatus(fwk.Success)
		}
		if !g.preemptionHelps(ctx, state, pod, nodes) {
			g.waive(state)
			return nil, unschedulable
		}
	}
	if err := g.wait(ctx, state, pod, statuses); err != nil {
		return nil, fwk.AsStatus(err)
	}
	return nil, unschedulable
}

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

// waiverTTL is the lifetime of an unused waiver, for example of a deleted pod.
const waiverTTL = 10 * time.Minute

// waiverState says whether a plugin's limit is waived in the cycle.
type waiverState struct {
	waived bool
	// group is the attempt that the cycle is part of, and pod the pod of it; nil for a pod without a group.
	group *groupAttempt
	pod   *groupPod
}

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
	if cycle := minor.PodGroupCycle(state); cycle != nil {
		return g.beginInGroup(cycle, state, pod)
	}
	waived = g.take(pod.UID)
	state.Write(g.key, waiverState{waived: waived})
	return waived
}

// take ends the pod's wait. It reports whether the limit was waived for the attempt that begins.
func (g *Gate) take(pod types.UID) (waived bool) {
	g.forget(pod)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, waived = g.granted[pod]
	delete(g.granted, pod)
	return waived
}

func (g *Gate) waive(state fwk.CycleState) { state.Write(g.key, waiverState{waived: true}) }

// Waived reports whether the limit is waived in the scheduling cycle.
func (g *Gate) Waived(state fwk.CycleState) bool { return g.waiver(state).waived }

// waiver is zero before Begin.
func (g *Gate) waiver(state fwk.CycleState) waiverState {
	if data, err := state.Read(g.key); err == nil {
		return data.(waiverState)
	}
	return waiverState{}
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
		without.Write(other.key, waiverState{}) // it may have been waived for preemption
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

// A group may not be back in the queue when it is to be retried. Each groupRetryInterval the queue is told again, for
// groupRetryTime.
const (
	groupRetryInterval = 100 * time.Millisecond
	groupRetryTime     = 10 * time.Second
)

// requeueInterval is the longest time between two checks of the waiting pods. Without new measurements, the limit ends as old ones
// expire.
const requeueInterval = time.Minute

// waitingPod is a pod and the names of the nodes that the limit rules out for it.
type waitingPod struct {
	pod   *corev1.Pod
	nodes []string
	// group has the nodes of a pod that stands for its group; nil for other pods. The group is retried until its next attempt begins.
	group *groupAttempt
	// retryUntil is the end of the time in which the group is retried without waiting for a measurement.
	retryUntil time.Time
	// others is the number of pods of the group that the scheduler does not count as waiting for the limit.
	others int
}

func (g *Gate) forget(pods ...types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pod := range pods {
		g.count(g.waiting[pod], -1)
		delete(g.waiting, pod)
	}
}

// set lets a pod wait. Call it under the lock.
func (g *Gate) set(pod types.UID, w waitingPod) {
	g.count(g.waiting[pod], -1)
	g.count(w, 1)
	g.waiting[pod] = w
}

// count adds a pod's group to scheduler_unschedulable_pods, or removes it. The scheduler itself counts only those pods of a group
// for which a plugin rejected nodes: most are not tried after the first that does not fit.
func (g *Gate) count(w waitingPod, times float64) {
	if w.others > 0 {
		metrics.UnschedulableReason(g.limit.Plugin, w.pod.Spec.SchedulerName).Add(times * float64(w.others))
	}
}

// wait lets the pod wait for nodes that only limits rule out, and for nodes where the limit prevents preemption.
// Other nodes are left to the plugins that rule them out, and to the events of those plugins.
func (g *Gate) wait(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses minor.NodeToStatusReader) error {
	nodes, err := g.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	isLimit, names := map[string]bool{g.limit.Plugin: true}, []string(nil)
	for _, node := range nodes {
		status := statuses.Get(node.Node().Name)
		limited, known := isLimit[status.Plugin()]
		if !known {
			limited = hasAttempt(state, status.Plugin())
			isLimit[status.Plugin()] = limited
		}
		limited = limited || status.Code() == fwk.Unschedulable && canEvict(pod, node)
		if limited && g.limit.Refuses(ctx, state, pod, node) {
			names = append(names, node.Node().Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	g.mu.Lock()
	if slices.Equal(names, g.lastNodes) {
		names = g.lastNodes
	}
	g.lastNodes = names
	g.set(pod.UID, waitingPod{pod: pod, nodes: names})
	if g.snapshots.Outdated(state) {
		g.checked = nil
		defer g.wake()
	}
	g.mu.Unlock()
	return nil
}

func (g *Gate) wake() {
	select {
	case g.outdated <- struct{}{}:
	default:
	}
}

// setGroup lets the group wait, or retries it at once. The group is known by its first pod.
func (g *Gate) setGroup(first *corev1.Pod, w waitingPod, retry bool) {
	if retry {
		w.retryUntil = g.clock.Now().Add(groupRetryTime)
		defer g.wake()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set(first.UID, w)
}

// run requeues waiting pods after each refresh that may let them in. A pod is retried at most once a refresh.
func (g *Gate) run(ctx context.Context, logger klog.Logger) {
	for {
		published := g.snapshots.Publisher().Published()
		timer := g.clock.NewTimer(g.requeue(logger))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-published:
		case <-g.outdated:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// requeue requeues the pods for which one of their nodes has room now. It returns the longest time until the next call. Calls that
// only retry groups do not check the other pods.
func (g *Gate) requeue(logger klog.Logger) time.Duration {
	now := g.clock.Now()
	g.mu.Lock()
	waiting, latest := maps.Clone(g.waiting), g.snapshots.Publisher().Latest()
	check := latest != g.checked || now.Sub(g.checkedAt) >= requeueInterval
	if check {
		g.checked, g.checkedAt = latest, now
	}
	requeued, next := map[string]*corev1.Pod{}, requeueInterval-now.Sub(g.checkedAt)
	g.mu.Unlock()

	var done []types.UID
	for uid, w := range waiting {
		pod, err := g.pods.Pods(w.pod.Namespace).Get(w.pod.Name)
		switch {
		case err != nil || pod.UID != w.pod.UID || pod.Spec.NodeName != "": // it was deleted or placed in the meantime
			done = append(done, uid)
		case now.Before(w.retryUntil):
			requeued[keyOf(pod)], next = pod, groupRetryInterval
		case !check:
		case w.group != nil:
			if g.anyHasRoom(pod, w.group.nodes()) {
				requeued[keyOf(pod)] = pod
			}
		case g.anyHasRoom(pod, w.nodes):
			done = append(done, uid)
			requeued[keyOf(pod)] = pod
		}
	}
	g.forget(done...)
	if len(requeued) == 0 {
		return next
	}
	logger.V(4).Info("Nodes may be back below the limit: trying the pods that waited for it",
		"plugin", g.limit.Plugin, "pods", len(requeued))
	// Pods that were placed or deleted in the meantime are no longer in the queue, and stay out of it.
	g.handle.Activate(logger, requeued)
	return next
}

func (g *Gate) anyHasRoom(pod *corev1.Pod, nodes []string) bool {
	hasRoom := g.limit.HasRoom(pod)
	return slices.ContainsFunc(nodes, func(name string) bool {
		node, err := g.nodes.Get(name)
		return err == nil && hasRoom(node)
	})
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
