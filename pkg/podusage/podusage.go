// Package podusage estimates the usage of a pod by its spec.
package podusage

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
)

// Amounts are amounts of all resources, by load.Resource: CPU in milliCPU, memory in bytes.
type Amounts [load.ResourceCount]float64

// Estimator estimates the usage of pods. The pod to place and the pods on a node go through the same Estimator. Its methods are
// called from many goroutines at once.
type Estimator interface {
	// Estimate returns the usage of the pod to place once it runs.
	Estimate(pod *corev1.Pod) Amounts
	// PendingUsage returns the usage of a pod on a node that is reserved until it is measured. It is Estimate without the containers
	// in a back-off, and bounded: users could otherwise block nodes by absurd specs.
	PendingUsage(pod *corev1.Pod) Amounts
	// Explain returns the summands of Estimate, by load.Resource.
	Explain(pod *corev1.Pod) [load.ResourceCount]Explanation
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
	// DefaultCPUMillis is the usage of a container without limit and request, in milliCPU. ≥ 0.
	DefaultCPUMillis float64
	// MaxRequestRatio bounds the PendingUsage of containers with a limit: to so many times its request. ≥ 1.
	MaxRequestRatio float64
}

// Estimate implements Estimator: Stated, plus the default for each container without limit and request. It does not allocate.
func (e BySpec) Estimate(pod *corev1.Pod) Amounts {
	stated, silent := e.Stated(pod, pod, load.CPU, math.Inf(1))
	return Amounts{load.CPU: stated + silent*e.DefaultCPUMillis}
}

// PendingUsage implements Estimator. It is Estimate with three differences:
//
//   - A limit counts up to MaxRequestRatio times the request beside it.
//   - The default counts once for all containers without limit and request.
//   - Containers that neither run nor start count zero.
func (e BySpec) PendingUsage(pod *corev1.Pod) Amounts {
	starting, ok := StartingPod(pod)
	if !ok {
		return Amounts{}
	}
	stated, silent := e.Stated(pod, starting, load.CPU, e.MaxRequestRatio)
	return Amounts{load.CPU: stated + min(silent, 1)*e.DefaultCPUMillis}
}

// Stated returns what the pod will use of the resource by what its spec states, in milliCPU or bytes: the sum over the containers
// of starting, which StartingPod returns, of the limit, else the request times the multiplier; plus the pod's overhead. silent is
// the number of containers that state neither.
//
//   - Native sidecars count as containers. Ordinary init containers do not: they have ended once the pod runs.
//   - Pod-level resources, limit before request, replace the sum, unless the API server derived them.
//   - While some containers are down, pod-level resources are capped at the sum of the others, if all of those are set.
//   - An explicit zero counts.
//   - The spec counts, not the status: a resize in progress is expected to succeed.
//   - A limit counts up to maxRatio times the request beside it.
//
// Stated does not allocate.
func (e BySpec) Stated(pod, starting *corev1.Pod, r load.Resource, maxRatio float64) (usage, silent float64) {
	return e.statedIn(pod, starting, r, maxRatio, nil)
}

// statedIn is Stated, and records in parts, unless that is nil, what the usage is the sum of. Containers that state nothing are
// recorded with an amount of 0.
func (e BySpec) statedIn(pod, starting *corev1.Pod, r load.Resource, maxRatio float64, parts *[]Part) (usage, silent float64) {
	usage, silent = e.containers(&starting.Spec, r, maxRatio, parts)
	if whole, by := e.podLevel(&pod.Spec, r, maxRatio); by != byNothing {
		if starting == pod || silent > 0 {
			usage = whole
		}
		usage, silent = min(usage, whole), 0
		if parts != nil {
			*parts = []Part{{Amount: usage, Basis: e.basis(by, "the pod")}}
		}
	}
	overhead := amountIn(pod.Spec.Overhead, r)
	if parts != nil && overhead > 0 {
		*parts = append(*parts, Part{Amount: overhead, Basis: "overhead of the pod"})
	}
	return usage + overhead, silent
}

// podLevel returns the usage by what is stated for the pod as a whole.
func (e BySpec) podLevel(spec *corev1.PodSpec, r load.Resource, maxRatio float64) (usage float64, by statement) {
	if spec.Resources == nil || isDefaulted(spec, r) {
		return 0, byNothing
	}
	return e.stated(spec.Resources, r, maxRatio)
}

// containers returns the sum of what containers and native sidecars state, and the number of those that state nothing.
func (e BySpec) containers(spec *corev1.PodSpec, r load.Resource, maxRatio float64, parts *[]Part) (usage, silent float64) {
	for i := range spec.Containers {
		usage, silent = e.add(&spec.Containers[i], r, maxRatio, usage, silent, parts)
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; isSidecar(c) {
			usage, silent = e.add(c, r, maxRatio, usage, silent, parts)
		}
	}
	return usage, silent
}

// add adds what the container states to the usage, or 1 to the number of containers that state nothing.
func (e BySpec) add(c *corev1.Container, r load.Resource, maxRatio, usage, silent float64, parts *[]Part) (float64, float64) {
	stated, by := e.stated(&c.Resources, r, maxRatio)
	if parts != nil {
		*parts = append(*parts, Part{Amount: stated, Basis: e.basis(by, "container "+c.Name), silent: by == byNothing})
	}
	if by == byNothing {
		silent++
	}
	return usage + stated, silent
}

// statement is what of a spec an amount follows from.
type statement int

const (
	byNothing statement = iota
	byLimit
	byRequest
)

// stated returns the usage by limit or request.
func (e BySpec) stated(requirements *corev1.ResourceRequirements, r load.Resource, maxRatio float64) (usage float64, by statement) {
	request, requested := quantityIn(requirements.Requests, r)
	if limit, ok := quantityIn(requirements.Limits, r); ok {
		if !requested || math.IsInf(maxRatio, 1) {
			return amountOf(limit, r), byLimit // the API server requests the limit where only that is stated
		}
		return min(amountOf(limit, r), maxRatio*amountOf(request, r)), byLimit
	}
	if requested {
		return e.Multiplier * amountOf(request, r), byRequest
	}
	return 0, byNothing
}

// Request returns what the pod requests of the resource, in milliCPU or bytes, as ByRequests estimates it, but by the pod's spec
// alone. It does not allocate.
func Request(pod *corev1.Pod, r load.Resource) float64 {
	request := containersRequest(&pod.Spec, r)
	if whole := pod.Spec.Resources; whole != nil {
		if stated, ok := quantityIn(whole.Requests, r); ok {
			request = amountOf(stated, r)
		}
	}
	return request + amountIn(pod.Spec.Overhead, r)
}

// Limit returns the most that the pod may use of the resource, in milliCPU or bytes: the limit that is stated for the pod as a
// whole, or the sum of its containers' and native sidecars', whichever is less, plus the pod's overhead. It is +Inf where a
// container has no limit. A limit of zero is none: that is how the kubelet takes it.
func Limit(pod *corev1.Pod, r load.Resource) float64 {
	spec, sum := &pod.Spec, 0.0
	for i := range spec.Containers {
		sum += limitOf(&spec.Containers[i].Resources, r)
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; isSidecar(c) {
			sum += limitOf(&c.Resources, r)
		}
	}
	if spec.Resources != nil {
		sum = min(sum, limitOf(spec.Resources, r))
	}
	return sum + amountIn(spec.Overhead, r)
}

func limitOf(requirements *corev1.ResourceRequirements, r load.Resource) float64 {
	if limit := amountIn(requirements.Limits, r); limit > 0 {
		return limit
	}
	return math.Inf(1)
}

// StatedLimit returns the sum of the limits that the pod states of the resource, in milliCPU or bytes, as the scheduler sums up
// requests: what is stated for the pod as a whole, or the larger of the limits of containers with native sidecars and those of
// ordinary init containers; plus the pod's overhead. A container without a limit counts zero. It does not allocate.
func StatedLimit(pod *corev1.Pod, r load.Resource) float64 {
	limit := containersSum(&pod.Spec, r, limitsOf)
	if whole := pod.Spec.Resources; whole != nil {
		if stated, ok := quantityIn(whole.Limits, r); ok {
			limit = amountOf(stated, r)
		}
	}
	return limit + amountIn(pod.Spec.Overhead, r)
}

// isDefaulted reports whether the API server set the pod-level request: it does so for a pod with a pod-level limit of another
// resource. The default is the larger of the containers' requests and those of the init containers. It says less than the
// containers, whose limits it leaves out.
func isDefaulted(spec *corev1.PodSpec, r load.Resource) bool {
	request, requested := quantityIn(spec.Resources.Requests, r)
	_, limited := quantityIn(spec.Resources.Limits, r)
	return requested && !limited && len(spec.Resources.Limits) > 0 && amountOf(request, r) == containersRequest(spec, r)
}

func requestsOf(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }

func limitsOf(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }

func containersRequest(spec *corev1.PodSpec, r load.Resource) float64 {
	return containersSum(spec, r, requestsOf)
}

// containersSum is AggregateContainerRequests or AggregateContainerLimits of component-helpers for one resource, without their
// allocations.
func containersSum(spec *corev1.PodSpec, r load.Resource, stated func(*corev1.Container) corev1.ResourceList) float64 {
	var sum, sidecars, initial float64
	for i := range spec.Containers {
		sum += amountIn(stated(&spec.Containers[i]), r)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		amount := amountIn(stated(c), r)
		initial = max(initial, sidecars+amount)
		if isSidecar(c) {
			sidecars += amount
		}
	}
	return max(sum+sidecars, initial)
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// ByRequests estimates that a pod uses what it requests, as the scheduler counts it: the larger of the requests of containers
// with native sidecars and those of ordinary init containers, or the requests stated for the pod as a whole; plus the pod's
// overhead. While a running pod is being resized, the larger of old and new requests counts.
type ByRequests struct {
	// Default is the usage, of each resource, of a pod that requests none of it. ≥ 0.
	Default Amounts
}

// Estimate implements Estimator. It allocates a few small maps.
func (e ByRequests) Estimate(pod *corev1.Pod) Amounts {
	requests := AmountsOf(podrequests.Of(pod))
	for r := range requests {
		if requests[r] == 0 {
			requests[r] = e.Default[r]
		}
	}
	return requests
}

// PendingUsage implements Estimator. What is stated for the pod as a whole counts as BySpec.PendingUsage says.
func (e ByRequests) PendingUsage(pod *corev1.Pod) Amounts {
	starting, ok := StartingPod(pod)
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

// allRequest reports whether all containers and native sidecars request the resource.
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

// quantityIn returns the resource's quantity in the list, and whether it is listed.
func quantityIn(list corev1.ResourceList, r load.Resource) (resource.Quantity, bool) {
	name := corev1.ResourceCPU
	if r == load.Memory {
		name = corev1.ResourceMemory
	}
	quantity, ok := list[name]
	return quantity, ok
}

// amountIn returns the resource's amount in the list, in milliCPU or bytes; 0 if it is not listed.
func amountIn(list corev1.ResourceList, r load.Resource) float64 {
	if quantity, ok := quantityIn(list, r); ok {
		return amountOf(quantity, r)
	}
	return 0
}

// amountOf returns the quantity in milliCPU or bytes.
func amountOf(q resource.Quantity, r load.Resource) float64 {
	if r == load.CPU {
		return Millis(q)
	}
	return Units(q)
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
