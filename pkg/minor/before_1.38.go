//go:build !kubernetes_1_38

package minor

import corev1 "k8s.io/api/core/v1"

// UnscheduledPods returns the pods of the group that its cycle places.
func UnscheduledPods(group PodGroupInfo) []*corev1.Pod { return group.GetUnscheduledPods() }

// EmptySelectsNothing reports whether PodTopologySpread counts no pod for an empty selector. From Kubernetes 1.38 on, it counts
// all.
const EmptySelectsNothing = true
