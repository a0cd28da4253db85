// Package dryrun adapts what a simulation calls of the stock scheduler: it chooses a node, with equal ones decided by the caller, reuses
// no scores, and reports the victims of preemption where DefaultPreemption would evict them.
package dryrun

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// Report receives a victim on a node, and the priority of the pod that it has to make room for.
type Report func(node string, priority int32, victim *corev1.Pod)

// Unbatched is a part of a framework that reuses no scores.
type Unbatched struct{}

// seeded is DefaultPreemption with the random numbers of rand.
type seeded struct {
	*defaultpreemption.DefaultPreemption
	rand *rand.Rand
}

// GetOffsetAndNumCandidates implements preemption.Interface.
func (p seeded) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	_, candidates = p.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	return p.rand.Int32N(nodes), candidates
}
