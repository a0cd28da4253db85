//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package minor

import fwk "k8s.io/kube-scheduler/framework"

// PlacementCycleState is what ScorePlacement gets: from Kubernetes 1.37 on, each placement of a pod group has a state of its own.
type PlacementCycleState = fwk.PlacementCycleState
