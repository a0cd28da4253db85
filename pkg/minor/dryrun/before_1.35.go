//go:build kubernetes_1_34

package dryrun

import "k8s.io/kubernetes/pkg/scheduler/framework"

// Prefer makes SchedulePod choose the node among those with the highest total. Before Kubernetes 1.35 it takes one at random, with
// random numbers of its own, so that the node needs a higher total than the others.
func Prefer(node *framework.NodePluginScores) { node.TotalScore++ }
