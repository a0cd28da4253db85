// Package podusage says how much a pod is expected to use, from what its spec states.
package podusage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Estimator expects a usage of pods. It is a plain value and safe for concurrent use.
type Estimator struct {
	// Multiplier is by how much a container without a limit is expected to exceed its request. ≥ 0.
	Multiplier float64
	// DefaultCPUMillis is expected of a container that states neither a limit nor a request, in milliCPU. ≥ 0.
	DefaultCPUMillis int64
}

// CPUMillis returns the CPU that the pod is expected to use once it runs, in milliCPU: the sum over its containers of the
// limit, else the request times the multiplier, else the default; plus the pod's overhead.
//
// Native sidecars count as containers. Ordinary init containers do not, for they have ended by then. CPU that is stated
// for the pod as a whole, limit before request, stands in for the sum, unless the API server derived it. An explicit zero
// is a statement like any other: a limit of zero can only stand beside a request of zero, so the container says that it
// needs nothing.
//
// What counts is the spec, not the status: a resize under way is expected to succeed. It does not allocate.
func (e Estimator) CPUMillis(pod *corev1.Pod) float64 {
	spec := &pod.Spec
	usage := float64(spec.Overhead.Cpu().MilliValue())
	if spec.Resources != nil && !isDefaulted(spec) {
		if stated, ok := e.stated(spec.Resources); ok {
			return usage + stated
		}
	}
	for i := range spec.Containers {
		usage += e.container(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; isSidecar(c) {
			usage += e.container(c)
		}
	}
	return usage
}

func (e Estimator) container(c *corev1.Container) float64 {
	if stated, ok := e.stated(&c.Resources); ok {
		return stated
	}
	return float64(e.DefaultCPUMillis)
}

// stated returns the usage that limit and request speak of, and whether there is either.
func (e Estimator) stated(r *corev1.ResourceRequirements) (cpuMillis float64, ok bool) {
	if limit, ok := r.Limits[corev1.ResourceCPU]; ok {
		return float64(limit.MilliValue()), true
	}
	if request, ok := r.Requests[corev1.ResourceCPU]; ok {
		return e.Multiplier * float64(request.MilliValue()), true
	}
	return 0, false
}

// isDefaulted tells whether the pod-level CPU request is what the API server puts there for a pod that states other limits
// for itself, memory say: the sum of the containers' requests or what its init containers need if that is more. It says
// less than the containers, whose limits it leaves out.
func isDefaulted(spec *corev1.PodSpec) bool {
	request, requested := spec.Resources.Requests[corev1.ResourceCPU]
	_, limited := spec.Resources.Limits[corev1.ResourceCPU]
	return requested && !limited && len(spec.Resources.Limits) > 0 && request.MilliValue() == containersRequestMillis(spec)
}

// containersRequestMillis is resource.AggregateContainerRequests for CPU alone, without its allocations.
func containersRequestMillis(spec *corev1.PodSpec) int64 {
	var sum, sidecars, initial int64
	for i := range spec.Containers {
		sum += requestMillis(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		request := requestMillis(c)
		initial = max(initial, sidecars+request)
		if isSidecar(c) {
			sidecars += request
		}
	}
	return max(sum+sidecars, initial)
}

func requestMillis(c *corev1.Container) int64 {
	request := c.Resources.Requests[corev1.ResourceCPU]
	return request.MilliValue()
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Requests returns what the pod requests as the scheduler itself counts it, in milliCPU and bytes: the sum over containers
// and native sidecars, or what ordinary init containers need if that is more, or what is stated for the pod as a whole;
// plus the pod's overhead. While a running pod is being resized it is the larger of old and new. What is not requested
// counts zero. It allocates a few small maps: it is meant for the pod of a decision, not for each pod of a node.
func Requests(pod *corev1.Pod) (cpuMillis, memoryBytes float64) {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return float64(requests.Cpu().MilliValue()), float64(requests.Memory().Value())
}
