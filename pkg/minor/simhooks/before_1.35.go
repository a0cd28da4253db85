//go:build kubernetes_1_34

package simhooks

import "k8s.io/kubernetes/pkg/scheduler/framework"

// PreferNode makes SchedulePod choose the node among those with the highest total. Before Kubernetes 1.35 it takes one at random,
// with its own random numbers. So the node needs a higher total.
func PreferNode(node *framework.NodePluginScores) { node.TotalScore++ }
