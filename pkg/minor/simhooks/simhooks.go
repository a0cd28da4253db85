// Package simhooks has a simulation's hooks into the stock scheduler. They let the caller choose among nodes of equal totals, and
// turn off the reuse of scores. DefaultPreemption reports its victims instead of evicting them.
package simhooks

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// Report receives a victim on a node. priority is the preempting pod's.
type Report func(node string, priority int32, victim *corev1.Pod)

// NoBatching replaces the part of a framework that reuses scores for equal pods. It reuses none.
type NoBatching struct{}

// seeded is DefaultPreemption with the random numbers of rand.
type seeded struct {
	*defaultpreemption.DefaultPreemption
	rand *rand.Rand
}

func (p seeded) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	_, candidates = p.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	return p.rand.Int32N(nodes), candidates
}
