// Package podusage estimates how much a pod will use, from what its spec states.
package podusage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Amounts are amounts of all resources, by load.Resource: CPU in milliCPU, memory in bytes.
type Amounts [load.ResourceCount]float64

// Estimator estimates what a pod will use. The pod to place and the pods on a node go through the same Estimator.
type Estimator interface {
	// Estimate returns what the pod will use once it runs. It is called once for the pod to place and once for each pod of a
	// node whose usage the window does not cover yet, from many goroutines at once.
	Estimate(pod *corev1.Pod) Amounts
}

var (
	_ Estimator = BySpec{}
	_ Estimator = ByRequests{}
)

// BySpec estimates the CPU by limits, else by requests times a multiplier, else by a default. It estimates no memory. Its
// formula is that of Trimaran's TargetLoadPacking (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
type BySpec struct {
	// Multiplier is the usage of a container without a limit over its request. ≥ 0.
	Multiplier float64
	// DefaultCPUMillis is the usage of a container that states neither a limit nor a request, in milliCPU. ≥ 0.
	DefaultCPUMillis int64
}

// Estimate implements Estimator.
func (e BySpec) Estimate(pod *corev1.Pod) Amounts { return Amounts{load.CPU: e.cpuMillis(pod)} }

// cpuMillis returns the CPU that the pod will use, in milliCPU: the sum over its containers of the limit, else the request
// times the multiplier, else the default; plus the pod's overhead.
//
// Native sidecars count as containers. Ordinary init containers do not count, for they have ended once the pod runs. CPU that
// is stated for the pod as a whole, limit before request, replaces the sum, unless the API server derived it. An explicit
// zero is a statement like any other: a limit of zero allows no request but zero, so the container says that it needs
// nothing.
//
// The spec counts, not the status: a resize in progress is expected to succeed. cpuMillis does not allocate.
func (e BySpec) cpuMillis(pod *corev1.Pod) float64 {
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

func (e BySpec) container(c *corev1.Container) float64 {
	if stated, ok := e.stated(&c.Resources); ok {
		return stated
	}
	return float64(e.DefaultCPUMillis)
}

// stated returns the usage by limit or request, and whether there is either.
func (e BySpec) stated(r *corev1.ResourceRequirements) (cpuMillis float64, ok bool) {
	if limit, ok := r.Limits[corev1.ResourceCPU]; ok {
		return float64(limit.MilliValue()), true
	}
	if request, ok := r.Requests[corev1.ResourceCPU]; ok {
		return e.Multiplier * float64(request.MilliValue()), true
	}
	return 0, false
}

// isDefaulted tells whether the API server set the pod-level CPU request: it does so for a pod with another pod-level limit,
// such as memory. The default is the larger of the containers' requests and those of the init containers. It says less than
// the containers, whose limits it leaves out.
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

// ByRequests estimates that a pod uses what it requests, as the scheduler counts it: the larger of the requests of containers
// with native sidecars and those of ordinary init containers, or the requests stated for the pod as a whole; plus the pod's
// overhead. While a running pod is being resized, the larger of old and new requests counts. A resource without a request
// counts zero.
type ByRequests struct{}

// Estimate implements Estimator. It allocates a few small maps.
func (ByRequests) Estimate(pod *corev1.Pod) Amounts {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return Amounts{load.CPU: float64(requests.Cpu().MilliValue()), load.Memory: float64(requests.Memory().Value())}
}
