package softlimit

import (
	"context"
	"maps"
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
	// repeated is set in repetitions, and placedAgain after the first placement.
	repeated, placedAgain bool
	// pods are those of the group. Only repetitions have the attempt's own pod objects.
	pods map[*corev1.Pod]*groupPod
	// last is the pod that ended the first placement, in the cycle lastState. PodGroupPostFilter clears lastState: a cycle keeps its
	// snapshot of the load.
	last      *corev1.Pod
	lastState fwk.CycleState

	mu sync.Mutex
	// refusals holds, by node, the first pod for which the limit ruled the node out.
	refusals map[string]refusal
}

type groupPod struct {
	order int
	// waived says whether the limit is waived, in all placements.
	waived bool
	// refused and passed say whether the limit ruled out any node in the first placement, and let any pass.
	refused, passed bool
}

type refusal struct {
	order  int
	reason string
}

func (a *groupAttempt) Clone() fwk.StateData { return a }

// add returns the pod, and whether it was there before.
func (a *groupAttempt) add(pod *corev1.Pod) (p *groupPod, known bool) {
	if p, known = a.pods[pod]; !known {
		p = &groupPod{order: len(a.pods)}
		a.pods[pod] = p
	}
	return p, known
}

// judge returns why the limit rules the node out for the pod; empty if it does not. In repetitions, a node stays ruled out for the
// pods that follow the one for which it was: without the pods to evict, it may seem to have room.
func (a *groupAttempt) judge(pod *groupPod, node, reason string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, known := a.refusals[node]
	if reason == "" && known && a.repeated && first.order <= pod.order {
		reason = first.reason
	}
	if reason != "" && !known {
		a.refusals[node] = refusal{pod.order, reason}
	}
	if !a.placedAgain {
		pod.refused, pod.passed = pod.refused || reason != "", pod.passed || reason == ""
	}
	return reason
}

func (a *groupAttempt) nodes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.refusals))
}

// others is the number of pods that the scheduler does not count as waiting for the limit. The scheduler counts the pods that the
// limit left without a node in the first placement.
func (a *groupAttempt) others() (n int) {
	for pod, p := range a.pods {
		if !p.refused || p.passed && pod != a.last {
			n++
		}
	}
	return n
}

// beginInGroup is Begin for a pod that is placed together with its group.
func (g *Gate) beginInGroup(cycle minor.PodGroupCycleState, state fwk.CycleState, pod *corev1.Pod) (waived bool) {
	g.mu.Lock()
	attempt := g.repeated
	p, repeated := attempt.pods[pod]
	if !repeated {
		g.repeated = &groupAttempt{} // it was of another group
	}
	g.mu.Unlock()
	if !repeated {
		data, err := cycle.Read(g.key)
		if err != nil {
			data = &groupAttempt{refusals: map[string]refusal{}, pods: map[*corev1.Pod]*groupPod{}}
			cycle.Write(g.key, data)
		}
		attempt = data.(*groupAttempt)
		var known bool
		if p, known = attempt.add(pod); !known {
			p.waived = g.take(pod.UID)
		}
		if attempt.placedAgain = attempt.placedAgain || known; !attempt.placedAgain {
			attempt.last, attempt.lastState = pod, state
		}
	}
	state.Write(g.key, waiverState{p.waived, attempt, p})
	return p.waived
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
	for _, pod := range pods {
		attempt.add(pod)
	}
	outdated := attempt.lastState != nil && g.snapshots.Outdated(attempt.lastState)
	attempt.lastState = nil
	if !g.relaxes() {
		g.repeat(attempt, false)
		if len(attempt.refusals) > 0 { // it waits for these nodes, and those of repetitions
			w := waitingPod{pod: attempt.last, group: attempt, others: attempt.others()}
			g.setGroup(pods[0], w, outdated)
		}
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
		logger.V(4).Info("No node is left below the limit: it is waived for the next attempt of the pod's group",
			"plugin", limit.limit.Plugin, "pod", klog.KObj(pods[0]))
	}
	g.setGroup(pods[0], waitingPod{pod: pods[0]}, true)
	return &minor.PodGroupPostFilterResult{}, fwk.NewStatus(fwk.Success, g.limit.Plugin+" waives its limit for the next attempt")
}

// repeat prepares the Gate for repetitions of the attempt.
func (g *Gate) repeat(attempt *groupAttempt, waived bool) {
	attempt.repeated = true
	for _, p := range attempt.pods {
		p.waived = waived
	}
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
	g.repeat(attempt, false)
	refused := func(limit *Gate) bool { return len(limit.repeated.refusals) > 0 }
	if refused(g) && fitsWaived(false) {
		return alone
	}
	if len(others) > 0 && slices.ContainsFunc(all, refused) && fitsWaived(true) {
		return all
	}
	return nil
}

// AddPod waives the limit where preemption puts back a pod of a repeated attempt's victims: no limit causes an eviction.
func (g *Gate) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if s := g.waiver(state); s.group != nil && s.group.repeated {
		s.waived = true
		state.Write(g.key, s)
	}
	return nil
}

// RemovePod does nothing: Filter reads the NodeInfo.
func (g *Gate) RemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}
