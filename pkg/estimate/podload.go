package estimate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// PodLoad is the expected usage of one pod on a node, and the measured share of it.
type PodLoad struct {
	Pod *corev1.Pod
	// Since is the start of the pod; zero if it does not run yet.
	Since     time.Time
	Resources [load.ResourceCount]PodResourceLoad
}

// PodResourceLoad is one resource of a PodLoad. Amounts are in milliCPU or bytes.
type PodResourceLoad struct {
	// Usage is what the pod is expected to use, at most the node's allocatable. It counts until the window covers the pod.
	// Where the node's State is not Fresh, it is the non-zero request.
	Usage float64
	// Coverage is the measured share of Usage, in [0, 1]. Where the node's State is not Fresh, it is 1 and nothing is pending.
	Coverage float64
	// Pending is Usage · (1 − Coverage).
	Pending float64
}

// Uncovered is the share of the pod's usage that the load of its node does not cover yet: 1 − PodResourceLoad.Coverage.
func (v *View) Uncovered(node fwk.NodeInfo, pod *corev1.Pod, r load.Resource) float64 {
	n := v.node(node)
	if n == nil || stateAt(v.now, n.freshUntil[r]) != load.Fresh {
		return 0
	}
	measured := v.cache.key.table.Node(node.Node().Name)
	return Uncovered(&measured[r], v.cache.config.visibleAfter(runningSince(pod)))
}

// Pods returns the loads of the node's pods, in their order, without ended ones. Their Pending adds up to that of the node's
// Estimate. Where its State is not Fresh, their Usage adds up to its Mean. Pods allocates: do not call it in a scheduling cycle.
func (v *View) Pods(node fwk.NodeInfo) []PodLoad {
	n := v.node(node)
	var measured load.NodeLoad
	if n != nil {
		measured = v.cache.key.table.Node(node.Node().Name)
	}
	var loads []PodLoad
	for i, info := range node.GetPods() {
		pod := info.GetPod()
		since := runningSince(pod)
		if since == ended {
			continue
		}
		l := PodLoad{Pod: pod}
		if since != notYet {
			l.Since = time.Unix(0, since)
		}
		var uncovered uncoveredPod
		if n != nil {
			uncovered = v.cache.newUncoveredPod(i, v.cache.config.visibleAfter(since), pod)
		}
		requests := info.CalculateResource()
		for r := range load.ResourceCount {
			of := &l.Resources[r]
			if n == nil || stateAt(v.now, n.freshUntil[r]) != load.Fresh {
				*of = PodResourceLoad{
					Usage: float64([load.ResourceCount]int64{load.CPU: requests.Non0CPU, load.Memory: requests.Non0Mem}[r]), Coverage: 1,
				}
				continue
			}
			of.Usage, _, of.Coverage = uncovered.on(n.fresh[r].Allocatable, &measured[r], r)
			of.Pending = of.Usage * (1 - of.Coverage)
		}
		loads = append(loads, l)
	}
	return loads
}
