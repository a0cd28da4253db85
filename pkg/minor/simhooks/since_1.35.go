//go:build !kubernetes_1_34

package simhooks

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func (NoBatching) StoreScheduleResults(context.Context, fwk.PodSignature, string, string, framework.SortedScoredNodes, int64) {
}

// PreferNode makes SchedulePod choose the node among the nodes with the highest total: it chooses the highest Randomizer.
func PreferNode(node *fwk.NodePluginScores) { node.Randomizer = 1 }
