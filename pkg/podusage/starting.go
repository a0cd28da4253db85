package podusage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
)

// StartingPod returns the pod with only the containers that run or are about to start, and whether there are any. The result is pod
// itself if all containers count. A container without a status is about to start, because the pod was just bound.
func StartingPod(pod *corev1.Pod) (starting *corev1.Pod, ok bool) {
	statuses := pod.Status.ContainerStatuses
	initFails := slices.ContainsFunc(pod.Status.InitContainerStatuses,
		func(s corev1.ContainerStatus) bool { return fails(s.State.Waiting) })
	if !initFails && !slices.ContainsFunc(statuses, isDown) {
		return pod, true
	}
	starts := func(statuses []corev1.ContainerStatus, name string) bool {
		i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
		if i >= 0 && statuses[i].State.Running != nil {
			return true
		}
		// While an init container fails, no container behind it starts.
		return !initFails && (i < 0 || !isDown(statuses[i]))
	}
	reduced := *pod
	reduced.Spec.Containers = slices.DeleteFunc(slices.Clone(pod.Spec.Containers), func(c corev1.Container) bool {
		return !starts(statuses, c.Name)
	})
	reduced.Spec.InitContainers = slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return !isSidecar(&c) || !starts(pod.Status.InitContainerStatuses, c.Name)
	})
	return &reduced, len(reduced.Spec.Containers)+len(reduced.Spec.InitContainers) > 0
}

// InitPhase returns the pod with only those of its running init containers and sidecars for which counts is true. Its PendingUsage
// is a part of the pod's usage that may be measured before the other containers start. It has no workload, because history tells
// nothing of single containers.
func InitPhase(pod *corev1.Pod, counts func(*corev1.ContainerStatus) bool) *corev1.Pod {
	phase := corev1.Pod{Spec: pod.Spec}
	phase.Spec.Resources = withoutDerived(&pod.Spec)
	phase.Spec.Containers, phase.Spec.InitContainers = slices.Clone(pod.Spec.Containers), nil
	for i := range pod.Spec.Containers { // as down, they show that the others do not use all pod-level resources
		phase.Status.ContainerStatuses = append(phase.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: pod.Spec.Containers[i].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
		})
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		c := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == s.Name })
		if c >= 0 && counts(s) {
			phase.Spec.Containers = append(phase.Spec.Containers, pod.Spec.InitContainers[c])
			phase.Status.ContainerStatuses = append(phase.Status.ContainerStatuses, *s)
		}
	}
	return &phase
}

// withoutEndedInit returns the pod without the init containers that have succeeded. A pod-level request that the API server
// derived from them goes too. The result is pod itself if there are none.
func withoutEndedInit(pod *corev1.Pod) *corev1.Pod {
	succeeded := func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	if !slices.ContainsFunc(pod.Status.InitContainerStatuses, succeeded) {
		return pod
	}
	rest := *pod
	rest.Spec.InitContainers = slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return !isSidecar(&c) && slices.ContainsFunc(pod.Status.InitContainerStatuses,
			func(s corev1.ContainerStatus) bool { return s.Name == c.Name && succeeded(s) })
	})
	if rest.Spec.Resources = withoutDerived(&pod.Spec); rest.Spec.Resources != pod.Spec.Resources {
		rest.Status = corev1.PodStatus{ // without pod-level resources, which repeat the derived request
			Conditions: pod.Status.Conditions, ContainerStatuses: pod.Status.ContainerStatuses,
			InitContainerStatuses: pod.Status.InitContainerStatuses,
		}
	}
	return &rest
}

// withoutDerived returns the pod-level resources without requests that the API server derived from the containers.
func withoutDerived(spec *corev1.PodSpec) *corev1.ResourceRequirements {
	resources := spec.Resources
	for r := range load.ResourceCount {
		if resources != nil && isDefaulted(spec, r) {
			resources = resources.DeepCopy()
			delete(resources.Requests, corev1.ResourceName(r.String()))
		}
	}
	return resources
}

func isDown(s corev1.ContainerStatus) bool {
	return s.State.Terminated != nil || fails(s.State.Waiting)
}

// fails reports whether a container waits because something failed: an image pull, its configuration, or the container itself.
// The kubelet has many reasons for a failure, and two for a container that is about to start.
func fails(waiting *corev1.ContainerStateWaiting) bool {
	return waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing"
}

// WithoutInfeasibleResize returns the pod with the resources that it runs with, if the kubelet found its resize infeasible. As in
// the scheduler, the spec counts otherwise: a deferred resize is expected to succeed. The result is pod itself if nothing changes.
func WithoutInfeasibleResize(pod *corev1.Pod) *corev1.Pod {
	if !isInfeasible(pod) {
		return pod
	}
	actual := *pod
	actual.Spec.Resources = podrequests.RunningPodLevel(pod)
	actual.Spec.Containers = withResourcesOf(pod.Status.ContainerStatuses, pod.Spec.Containers)
	actual.Spec.InitContainers = withResourcesOf(pod.Status.InitContainerStatuses, pod.Spec.InitContainers)
	return &actual
}

// isInfeasible copies no condition: it is called for each pod of each node.
func isInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible {
			return true
		}
	}
	return false
}

func withResourcesOf(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.Container {
	actual := slices.Clone(containers)
	for i := range actual {
		c := &actual[i]
		c.Resources = corev1.ResourceRequirements{}
		j := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		switch {
		case j < 0:
		case statuses[j].Resources != nil:
			c.Resources = *statuses[j].Resources
		default:
			c.Resources.Requests = statuses[j].AllocatedResources
		}
	}
	return actual
}

// statusDiffers reports whether the scheduler may count other requests than the spec's, whose sum is request. The two differ during
// a feasible resize.
func statusDiffers(pod *corev1.Pod, r load.Resource, request float64) bool {
	overhead := amountIn(pod.Spec.Overhead, r)
	for _, list := range podrequests.OfStatus(pod) {
		if quantity, ok := quantityIn(list, r); ok && amountOf(quantity, r)+overhead != request {
			return true
		}
	}
	// A container's status may be among those of init containers.
	for _, statuses := range [...][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			allocated := amountIn(s.AllocatedResources, r)
			if s.Resources != nil {
				allocated = max(allocated, amountIn(s.Resources.Requests, r))
			}
			if allocated > 0 && allocated > amountIn(specRequests(&pod.Spec, s.Name), r) {
				return true
			}
		}
	}
	return false
}

func specRequests(spec *corev1.PodSpec, name string) corev1.ResourceList {
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return containers[i].Resources.Requests
			}
		}
	}
	return nil
}
