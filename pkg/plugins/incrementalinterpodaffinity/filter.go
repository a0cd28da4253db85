package incrementalinterpodaffinity

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

const filterKey = "PreFilter" + Name

// filterState is what PreFilter finds out for Filter.
type filterState struct {
	// pod is the incoming pod, whose terms have no namespace selectors but those that select any namespace.
	pod *framework.PodInfo
	// namespace are the labels of the pod's namespace.
	namespace labels.Set
	// By the terms' labels, affinity counts the pods that match all required terms of affinity, and antiAffinity those that match
	// one of anti-affinity. existing counts the pods that have a required term of anti-affinity which the incoming pod matches.
	affinity, antiAffinity, existing counts
}

// Clone implements fwk.StateData. Preemption tries the removal of pods on copies.
func (s *filterState) Clone() fwk.StateData {
	copied := *s
	copied.affinity, copied.antiAffinity, copied.existing = s.affinity.clone(), s.antiAffinity.clone(), s.existing.clone()
	return &copied
}

func (pl *IncrementalInterPodAffinity) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	if minor.IsResizeOnly(pl.features, pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if pl.isAlone(pod, minor.NodeInfoLister.HavePodsWithRequiredAntiAffinityList) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return pl.InterPodAffinity.PreFilter(ctx, state, pod, nodes) // which returns the error
	}
	terms := slices.Collect(pointers(info.RequiredAffinityTerms, info.RequiredAntiAffinityTerms))
	if err := pl.resolve(terms); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if !pl.counts(state, pod, terms, nodes) {
		state.Delete(filterKey) // of an earlier call
		return pl.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	s := pl.newFilterState(info)
	if len(s.existing) == 0 && len(terms) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

func (pl *IncrementalInterPodAffinity) newFilterState(info *framework.PodInfo) *filterState {
	s := &filterState{
		pod: info, namespace: pl.labelsOf(info.Pod.Namespace), affinity: counts{}, antiAffinity: counts{}, existing: counts{},
	}
	for class := range pl.index.WithTerms(info.Pod) {
		for t := range pointers(class.Terms.RequiredAntiAffinity) {
			if t.Matches(info.Pod, s.namespace) {
				s.existing.addClass(class, t.TopologyKey, 1)
			}
		}
	}
	for t := range pointers(info.RequiredAntiAffinityTerms) {
		for class := range pl.index.MatchedBy(t) {
			s.antiAffinity.addClass(class, t.TopologyKey, 1)
		}
	}
	affinity := info.RequiredAffinityTerms
	if len(affinity) == 0 {
		return s
	}
	for class := range pl.index.MatchedBy(&affinity[0]) {
		if !class.MatchesAll(affinity) {
			continue
		}
		for t := range pointers(affinity) {
			s.affinity.addClass(class, t.TopologyKey, 1)
		}
	}
	return s
}

func (pl *IncrementalInterPodAffinity) PreFilterExtensions() minor.PreFilterExtensions { return pl }

func (pl *IncrementalInterPodAffinity) AddPod(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	if s := podindex.StateOf[*filterState](state, filterKey); s != nil {
		s.change(added, node.Node(), 1)
		return nil
	}
	return pl.InterPodAffinity.AddPod(ctx, state, pod, added, node)
}

func (pl *IncrementalInterPodAffinity) RemovePod(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo,
) *fwk.Status {
	if s := podindex.StateOf[*filterState](state, filterKey); s != nil {
		s.change(removed, node.Node(), -1)
		return nil
	}
	return pl.InterPodAffinity.RemovePod(ctx, state, pod, removed, node)
}

// change counts a pod that came to a node or left it.
func (s *filterState) change(changed fwk.PodInfo, node *corev1.Node, by int64) {
	for t := range pointers(changed.GetRequiredAntiAffinityTerms()) {
		if t.Matches(s.pod.Pod, s.namespace) {
			s.existing.add(node, t.TopologyKey, by)
		}
	}
	if matchesAll(s.pod.RequiredAffinityTerms, changed.GetPod()) {
		for t := range pointers(s.pod.RequiredAffinityTerms) {
			s.affinity.add(node, t.TopologyKey, by)
		}
	}
	for t := range pointers(s.pod.RequiredAntiAffinityTerms) {
		if t.Matches(changed.GetPod(), nil) {
			s.antiAffinity.add(node, t.TopologyKey, by)
		}
	}
}

func (pl *IncrementalInterPodAffinity) Filter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	if minor.IsResizeOnly(pl.features, pod) {
		return nil
	}
	s := podindex.StateOf[*filterState](state, filterKey)
	if s == nil {
		return pl.InterPodAffinity.Filter(ctx, state, pod, node)
	}
	object := node.Node()
	switch {
	case !s.matchesAffinity(object):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, interpodaffinity.ErrReasonAffinityRulesNotMatch)
	case s.antiAffinity.any(object):
		return fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch)
	case s.existing.any(object):
		return fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch)
	}
	return nil
}

// matchesAffinity reports whether the node has the label of each required term, with a value that nodes of matching pods have. If
// no pod matches, a pod that matches its own terms may go to any node with the labels.
func (s *filterState) matchesAffinity(node *corev1.Node) bool {
	all := true
	for t := range pointers(s.pod.RequiredAffinityTerms) {
		value, ok := node.Labels[t.TopologyKey]
		if !ok {
			return false
		}
		all = all && s.affinity[t.TopologyKey][value] > 0
	}
	return all || s.affinity.isZero() && matchesAll(s.pod.RequiredAffinityTerms, s.pod.Pod)
}

// any reports whether a pod is counted for one of the node's labels.
func (c counts) any(node *corev1.Node) bool {
	for key, values := range c {
		if value, ok := node.Labels[key]; ok && values[value] > 0 {
			return true
		}
	}
	return false
}

func (c counts) isZero() bool {
	for _, values := range c {
		for _, count := range values {
			if count != 0 {
				return false
			}
		}
	}
	return true
}
