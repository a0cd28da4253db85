// Package explain is how plugins show what they judge nodes by.
package explain

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Terms are what a plugin judges one node by. Each plugin has a type of its own, whose exported fields are the terms.
type Terms interface {
	// Score is what the terms sum up to, before it is rounded and normalized.
	Score() float64
}

// Explainer is a plugin that shows what it judges nodes by.
type Explainer interface {
	fwk.Plugin
	// Explain returns the node's terms in the scheduling cycle, which Filter and Score judge by. Where scores follow from all
	// candidates, call it after NormalizeScore.
	Explain(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) Terms
}
