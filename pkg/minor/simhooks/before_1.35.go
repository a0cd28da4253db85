//go:build kubernetes_1_34

package simhooks

import "k8s.io/kubernetes/pkg/scheduler/framework"

// PreferNode makes SchedulePod choose the node among the nodes with the highest total. Before Kubernetes 1.35, SchedulePod chooses
// at random, so the node needs a higher total.
func PreferNode(node *framework.NodePluginScores) { node.TotalScore++ }
