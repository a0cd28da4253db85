package sim

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/simhooks"
)

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
	for _, other := range queue.NominatedPodsForNode(node) {
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
