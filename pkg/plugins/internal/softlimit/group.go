package softlimit

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// groupAttempt is an attempt to place a pod group, as the limit of one plugin saw it. PodGroupPostFilter plugins repeat the
// attempt, for example without the pods that they would evict. It is safe for concurrent use.
type groupAttempt struct {
	// order numbers the pods of repetitions; nil before PodGroupPostFilter. Only repetitions have the attempt's own pod objects.
	order map[*corev1.Pod]int
	// waived says whether the limit is waived in repetitions.
	waived bool

	mu sync.Mutex
	// refusals holds, by node, the first pod for which the limit ruled the node out.
	refusals map[string]refusal
	// pods are those for which the limit ruled out nodes.
	pods map[*corev1.Pod]bool
	// last is the pod that was ruled out last, in the cycle lastState.
	last      *corev1.Pod
	lastState fwk.CycleState
}

type refusal struct {
	pod    *corev1.Pod
	reason string
}

// Clone implements fwk.StateData. Clones share the attempt.
func (a *groupAttempt) Clone() fwk.StateData { return a }

// judge returns why the limit rules the node out for the pod; empty if it does not. In repetitions, a node stays ruled out for the
// pods that follow the one for which it was: without the pods to evict, it may seem to have room.
func (a *groupAttempt) judge(state fwk.CycleState, pod *corev1.Pod, node, reason string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, known := a.refusals[node]
	if reason == "" && known && a.order != nil && a.order[first.pod] <= a.order[pod] {
		reason = first.reason
	}
	if reason == "" {
		return ""
	}
	a.last, a.lastState, a.pods[pod] = pod, state, true
	if !known {
		a.refusals[node] = refusal{pod, reason}
	}
	return reason
}

// lastRefused returns the pod that was ruled out last and its cycle; nil if the limit ruled out nothing.
func (a *groupAttempt) lastRefused() (*corev1.Pod, fwk.CycleState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last, a.lastState
}

// refused reports whether the limit ruled out any node.
func (a *groupAttempt) refused() bool {
	last, _ := a.lastRefused()
	return last != nil
}

func (a *groupAttempt) nodes() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.refusals {
		names = append(names, name)
	}
	return names
}

// beginInGroup is Begin for a pod that is placed together with its group.
func (g *Gate) beginInGroup(state fwk.CycleState, pod *corev1.Pod) (waived bool) {
	g.mu.Lock()
	repeated := g.repeated
	g.mu.Unlock()
	if repeated != nil {
		if _, ok := repeated.order[pod]; ok {
			state.Write(g.key, waiverState{repeated.waived, repeated})
			return repeated.waived
		}
	}
	waived = g.take(pod.UID)
	cycle := minor.PodGroupCycle(state)
	data, err := cycle.Read(g.key)
	if err != nil {
		data = &groupAttempt{refusals: map[string]refusal{}, pods: map[*corev1.Pod]bool{}}
		cycle.Write(g.key, data)
	}
	state.Write(g.key, waiverState{waived, data.(*groupAttempt)})
	return waived
}

// PodGroupPostFilter is PostFilter for a pod group. It has to run before DefaultPreemption, which removes all pods of lower
// priority, repeats the attempt, and keeps only the victims that pods of the group need. Where waiving helps, it succeeds.
// Otherwise, a relaxed limit is waived for preemption, and a strict one rules out the nodes that it ruled out with the victims.
func (g *Gate) PodGroupPostFilter(
	ctx context.Context, state minor.PodGroupCycleState, group minor.PodGroupInfo, schedule minor.PodGroupSchedulingFunc,
) (*minor.PodGroupPostFilterResult, *fwk.Status) {
	unschedulable := fwk.NewStatus(fwk.Unschedulable)
	data, err := state.Read(g.key)
	if err != nil {
		return nil, unschedulable // PreFilter is not enabled, or no pod was tried
	}
	attempt, pods := data.(*groupAttempt), minor.UnscheduledPods(group)
	attempt.order = map[*corev1.Pod]int{}
	for i, pod := range pods {
		attempt.order[pod] = i
	}
	if !g.relaxes() {
		g.repeat(attempt, false)
		g.requeuer.waitForGroup(pods, attempt)
		return nil, unschedulable
	}
	limits := g.sufficientForGroup(ctx, state, attempt, schedule)
	g.repeat(attempt, true)
	if limits == nil {
		return nil, unschedulable
	}
	logger := klog.FromContext(ctx)
	for _, limit := range limits {
		for _, pod := range pods {
			limit.grant(pod.UID)
		}
		logger.V(4).Info("No node is left below the limit: it is waived for the next attempt of the group", "plugin", limit.limit.Plugin)
	}
	g.requeuer.setGroup(pods[0], waitingPod{pod: pods[0]}, true)
	return &minor.PodGroupPostFilterResult{}, fwk.NewStatus(fwk.Success, g.limit.Plugin+" waives its limit for the next attempt")
}

// repeat prepares the Gate for repetitions of the attempt.
func (g *Gate) repeat(attempt *groupAttempt, waived bool) {
	attempt.waived = waived
	g.mu.Lock()
	defer g.mu.Unlock()
	g.repeated = attempt
}

// sufficientForGroup is sufficient for a pod group.
func (g *Gate) sufficientForGroup(
	ctx context.Context, state minor.PodGroupCycleState, attempt *groupAttempt, schedule minor.PodGroupSchedulingFunc,
) []*Gate {
	var others []*Gate
	if data, err := state.Read(insufficientKey); err == nil {
		others = data.(insufficient).limits
	}
	alone, all := []*Gate{g}, append(slices.Clone(others), g)
	state.Write(insufficientKey, insufficient{all})
	fitsWaived := func(waived bool) bool {
		for _, other := range others {
			other.repeat(other.repeated, waived)
		}
		g.repeat(attempt, true)
		_, status := schedule(ctx)
		return status.IsSuccess()
	}
	if attempt.refused() && fitsWaived(false) {
		return alone
	}
	refused := func(limit *Gate) bool { return limit.repeated.refused() }
	if len(others) > 0 && (attempt.refused() || slices.ContainsFunc(others, refused)) && fitsWaived(true) {
		return all
	}
	return nil
}

// AddPod waives the limit where preemption puts back a pod of a repeated attempt's victims: no limit causes an eviction.
func (g *Gate) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if minor.PodGroupCycle(state) != nil {
		if attempt := g.groupAttempt(state); attempt != nil && attempt.order != nil {
			state.Write(g.key, waiverState{true, attempt})
		}
	}
	return nil
}

// RemovePod does nothing: Filter reads the NodeInfo.
func (g *Gate) RemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// groupAttempt returns the attempt of the group that the cycle's pod is placed with; nil before Begin.
func (g *Gate) groupAttempt(state fwk.CycleState) *groupAttempt {
	data, err := state.Read(g.key)
	if err != nil {
		return nil
	}
	return data.(waiverState).group
}
