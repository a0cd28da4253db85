package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/simhooks"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Decide finds a node for the pod as the scheduler does, on a sample of the nodes. Call Assume to place the pod there.
// The pod need not be in the cluster.
//
// If the pod's status.nominatedNodeName is set, that node alone is evaluated, as long as it passes the filters.
func (s *Scheduler) Decide(ctx context.Context, pod *corev1.Pod) (*Result, error) {
	return s.decide(ctx, pod, false)
}

// Explain is Decide without sampling. It reports the terms of all nodes, and the reasons and scores of evaluated ones. A feasible
// nominated node is evaluated alone, as in Decide.
func (s *Scheduler) Explain(ctx context.Context, pod *corev1.Pod) (*Result, error) {
	return s.decide(ctx, pod, true)
}

func (s *Scheduler) decide(ctx context.Context, pod *corev1.Pod, explains bool) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := s.profileFor(pod)
	if err != nil {
		return nil, err
	}
	if pod.UID == "" {
		return nil, fmt.Errorf("%s: metadata.uid: required", nameOf(pod))
	}
	podInfo, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameOf(pod), err)
	}
	if err := s.updateSnapshot(ctx); err != nil {
		return nil, err
	}
	c := &cycle{profile: p, scheduler: s, explains: explains, statuses: map[string]*fwk.Status{}}
	state := framework.NewCycleState()
	d := &Result{Pod: pod, state: state}
	result, err := simhooks.SchedulePod(ctx, s.scheduler, c, state, podInfo)
	d.Node, d.Evaluated, d.Feasible = result.SuggestedHost, result.EvaluatedNodes, result.FeasibleNodes
	d.SkippedFilters, d.SkippedScores = sets.List(state.GetSkipFilterPlugins()), sets.List(state.GetSkipScorePlugins())
	var fitError *framework.FitError
	switch {
	case errors.As(err, &fitError):
		d.Evaluated, d.Err = fitError.Diagnosis.NodeToStatus.Len(), err
		if err := s.postFilter(ctx, d, p, podInfo, &fitError.Diagnosis); err != nil {
			return nil, err
		}
	case errors.Is(err, scheduler.ErrNoNodesAvailable):
		d.Err = err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", nameOf(pod), err)
	}
	if explains {
		c.explain(ctx, d)
	}
	return d, nil
}

// postFilter calls the PostFilter plugins. If the pod is in the cluster, it is nominated to the node that they return.
func (s *Scheduler) postFilter(
	ctx context.Context, d *Result, p *profile, pod *framework.PodInfo, diagnosis *framework.Diagnosis,
) error {
	if !p.HasPostFilterPlugins() {
		return nil
	}
	pods := s.cluster.pods()
	_, inCluster, err := pods.Get(d.Pod)
	if err != nil {
		return err
	}
	if !inCluster { // DefaultPreemption gets the pod from its lister
		if err := pods.Add(d.Pod); err != nil {
			return err
		}
		defer func() { _ = pods.Delete(d.Pod) }() // a store in memory does not fail
	}
	result, status := p.RunPostFilterPlugins(ctx, d.state, d.Pod, orderedStatuses{diagnosis.NodeToStatus})
	diagnosis.PostFilterMsg = status.Message()
	d.PostFilter = &PostFilter{Status: status, Victims: s.takeVictims()}
	var nominating *minor.NominatingInfo
	if result != nil {
		nominating = result.NominatingInfo
	}
	if nominating.Mode() == minor.ModeOverride {
		d.PostFilter.NominatedNode = nominating.NominatedNodeName
	}
	if inCluster {
		s.scheduler.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), pod, nominating)
	}
	return nil
}

// cycle is a profile's framework during one decision. SchedulePod calls the plugins through it; methods that it does not define
// are those of the framework.
type cycle struct {
	*profile
	simhooks.NoBatching
	scheduler *Scheduler
	explains  bool

	// preFiltered is the reason why PreFilter plugins ruled out all nodes that are not in candidates.
	preFiltered *fwk.Status
	// candidates are the only nodes that PreFilter plugins allow; nil if they allow all or reject the pod.
	candidates sets.Set[string]

	mu sync.Mutex
	// statuses are the results of the filters by node, nil for nodes that passed. mu guards statuses alone.
	statuses map[string]*fwk.Status
	scores   map[string]minor.NodePluginScores
}

func (c *cycle) Parallelizer() minor.Parallelizer {
	if c.scheduler.sequential {
		return minor.Sequential()
	}
	return c.profile.Parallelizer()
}

// PercentageOfNodesToScore is 100 for Explain, and for candidates: SchedulePod samples them in the order of a map.
func (c *cycle) PercentageOfNodesToScore() *int32 {
	if c.explains || c.candidates != nil {
		return ptr.To[int32](100)
	}
	return c.profile.PercentageOfNodesToScore()
}

// HasScorePlugins reports whether SchedulePod has to find more than one node.
func (c *cycle) HasScorePlugins() bool { return c.explains || c.profile.HasScorePlugins() }

// RunPreFilterPlugins records which nodes the plugins rule out.
func (c *cycle) RunPreFilterPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
) (*minor.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := c.profile.RunPreFilterPlugins(ctx, state, pod)
	switch {
	case !status.IsSuccess():
		c.preFiltered = status
	case !result.AllNodes():
		names := sets.List(plugins)
		c.candidates = result.NodeNames
		c.preFiltered = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", names)).
			WithPlugin(strings.Join(names, ","))
	}
	return result, status, plugins
}

// RunFilterPluginsWithNominatedPods records the node's status for Explain.
func (c *cycle) RunFilterPluginsWithNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	status := c.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	if c.explains {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.statuses[node.Node().Name] = status
	}
	return status
}

// RunPreScorePlugins sorts candidates, which SchedulePod takes in the order of a map.
func (c *cycle) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if c.candidates != nil {
		slices.SortFunc(nodes, byName)
	}
	return c.profile.RunPreScorePlugins(ctx, state, pod, nodes)
}

// RunScorePlugins records the scores for Explain, and chooses among the nodes with the highest total.
func (c *cycle) RunScorePlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) ([]minor.NodePluginScores, *fwk.Status) {
	scores, status := c.profile.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return scores, status
	}
	if c.explains {
		c.scores = make(map[string]minor.NodePluginScores, len(scores))
		for _, node := range scores {
			c.scores[node.Name] = node
		}
	}
	if best := explain.Winners(scores); len(best) > 1 {
		slices.SortFunc(best, func(a, b int) int { return strings.Compare(scores[a].Name, scores[b].Name) })
		simhooks.PreferNode(&scores[best[c.scheduler.rand.IntN(len(best))]])
	}
	return scores, status
}

var _ framework.Framework = &cycle{}

// maxAttempts bounds the attempts to place a pod at once. The plugins of this project need three: before preemption, after it,
// and after a waiver, which waives all limits that keep the pod out together. One more is for other PostFilter plugins.
const maxAttempts = 4

// Try is Scheduler.Decide or Scheduler.Explain.
type Try func(ctx context.Context, pod *corev1.Pod) (*Result, error)

// Attempt tries the pod as often as the scheduler does at once: again after a limit was waived and, unless preempt is nil, after
// preempt has removed the victims. It returns the results of all attempts, also beside an error. The last result decides.
func Attempt(
	ctx context.Context, pod *corev1.Pod, try Try, preempt func(victims []*corev1.Pod) error,
) (results []*Result, err error) {
	for len(results) < maxAttempts {
		d, err := try(ctx, pod)
		if err != nil {
			return results, err
		}
		results = append(results, d)
		switch {
		case d.Waived():
		case d.Node != "" || preempt == nil || d.PostFilter == nil || d.PostFilter.NominatedNode == "" ||
			!d.PostFilter.Status.IsSuccess():
			return results, nil
		default:
			if err := preempt(d.PostFilter.Victims); err != nil {
				return results, err
			}
			nominated := *pod
			nominated.Status.NominatedNodeName = d.PostFilter.NominatedNode
			pod = &nominated
		}
	}
	return results, nil
}

// simulatePreemption makes the profile's DefaultPreemption, if enabled, report its victims before it returns, instead of evicting
// them in a goroutine. Its choice stays the same.
func (s *Scheduler) simulatePreemption(fw framework.Framework) {
	for _, extension := range fw.EnqueueExtensions() {
		if pl, ok := extension.(*defaultpreemption.DefaultPreemption); ok {
			simhooks.ReportVictims(pl, fw, s.rand, s.preempt)
		}
	}
}

// preempt records the victim, and removes nominations of lower priority to the node.
func (s *Scheduler) preempt(node string, priority int32, victim *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.victims = append(s.victims, victim)
	queue := s.scheduler.SchedulingQueue
	for _, other := range simhooks.NominatedPods(queue, node) {
		if schedulingcorev1.PodPriority(other.GetPod()) < priority {
			queue.DeleteNominatedPodIfExists(other.GetPod())
			s.displaced = append(s.displaced, other.GetPod())
		}
	}
}

// takeVictims returns the victims of the present decision, sorted by namespace and name.
func (s *Scheduler) takeVictims() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	victims := s.victims
	s.victims = nil
	slices.SortFunc(victims, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return victims
}

// takeDisplaced returns the pods that lost their nominations since the last call.
func (s *Scheduler) takeDisplaced() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	displaced := s.displaced
	s.displaced = nil
	return displaced
}

// orderedStatuses returns nodes sorted by name; a NodeToStatus returns them in the order of a map.
type orderedStatuses struct{ *framework.NodeToStatus }

func (s orderedStatuses) NodesForStatusCode(nodes minor.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	matching, err := s.NodeToStatus.NodesForStatusCode(nodes, code)
	matching = slices.Clone(matching) // it may be the snapshot's own list
	slices.SortFunc(matching, byName)
	return matching, err
}

func byName(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) }
