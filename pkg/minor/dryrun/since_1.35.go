//go:build !kubernetes_1_34

package dryrun

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// StoreScheduleResults does nothing.
func (Unbatched) StoreScheduleResults(context.Context, fwk.PodSignature, string, string, framework.SortedScoredNodes, int64) {
}

// Prefer makes SchedulePod choose the node among those with the highest total: it takes the one with the highest Randomizer.
func Prefer(node *fwk.NodePluginScores) { node.Randomizer = 1 }
