//go:build kubernetes_1_34 || kubernetes_1_35

package minor

import fwk "k8s.io/kube-scheduler/framework"

// IsPodGroupCycle reports false: before Kubernetes 1.36, each cycle places one pod.
func IsPodGroupCycle(fwk.CycleState) bool { return false }
