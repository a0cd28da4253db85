// Package simhooks adapts a simulation's hooks into the stock scheduler. The caller decides among nodes of equal totals, and no
// scores are reused. DefaultPreemption reports its victims instead of evicting them.
package simhooks

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// Report receives a victim on a node, and the priority of the pod that it has to make room for.
type Report func(node string, priority int32, victim *corev1.Pod)

// NoBatching is the part of a framework that reuses scores for pods that are alike; it reuses none.
type NoBatching struct{}

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
