package incrementalpodtopologyspread

import (
	"context"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

const filterKey = "PreFilter" + Name

// filterState is what PreFilter finds out for Filter.
type filterState struct {
	constraints []constraint
	spread      []spread
}

// Clone implements fwk.StateData. Preemption tries the removal of pods on copies.
func (s *filterState) Clone() fwk.StateData {
	copied := &filterState{constraints: s.constraints, spread: make([]spread, len(s.spread))}
	for i, of := range s.spread {
		of.changed = maps.Clone(of.changed)
		copied.spread[i] = of
	}
	return copied
}

// spread says how many pods match a constraint in each of its domains.
type spread struct {
	// domains is the number of domains. counts are of those with pods that match, and do not change.
	domains int
	counts  map[string]int
	// changed is what came and went since, in domains where something did.
	changed map[string]int
	// lowest are the two domains with the lowest counts, if no domain is without pods.
	lowest [2]string
	// minimum is the lowest number of pods in a domain.
	minimum int
	// self is 1 if the constraint matches the pod itself.
	self int
}

func (pl *IncrementalPodTopologySpread) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	if minor.IsResizeOnly(pl.features, pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	constraints, err := pl.constraintsOf(pod, corev1.DoNotSchedule)
	if err != nil {
		return pl.PodTopologySpread.PreFilter(ctx, state, pod, nil) // which returns the error
	}
	if len(constraints) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if !pl.counts(state, pod, constraints, nodes) {
		return pl.PodTopologySpread.PreFilter(ctx, state, pod, nodes)
	}
	pl.index.Mark()
	s := &filterState{constraints: constraints, spread: make([]spread, len(constraints))}
	eligible := pl.eligibility(klog.FromContext(ctx), pod, constraints, true)
	for i := range constraints {
		c := &constraints[i]
		counts := map[string]int{}
		for _, n := range pl.index.Count(pod.Namespace, c.selector, i, len(constraints)) {
			if eligible.includes(n.Object, c) {
				counts[n.Object.Labels[c.key]] += n.Matching[i]
			}
		}
		of := &s.spread[i]
		of.domains, of.counts = pl.domainsOf(&eligible, c), counts
		if c.selector.Matches(labels.Set(pod.Labels)) {
			of.self = 1
		}
		of.findLowest()
		of.findMinimum()
	}
	state.Write(filterKey, s)
	return nil, nil
}

func (s *spread) findLowest() {
	if len(s.counts) < s.domains {
		return
	}
	low := [2]int{math.MaxInt, math.MaxInt}
	for value, count := range s.counts {
		switch {
		case count < low[0]:
			low[0], low[1] = count, low[0]
			s.lowest[0], s.lowest[1] = value, s.lowest[0]
		case count < low[1]:
			low[1], s.lowest[1] = count, value
		}
	}
}

func (s *spread) findMinimum() {
	s.minimum = math.MaxInt32 // as in the stock plugin, if there is no domain
	without := s.domains - len(s.counts)
	for value := range s.changed {
		s.minimum = min(s.minimum, s.count(value))
		if s.counts[value] == 0 {
			without--
		}
	}
	if without > 0 {
		s.minimum = min(s.minimum, 0)
		return
	}
	for _, value := range s.lowest {
		if count, ok := s.counts[value]; ok && len(s.counts) == s.domains && !s.isChanged(value) {
			s.minimum = min(s.minimum, count)
			return
		}
	}
	for value, count := range s.counts {
		if !s.isChanged(value) {
			s.minimum = min(s.minimum, count)
		}
	}
}

func (s *spread) isChanged(value string) bool {
	_, ok := s.changed[value]
	return ok
}

func (s *spread) count(value string) int { return s.counts[value] + s.changed[value] }

func (pl *IncrementalPodTopologySpread) PreFilterExtensions() minor.PreFilterExtensions { return pl }

func (pl *IncrementalPodTopologySpread) AddPod(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	if s := podindex.StateOf[*filterState](state, filterKey); s != nil {
		return pl.change(ctx, s, pod, added.GetPod(), node.Node(), 1)
	}
	return pl.PodTopologySpread.AddPod(ctx, state, pod, added, node)
}

func (pl *IncrementalPodTopologySpread) RemovePod(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	if s := podindex.StateOf[*filterState](state, filterKey); s != nil {
		return pl.change(ctx, s, pod, removed.GetPod(), node.Node(), -1)
	}
	return pl.PodTopologySpread.RemovePod(ctx, state, pod, removed, node)
}

// change counts a pod that came to a node or left it. As in the stock plugin, a terminating pod counts too. After changes in
// several domains, which nothing makes on one state, the minimum of the stock plugin can be wrong; this one is not.
func (pl *IncrementalPodTopologySpread) change(
	ctx context.Context, s *filterState, pod, changed *corev1.Pod, object *corev1.Node, by int,
) *fwk.Status {
	if changed.Namespace != pod.Namespace || object == nil {
		return nil
	}
	eligible := pl.eligibility(klog.FromContext(ctx), pod, s.constraints, true)
	for i := range s.constraints {
		c, of := &s.constraints[i], &s.spread[i]
		if !c.selector.Matches(labels.Set(changed.Labels)) || !eligible.includes(object, c) {
			continue
		}
		if of.changed == nil {
			of.changed = map[string]int{}
		}
		of.changed[object.Labels[c.key]] += by
		of.findMinimum()
	}
	return nil
}

// Filter implements minor.FilterPlugin: with the pod, a domain of the node has at most maxSkew pods more than any other.
func (pl *IncrementalPodTopologySpread) Filter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	if minor.IsResizeOnly(pl.features, pod) {
		return nil
	}
	s := podindex.StateOf[*filterState](state, filterKey)
	if s == nil {
		return pl.PodTopologySpread.Filter(ctx, state, pod, node)
	}
	for i := range s.constraints {
		c, of := &s.constraints[i], &s.spread[i]
		value, ok := node.Node().Labels[c.key]
		if !ok {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, podtopologyspread.ErrReasonNodeLabelNotMatch)
		}
		minimum := of.minimum
		if of.domains < c.minDomains {
			minimum = 0
		}
		if of.count(value)+of.self-minimum > c.maxSkew {
			return fwk.NewStatus(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch)
		}
	}
	return nil
}
