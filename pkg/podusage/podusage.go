// Package podusage estimates how much a pod will use, from what its spec states.
package podusage

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Amounts are amounts of all resources, by load.Resource: CPU in milliCPU, memory in bytes.
type Amounts [load.ResourceCount]float64

// Estimator estimates what a pod will use. The pod to place and the pods on a node go through the same Estimator.
type Estimator interface {
	// Estimate returns what the pod to place will use once it runs. It may be called from many goroutines at once.
	Estimate(pod *corev1.Pod) Amounts
	// Charge returns what other pods have to reckon with of a pod that is on a node, as long as the measurement does not cover
	// it: Estimate, but with the containers that wait in a back-off left out, and bounded, for whoever writes a pod decides
	// what it is estimated to use. It is called once for each change of such a pod, from many goroutines at once.
	Charge(pod *corev1.Pod) Amounts
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
	DefaultCPUMillis float64
	// MaxRequestRatio bounds the Charge of what states a limit: to so many times its request. ≥ 1.
	MaxRequestRatio float64
}

// Estimate implements Estimator: the sum over the pod's containers of the limit, else the request times the multiplier, else the
// default; plus the pod's overhead.
//
// Native sidecars count as containers. Ordinary init containers do not count, for they have ended once the pod runs. CPU that
// is stated for the pod as a whole, limit before request, replaces the sum, unless the API server derived it. An explicit
// zero is a statement like any other: a limit of zero allows no request but zero, so the container says that it needs
// nothing.
//
// The spec counts, not the status: a resize in progress is expected to succeed. Estimate does not allocate.
func (e BySpec) Estimate(pod *corev1.Pod) Amounts {
	cpuMillis, ok := e.podLevelMillis(&pod.Spec, math.Inf(1))
	if !ok {
		stated, silent := e.containersMillis(&pod.Spec, math.Inf(1))
		cpuMillis = stated + silent*e.DefaultCPUMillis
	}
	return Amounts{load.CPU: cpuMillis + overheadMillis(pod)}
}

// Charge implements Estimator. It is Estimate with three differences: a limit counts up to MaxRequestRatio times the request beside
// it; all containers that state nothing count the default once; and containers that do not run and are not about to count
// nothing. While there are any of these, what is stated for the pod as a whole counts up to what the others state; in full if one
// of the others states nothing, for it may use all of it.
func (e BySpec) Charge(pod *corev1.Pod) Amounts {
	starting, ok := startingPod(pod)
	if !ok {
		return Amounts{}
	}
	stated, silent := e.containersMillis(&starting.Spec, e.MaxRequestRatio)
	cpuMillis := stated + min(silent, 1)*e.DefaultCPUMillis
	if whole, ok := e.podLevelMillis(&pod.Spec, e.MaxRequestRatio); ok {
		if starting == pod || silent > 0 {
			cpuMillis = whole
		}
		cpuMillis = min(cpuMillis, whole)
	}
	return Amounts{load.CPU: cpuMillis + overheadMillis(pod)}
}

func overheadMillis(pod *corev1.Pod) float64 { return Millis(*pod.Spec.Overhead.Cpu()) }

// podLevelMillis returns the usage by what is stated for the pod as a whole, in milliCPU, and whether anything is. A limit counts
// up to maxRatio times the request beside it.
func (e BySpec) podLevelMillis(spec *corev1.PodSpec, maxRatio float64) (cpuMillis float64, ok bool) {
	if spec.Resources == nil || isDefaulted(spec) {
		return 0, false
	}
	return e.stated(spec.Resources, maxRatio)
}

// containersMillis returns the sum of what containers and native sidecars state, in milliCPU, and the number of those that state
// nothing.
func (e BySpec) containersMillis(spec *corev1.PodSpec, maxRatio float64) (stated, silent float64) {
	for i := range spec.Containers {
		stated, silent = e.add(&spec.Containers[i], maxRatio, stated, silent)
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; isSidecar(c) {
			stated, silent = e.add(c, maxRatio, stated, silent)
		}
	}
	return stated, silent
}

// add adds what the container states to the usage, or 1 to the number of containers that state nothing.
func (e BySpec) add(c *corev1.Container, maxRatio, usage, silent float64) (float64, float64) {
	if stated, ok := e.stated(&c.Resources, maxRatio); ok {
		return usage + stated, silent
	}
	return usage, silent + 1
}

// stated returns the usage by limit or request, and whether there is either.
func (e BySpec) stated(r *corev1.ResourceRequirements, maxRatio float64) (cpuMillis float64, ok bool) {
	request, requested := r.Requests[corev1.ResourceCPU]
	if limit, ok := r.Limits[corev1.ResourceCPU]; ok {
		if !requested || math.IsInf(maxRatio, 1) {
			return Millis(limit), true // the API server requests the limit where only that is stated
		}
		return min(Millis(limit), maxRatio*Millis(request)), true
	}
	if requested {
		return e.Multiplier * Millis(request), true
	}
	return 0, false
}

// isDefaulted reports whether the API server set the pod-level CPU request: it does so for a pod with another pod-level limit,
// such as memory. The default is the larger of the containers' requests and those of the init containers. It says less than
// the containers, whose limits it leaves out.
func isDefaulted(spec *corev1.PodSpec) bool {
	request, requested := spec.Resources.Requests[corev1.ResourceCPU]
	_, limited := spec.Resources.Limits[corev1.ResourceCPU]
	return requested && !limited && len(spec.Resources.Limits) > 0 && Millis(request) == containersRequestMillis(spec)
}

// containersRequestMillis is AggregateContainerRequests of component-helpers for CPU alone, without its allocations.
func containersRequestMillis(spec *corev1.PodSpec) float64 {
	var sum, sidecars, initial float64
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

func requestMillis(c *corev1.Container) float64 {
	return Millis(c.Resources.Requests[corev1.ResourceCPU])
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
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return AmountsOf(requests)
}

// Charge implements Estimator. What is stated for the pod as a whole counts as BySpec.Charge says.
func (e ByRequests) Charge(pod *corev1.Pod) Amounts {
	starting, ok := startingPod(pod)
	if !ok {
		return Amounts{}
	}
	whole := e.Estimate(starting)
	if starting == pod || starting.Spec.Resources == nil {
		return whole
	}
	containers := *starting
	containers.Spec.Resources = nil
	charge := e.Estimate(&containers)
	for r := range charge {
		if !allRequest(&starting.Spec, corev1.ResourceName(load.Resource(r).String())) {
			charge[r] = whole[r]
		}
		charge[r] = min(charge[r], whole[r])
	}
	return charge
}

// allRequest tells whether all containers and native sidecars request the resource.
func allRequest(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	silent := func(c corev1.Container) bool {
		_, ok := c.Resources.Requests[name]
		return !ok
	}
	return !slices.ContainsFunc(spec.Containers, silent) &&
		!slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool { return isSidecar(&c) && silent(c) })
}

// AmountsOf returns the amounts of all resources in the list. A resource that is not listed counts zero.
func AmountsOf(list corev1.ResourceList) Amounts {
	return Amounts{load.CPU: Millis(*list.Cpu()), load.Memory: Units(*list.Memory())}
}

// Millis returns the quantity in thousandths. What is negative counts zero, and what is beyond int64 counts the largest
// int64: Quantity.MilliValue would wrap around.
func Millis(q resource.Quantity) float64 {
	if q.CmpInt64(math.MaxInt64/1000) > 0 {
		return math.MaxInt64
	}
	return max(float64(q.MilliValue()), 0)
}

// Units returns the quantity in units, such as bytes, bounded as Millis is.
func Units(q resource.Quantity) float64 {
	if q.CmpInt64(math.MaxInt64) > 0 {
		return math.MaxInt64
	}
	return max(float64(q.Value()), 0)
}
