package estimate

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Deriver is an Estimator that also derives a value from each node, which is kept as long as the NodeInfo and the node's load stay
// the same. See View.WithDerived.
type Deriver interface {
	podusage.Estimator
	// Derive returns the value for a node that carries e while its load is fresh; a resource that was never measured has a Mean and a
	// StdDev of 0. earlier is the value that was derived from the same NodeInfo with other load, or nil. Derive may be called from
	// many goroutines at once.
	Derive(node fwk.NodeInfo, e *Estimate, earlier any) any
}

// WithDerived returns the node's Estimate, and the value that the estimator, which must be a Deriver, derived from the node.
func (v *View) WithDerived(node fwk.NodeInfo) (e Estimate, derived any) {
	n := v.node(node)
	for r := range load.ResourceCount {
		e[r] = v.resource(n, node, r)
	}
	return e, *n.derived
}

// derive returns the value that the estimator, which must be a Deriver, derives from the node.
func (c *tableCache) derive(n *nodeEstimate, node fwk.NodeInfo, previous *nodeEstimate) any {
	var earlier any
	// In pod-group cycles, pods come and go without a new generation.
	if previous.derived != nil && previous.generation == n.generation && previous.node == n.node && samePods(previous.pods, n.pods) {
		earlier = *previous.derived
	}
	return c.deriver.Derive(node, &n.fresh, earlier)
}
