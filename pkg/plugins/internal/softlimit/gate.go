// Package softlimit is what plugins that filter by a soft limit have in common. A soft limit rules nodes out because of
// something that is measured. Where it leaves a pod no node, the limit is waived for that pod before anybody is preempted, or
// the pod waits and is tried again as soon as a new measurement may let it in.
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
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

const (
	// forgetAfter is how long a waiver is kept for a pod that does not come back, because it was deleted say.
	forgetAfter = 10 * time.Minute
	// lookAgainAfter is how long nothing may be published before the waiting pods are looked at all the same: what was
	// measured may have become too old to rule a node out.
	lookAgainAfter = time.Minute
)

// Limit is the soft limit of one plugin. Its functions may be called from many goroutines at once.
type Limit struct {
	// Plugin is the plugin's name.
	Plugin string
	// WhenNoneFits says what becomes of a pod that the limit leaves no node for.
	WhenNoneFits config.WhenNoneFits
	// Refuses tells whether the limit rules the node out in the decision, whether or not it is waived.
	Refuses func(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool
	// MayTake tells of the pod which nodes the limit may let it have, by what is measured now: pods that the measurement
	// has not seen yet are left out.
	MayTake func(pod *corev1.Pod) func(node *corev1.Node) bool
}

// Gate relaxes the limit of one plugin, and wakes the pods that wait for it. It is safe for concurrent use.
type Gate struct {
	limit     Limit
	key       fwk.StateKey
	handle    fwk.Handle
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	relax     bool
	snapshots *estimate.Snapshots
	clock     clock.Clock
	// outrun is signalled when a pod begins to wait whose decision was made on a snapshot that is no longer the latest.
	outrun chan struct{}

	mu sync.Mutex
	// waived holds the pods for whose next attempt the limit does not hold, and since when.
	waived map[types.UID]time.Time
	// waiting holds the pods that the limit keeps from some node.
	waiting map[types.UID]waiting
	// lastNodes are the nodes of the pod that began to wait last. Pods that wait for the same ones share them.
	lastNodes []string
}

// waiting is a pod and the nodes that it waits for, by name.
type waiting struct {
	pod   *corev1.Pod
	nodes []string
}

// NewGate returns the gate of the limit on what the snapshots show, and starts waking pods until ctx is done.
func NewGate(ctx context.Context, limit Limit, handle fwk.Handle, snapshots *estimate.Snapshots, c clock.Clock) *Gate {
	g := &Gate{
		limit:     limit,
		key:       waiverKey(limit.Plugin),
		handle:    handle,
		pods:      handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		nodes:     handle.SharedInformerFactory().Core().V1().Nodes().Lister(),
		relax:     limit.WhenNoneFits == config.WhenNoneFitsRelax,
		snapshots: snapshots,
		clock:     c,
		outrun:    make(chan struct{}, 1),
		waived:    map[types.UID]time.Time{},
		waiting:   map[types.UID]waiting{},
	}
	go g.run(ctx)
	return g
}

// waiver is the CycleState's note whether the limit is waived for the decision.
type waiver struct{ waived bool }

func waiverKey(plugin string) fwk.StateKey { return fwk.StateKey(plugin + "/waived") }

// Clone implements fwk.StateData.
func (w waiver) Clone() fwk.StateData { return w }

// relaxing is the CycleState's note of the gates whose PostFilter found that waiving their limits is not enough. It is
// shared by clones, and not changed once it is made.
type relaxing struct{ gates []*Gate }

// Clone implements fwk.StateData.
func (r relaxing) Clone() fwk.StateData { return r }

const relaxingKey fwk.StateKey = "softlimit/relaxing"

// Begin is to be called at PreFilter. It tells whether the limit is waived for this attempt of the pod, and notes it in the
// state. A waiver holds for one attempt.
//
// Pods are signed when they are queued and when they are updated, mostly before there is a waiver, so that the signature of a
// pod cannot tell one. It need not: of what was found for another pod of the same signature, the scheduler takes no more than
// a node to try first, and holds it against the filters of the attempt itself. A node that a waiver let in is refused there
// to a pod that has none, and the other way round the node is one that the limit lets in.
func (g *Gate) Begin(state fwk.CycleState, pod *corev1.Pod) (waived bool) {
	g.mu.Lock()
	_, waived = g.waived[pod.UID]
	delete(g.waived, pod.UID)
	delete(g.waiting, pod.UID)
	g.mu.Unlock()
	state.Write(g.key, waiver{waived})
	return waived
}

// Waived tells whether the limit is waived for the decision.
func (g *Gate) Waived(state fwk.CycleState) bool {
	data, err := state.Read(g.key)
	return err == nil && data.(waiver).waived
}

// Begun tells whether Begin was called in the decision.
func (g *Gate) Begun(state fwk.CycleState) bool { return begun(state, g.limit.Plugin) }

// Refuse is the status of a node that the limit rules out. Evicting pods makes no room below a limit that is not relaxed:
// such a node is none for preemption.
func (g *Gate) Refuse(reason string) *fwk.Status {
	if g.relax {
		return fwk.NewStatus(fwk.Unschedulable, reason)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// PostFilter implements the extension point, which has to stand before DefaultPreemption. If some node was ruled out by the
// limit alone and limits are relaxed, it waives the limit for the pod's next attempt, which is made at once, and succeeds,
// so that nobody is preempted. Where the limits of several plugins keep the pod out together, the last of them waives all.
//
// Otherwise the plugins that follow have their turn. For them a limit that is relaxed holds if preemption can serve the pod on
// a node below it. If it cannot, the limit does not hold: what is measured still shows the pods that preemption would evict,
// so that the limit would keep a pod out that has the right to their place. A limit that is not relaxed keeps holding.
//
// The pod is woken when a limit that holds may let it have a node that it keeps it from.
func (g *Gate) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	refused := fwk.NewStatus(fwk.Unschedulable)
	if state.GetSkipFilterPlugins().Has(g.limit.Plugin) {
		return nil, refused // by others
	}
	if g.relax {
		// All that may be had by preemption, or by a waiver.
		nodes, err := statuses.NodesForStatusCode(g.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		if gates := g.enough(ctx, state, pod, nodes, statuses); gates != nil {
			return nil, g.waive(ctx, pod, gates)
		}
		mayTake := g.limit.MayTake(pod)
		below := slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return !mayTake(node.Node()) })
		if !g.preemptionServes(ctx, state, pod, below) {
			state.Write(g.key, waiver{true})
			return nil, refused
		}
	}
	if err := g.wait(ctx, state, pod, statuses); err != nil {
		return nil, fwk.AsStatus(err)
	}
	return nil, refused
}

// enough returns the gates whose limits, waived, leave the pod some of the nodes: this one, or else all whose PostFilter was
// called. It returns nil if waiving is not enough.
func (g *Gate) enough(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses fwk.NodeToStatusReader) []*Gate {
	// Where PreFilter is not enabled no attempt would find a waiver: the pod would be refused and waived for ever.
	if !g.Begun(state) {
		return nil
	}
	ruledOutBy := func(gates []*Gate) (limited []fwk.NodeInfo) {
		for _, node := range nodes {
			by := statuses.Get(node.Node().Name).Plugin()
			if slices.ContainsFunc(gates, func(g *Gate) bool { return g.limit.Plugin == by }) {
				limited = append(limited, node)
			}
		}
		return limited
	}
	var others []*Gate
	if data, err := state.Read(relaxingKey); err == nil {
		others = data.(relaxing).gates
	}
	without, alone := state.Clone(), []*Gate{g}
	without.Write(g.key, waiver{true})
	for _, other := range others {
		without.Write(other.key, waiver{false}) // which preemption may have been given
	}
	if g.anyPasses(ctx, without, pod, ruledOutBy(alone)) {
		return alone
	}
	all := append(slices.Clone(others), g)
	for _, gate := range all {
		without.Write(gate.key, waiver{true})
	}
	if len(others) > 0 && g.anyPasses(ctx, without, pod, ruledOutBy(all)) {
		return all
	}
	state.Write(relaxingKey, relaxing{all})
	return nil
}

// begun tells whether the named plugin has a gate that was begun in the decision.
func begun(state fwk.CycleState, plugin string) bool {
	_, err := state.Read(waiverKey(plugin))
	return err == nil
}

func (g *Gate) anyPasses(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	return slices.ContainsFunc(nodes, func(node fwk.NodeInfo) bool {
		return g.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
	})
}

// preemptionServes tells whether the pod can have one of the nodes by preemption.
func (g *Gate) preemptionServes(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serves atomic.Bool
	g.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		if mayEvict(pod, nodes[i]) && g.passesAlone(ctx, state.Clone(), pod, nodes[i].Snapshot()) {
			serves.Store(true)
			cancel()
		}
	}, g.limit.Plugin)
	return serves.Load()
}

// passesAlone tells whether the pod can have the node without all that it may evict there, which is how DefaultPreemption
// finds its candidates. It changes the state and the node.
func (g *Gate) passesAlone(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
	logger := klog.FromContext(ctx)
	for _, other := range slices.Clone(node.GetPods()) {
		if !outranks(pod, other.GetPod()) {
			continue
		}
		if node.RemovePod(logger, other.GetPod()) != nil || !g.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, other, node).IsSuccess() {
			return false
		}
	}
	return g.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
}

// mayEvict tells whether there are pods on the node that may be evicted for the pod.
func mayEvict(pod *corev1.Pod, node fwk.NodeInfo) bool {
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return false
	}
	return slices.ContainsFunc(node.GetPods(), func(other fwk.PodInfo) bool { return outranks(pod, other.GetPod()) })
}

func outranks(pod, other *corev1.Pod) bool {
	return schedulingcorev1.PodPriority(other) < schedulingcorev1.PodPriority(pod)
}

// waive waives the limits of the gates for the pod's next attempt, and has it made at once.
func (g *Gate) waive(ctx context.Context, pod *corev1.Pod, gates []*Gate) *fwk.Status {
	logger := klog.FromContext(ctx)
	for _, gate := range gates {
		gate.waiveNext(pod)
		logger.V(4).Info("No node is left below the limit: it is waived for the pod's next attempt", "plugin", gate.limit.Plugin, "pod", klog.KObj(pod))
	}
	g.handle.Activate(logger, map[string]*corev1.Pod{keyOf(pod): pod})
	return fwk.NewStatus(fwk.Success)
}

func (g *Gate) waiveNext(pod *corev1.Pod) {
	now := g.clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, since := range g.waived {
		if now.Sub(since) > forgetAfter {
			delete(g.waived, uid)
		}
	}
	g.waived[pod.UID] = now
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// wait has the pod woken when the limit may let it have one of the nodes that it keeps it from: nodes that nothing but limits
// rule out, and those that the pod could only have by preemption, which the limit prevents there. Other nodes are left to the
// plugins that rule them out, and to what they wait for.
func (g *Gate) wait(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) error {
	nodes, err := g.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	limits, names := map[string]bool{g.limit.Plugin: true}, []string(nil)
	for _, node := range nodes {
		status := statuses.Get(node.Node().Name)
		limited, known := limits[status.Plugin()]
		if !known {
			limited = begun(state, status.Plugin())
			limits[status.Plugin()] = limited
		}
		toBeHad := limited || status.Code() == fwk.Unschedulable && mayEvict(pod, node)
		if toBeHad && g.limit.Refuses(ctx, state, pod, node) {
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
	g.waiting[pod.UID] = waiting{pod, names}
	g.mu.Unlock()
	if g.snapshots.Outdated(state) {
		select {
		case g.outrun <- struct{}{}:
		default:
		}
	}
	return nil
}

// run wakes waiting pods after each refresh that may let them in. A pod that is then refused again, for load that no
// measurement shows yet, waits for the next refresh: it is tried once a refresh at most.
func (g *Gate) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for {
		published := g.snapshots.Publisher().Published()
		g.wake(logger)
		silence := g.clock.NewTimer(lookAgainAfter)
		select {
		case <-ctx.Done():
			silence.Stop()
			return
		case <-published:
		case <-g.outrun:
		case <-silence.C():
		}
		silence.Stop()
	}
}

// mayFit tells whether the limit may let the pod in on one of the nodes, by name, and the pod may go there at all. Of what else
// keeps a pod from a node, it knows what nodes and pods say themselves; where that is in doubt, trying tells.
func (g *Gate) mayFit(logger klog.Logger, pod *corev1.Pod, nodes []string) bool {
	mayTake, required := g.limit.MayTake(pod), nodeaffinity.GetRequiredNodeAffinity(pod)
	return slices.ContainsFunc(nodes, func(name string) bool {
		node, err := g.nodes.Get(name)
		if err != nil || !mayTake(node) || !tolerates(logger, pod, node) {
			return false
		}
		matches, err := required.Match(node)
		return err != nil || matches
	})
}

// tolerates tells whether the pod may be placed on the node as to the node's taints. An unschedulable node has one of its own.
func tolerates(logger klog.Logger, pod *corev1.Pod, node *corev1.Node) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	keepsOut := func(taint *corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	}
	const comparisonOperators = true // which the cluster may or may not have enabled
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(logger, taints, pod.Spec.Tolerations, keepsOut, comparisonOperators)
	return !untolerated
}

func (g *Gate) wake(logger klog.Logger) {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.waiting))
	g.mu.Unlock()

	woken := map[string]*corev1.Pod{}
	var done []types.UID
	for _, w := range all {
		pod := w.pod
		now, err := g.pods.Pods(pod.Namespace).Get(pod.Name)
		switch {
		case err != nil || now.UID != pod.UID || now.Spec.NodeName != "":
			done = append(done, pod.UID) // deleted, or placed meanwhile
		case g.mayFit(logger, now, w.nodes):
			done = append(done, pod.UID)
			woken[keyOf(now)] = now
		}
	}
	if len(done) == 0 {
		return
	}
	g.mu.Lock()
	for _, uid := range done {
		delete(g.waiting, uid)
	}
	g.mu.Unlock()
	if len(woken) == 0 {
		return
	}
	logger.V(4).Info("Nodes may be back below the limit: trying the pods that waited for it", "plugin", g.limit.Plugin, "pods", len(woken))
	// Pods that were placed or deleted meanwhile are no longer in the queue, and stay out of it.
	g.handle.Activate(logger, woken)
}
