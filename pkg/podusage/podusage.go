// Package podusage estimates the usage of a pod by its spec.
package podusage

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
	// in a back-off, and bounded: users could otherwise block nodes by absurd specs. byDefault is the part of it that is assumed
	// for missing requests and limits: see MaxForeignDefault.
	PendingUsage(pod *corev1.Pod) (usage, byDefault Amounts)
	// Explain returns the summands of Estimate, by load.Resource.
	Explain(pod *corev1.Pod) [load.ResourceCount]Breakdown
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
	// MaxRequestRatio bounds the PendingUsage of a container with a limit: to this multiple of its request. ≥ 1.
	MaxRequestRatio float64
}

// Estimate implements Estimator: FromSpec, plus the default for each container without limit and request. It does not allocate.
func (e BySpec) Estimate(pod *corev1.Pod) Amounts {
	usage, unset := e.FromSpec(pod, pod, load.CPU, math.Inf(1), nil)
	return Amounts{load.CPU: usage + unset*e.DefaultCPUMillis}
}

// PendingUsage implements Estimator. It is Estimate with these differences:
//
//   - A limit counts up to MaxRequestRatio times the request beside it.
//   - The default counts once for all containers without limit and request.
//   - Containers that neither run nor start count zero.
//   - An infeasible resize does not count.
func (e BySpec) PendingUsage(pod *corev1.Pod) (usage, byDefault Amounts) {
	pod = WithoutInfeasibleResize(pod)
	starting, ok := StartingPod(pod)
	if !ok {
		return Amounts{}, Amounts{}
	}
	fromSpec, unset := e.FromSpec(pod, starting, load.CPU, e.MaxRequestRatio, nil)
	byDefault[load.CPU] = min(unset, 1) * e.DefaultCPUMillis
	usage[load.CPU] = fromSpec + byDefault[load.CPU]
	return usage, byDefault
}

// FromSpec returns the usage by the pod's spec, in milliCPU or bytes, plus the pod's overhead. It sums over the containers
// of StartingPod: the limit, else the request times the multiplier. unset counts containers without both.
//
//   - Native sidecars count as containers. Ordinary init containers do not: they have ended once the pod runs.
//   - Pod-level resources, limit before request, replace the sum, unless the API server derived them.
//   - While some containers are down, pod-level resources are capped at the others' sum, if all are set.
//   - An explicit zero counts.
//   - The spec counts, not the status: a resize in progress is expected to succeed. See WithoutInfeasibleResize.
//   - A limit counts up to maxRatio times the request beside it.
//
// FromSpec records the summands in parts, where containers without limit and request have an amount of 0. It does not allocate if
// parts is nil.
func (e BySpec) FromSpec(pod, starting *corev1.Pod, r load.Resource, maxRatio float64, parts *[]Part) (usage, unset float64) {
	usage, unset = e.containers(&starting.Spec, r, maxRatio, parts)
	if whole, by := e.podLevel(&pod.Spec, r, maxRatio); by != byNothing {
		if starting == pod || unset > 0 {
			usage = whole
		}
		usage, unset = min(usage, whole), 0
		if parts != nil {
			*parts = []Part{{Amount: usage, Basis: e.basis(by, "the pod")}}
		}
	}
	overhead := amountIn(pod.Spec.Overhead, r)
	if parts != nil && overhead > 0 {
		*parts = append(*parts, Part{Amount: overhead, Basis: "overhead of the pod"})
	}
	return usage + overhead, unset
}

func (e BySpec) podLevel(spec *corev1.PodSpec, r load.Resource, maxRatio float64) (usage float64, by basis) {
	if spec.Resources == nil || isDefaulted(spec, r) {
		return 0, byNothing
	}
	return e.fromResources(spec.Resources, r, maxRatio)
}

func (e BySpec) containers(spec *corev1.PodSpec, r load.Resource, maxRatio float64, parts *[]Part) (usage, unset float64) {
	add := func(c *corev1.Container) {
		amount, by := e.fromResources(&c.Resources, r, maxRatio)
		if parts != nil {
			*parts = append(*parts, Part{Amount: amount, Basis: e.basis(by, "container "+c.Name), unset: by == byNothing})
		}
		if by == byNothing {
			unset++
		}
		usage += amount
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; isSidecar(c) {
			add(c)
		}
	}
	return usage, unset
}

type basis int

const (
	byNothing basis = iota
	byLimit
	byRequest
)

func (e BySpec) fromResources(
	requirements *corev1.ResourceRequirements, r load.Resource, maxRatio float64,
) (usage float64, by basis) {
	request, requested := quantityIn(requirements.Requests, r)
	if limit, ok := quantityIn(requirements.Limits, r); ok {
		if !requested || math.IsInf(maxRatio, 1) {
			return amountOf(limit, r), byLimit // the API server copies a limit without request to the request
		}
		return CapLimit(amountOf(limit, r), amountOf(request, r), maxRatio), byLimit
	}
	if requested {
		return e.Multiplier * amountOf(request, r), byRequest
	}
	return 0, byNothing
}

// Request returns the pod's request, in milliCPU or bytes. Unlike ByRequests it ignores the status. It does not allocate.
func Request(pod *corev1.Pod, r load.Resource) float64 { return podSum(pod, r, requestsOf) }

// Limit returns the pod's maximal usage, in milliCPU or bytes: the smaller of pod-level limit and sum, plus overhead.
// The sum is that of containers and native sidecars, or +Inf where one has no limit.
// As in the kubelet, a limit of zero is none.
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

// SpecLimit sums the pod's limits, in milliCPU or bytes, as the scheduler sums requests. It does not allocate. If a container, or
// init container, has no limit, the sum is 0, unless the pod as a whole has one. So do component-helpers from Kubernetes 1.38 on.
func SpecLimit(pod *corev1.Pod, r load.Resource) float64 {
	if !isLimited(&pod.Spec, r) {
		return 0
	}
	return podSum(pod, r, limitsOf)
}

func isLimited(spec *corev1.PodSpec, r load.Resource) bool {
	if spec.Resources != nil {
		if _, ok := quantityIn(spec.Resources.Limits, r); ok {
			return true
		}
	}
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if amountIn(containers[i].Resources.Limits, r) == 0 {
				return false
			}
		}
	}
	return true
}

// isDefaulted reports whether the API server set the pod-level request from the containers' requests.
// It does so for a pod with a pod-level limit of another resource. The containers' own resources count instead.
func isDefaulted(spec *corev1.PodSpec, r load.Resource) bool {
	request, requested := quantityIn(spec.Resources.Requests, r)
	_, limited := quantityIn(spec.Resources.Limits, r)
	return requested && !limited && len(spec.Resources.Limits) > 0 && amountOf(request, r) == containersSum(spec, r, requestsOf)
}

func requestsOf(resources *corev1.ResourceRequirements) corev1.ResourceList {
	return resources.Requests
}

func limitsOf(resources *corev1.ResourceRequirements) corev1.ResourceList { return resources.Limits }

// podSum is PodRequests or PodLimits of component-helpers for one resource, by the spec alone.
func podSum(pod *corev1.Pod, r load.Resource, listOf func(*corev1.ResourceRequirements) corev1.ResourceList) float64 {
	sum := containersSum(&pod.Spec, r, listOf)
	if pod.Spec.Resources != nil {
		if quantity, ok := quantityIn(listOf(pod.Spec.Resources), r); ok {
			sum = amountOf(quantity, r)
		}
	}
	return sum + amountIn(pod.Spec.Overhead, r)
}

// containersSum is AggregateContainerRequests or AggregateContainerLimits for one resource, without their allocations.
func containersSum(spec *corev1.PodSpec, r load.Resource, listOf func(*corev1.ResourceRequirements) corev1.ResourceList) float64 {
	var sum, sidecars, initial float64
	for i := range spec.Containers {
		sum += amountIn(listOf(&spec.Containers[i].Resources), r)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		amount := amountIn(listOf(&c.Resources), r)
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

// ByRequests estimates that a pod uses its requests, as the scheduler counts them.
// While a running pod is being resized, the larger of old and new requests counts.
type ByRequests struct {
	// Default is the usage, of each resource, of a pod that requests none of it. ≥ 0.
	Default Amounts
}

// Estimate implements Estimator. It allocates only during a resize.
func (e ByRequests) Estimate(pod *corev1.Pod) Amounts {
	requests := countedRequests(pod)
	for r := range requests {
		if requests[r] == 0 {
			requests[r] = e.Default[r]
		}
	}
	return requests
}

// countedRequests returns what the scheduler counts for the pod: podrequests.Of, without its allocations for most pods.
func countedRequests(pod *corev1.Pod) (requests Amounts) {
	infeasible := isInfeasible(pod)
	for r := range load.ResourceCount {
		requests[r] = min(Request(pod, r), math.MaxInt64)
		if infeasible || statusDiffers(pod, r, requests[r]) {
			return AmountsOf(podrequests.Of(pod))
		}
	}
	return requests
}

// PendingUsage implements Estimator. Pod-level requests count as in BySpec.PendingUsage.
func (e ByRequests) PendingUsage(pod *corev1.Pod) (usage, byDefault Amounts) {
	usage = e.pendingUsage(pod)
	if e.Default == (Amounts{}) {
		return usage, Amounts{}
	}
	requests := PendingRequest(pod)
	for r := range usage {
		byDefault[r] = max(usage[r]-requests[r], 0)
	}
	return usage, byDefault
}

// PendingRequest is the request of the pod's containers that run or are about to start. Ended init containers do not count.
func PendingRequest(pod *corev1.Pod) Amounts { return ByRequests{}.pendingUsage(pod) }

func (e ByRequests) pendingUsage(pod *corev1.Pod) Amounts {
	pod = withoutEndedInit(pod)
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
	pending := e.Estimate(&containers)
	for r := range pending {
		if !allRequest(&starting.Spec, corev1.ResourceName(load.Resource(r).String())) {
			pending[r] = whole[r]
		}
		pending[r] = min(pending[r], whole[r])
	}
	return pending
}

func allRequest(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	unset := func(c corev1.Container) bool {
		_, ok := c.Resources.Requests[name]
		return !ok
	}
	return !slices.ContainsFunc(spec.Containers, unset) &&
		!slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool { return isSidecar(&c) && unset(c) })
}

// AmountsOf returns the amounts of all resources in the list. A resource that is not listed counts zero.
func AmountsOf(list corev1.ResourceList) Amounts {
	return Amounts{load.CPU: Millis(*list.Cpu()), load.Memory: Units(*list.Memory())}
}

func quantityIn(list corev1.ResourceList, r load.Resource) (resource.Quantity, bool) {
	name := corev1.ResourceCPU
	if r == load.Memory {
		name = corev1.ResourceMemory
	}
	quantity, ok := list[name]
	return quantity, ok
}

func amountIn(list corev1.ResourceList, r load.Resource) float64 {
	if quantity, ok := quantityIn(list, r); ok {
		return amountOf(quantity, r)
	}
	return 0
}

func amountOf(q resource.Quantity, r load.Resource) float64 {
	if r == load.CPU {
		return Millis(q)
	}
	return Units(q)
}

// Millis returns the quantity in thousandths, cut off at zero and at the largest int64.
// Quantity.MilliValue would wrap around.
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

// HasEnded reports whether the pod has succeeded or failed, and uses nothing anymore.
func HasEnded(pod *corev1.Pod) bool { return IsEnd(pod.Status.Phase) }

// IsEnd reports whether pods in the phase have ended.
func IsEnd(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// MaxLimitRatio caps a pod's limit at this multiple of its request. It is the default of maxLimitRequestRatio.
const MaxLimitRatio = 10

// CapLimit returns how much of a limit counts beside the request: up to maxRatio times the request. The API server accepts any
// limit above the request, so it says little of what a pod may use. Amounts are in milliCPU or bytes; limit may be +Inf.
func CapLimit(limit, request, maxRatio float64) float64 { return min(limit, maxRatio*request) }

// Claim is the part of a node's resource that one pod claims, in milliCPU or bytes. Limit is at least Request.
type Claim struct{ Request, Limit float64 }

// ClaimOf returns a claim on a node with the given allocatable. A single pod claims at most all of the node, even by a request
// that the scheduler would refuse. limit may be +Inf.
func ClaimOf(request, limit, allocatable float64) Claim {
	request = min(request, allocatable)
	return Claim{Request: request, Limit: max(request, min(CapLimit(limit, request, MaxLimitRatio), allocatable))}
}

// MaxForeignDefault bounds, in milliCPU or bytes, what pods without requests and limits count to pods of other namespaces. All of
// one namespace on a node share it. One of them counts as much in the stock scheduler. They cost their author nothing, so no number
// of them must repel others.
func MaxForeignDefault(r load.Resource) float64 {
	return Amounts{load.CPU: 100, load.Memory: 200 << 20}[r]
}

// Capacity is what all processes of a node can use, in milliCPU and bytes. Memory that is set aside for huge pages is not part of
// it.
type Capacity struct {
	Amounts   Amounts
	hugePages float64
}

// CapacityOf returns the capacity of the Node. A resource that the Node does not report has an amount of 0.
func CapacityOf(node *corev1.Node) Capacity {
	all := node.Status.Capacity
	c := Capacity{Amounts: Amounts{
		load.CPU: 1000 * max(all.Cpu().AsApproximateFloat64(), 0), load.Memory: max(all.Memory().AsApproximateFloat64(), 0),
	}}
	for name, pages := range all {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			c.hugePages += max(pages.AsApproximateFloat64(), 0)
		}
	}
	c.hugePages = min(c.hugePages, c.Amounts[load.Memory])
	c.Amounts[load.Memory] -= c.hugePages
	return c
}

// Of returns a mean that counts huge pages as used and as capacity, as one minus MemAvailable over MemTotal does, as a fraction of
// the capacity.
func (c *Capacity) Of(r load.Resource, mean float64) float64 {
	if r != load.Memory || c.hugePages == 0 {
		return mean
	}
	return max(c.Spread(r, mean)-c.hugePages/c.Amounts[r], 0)
}

// Spread is Of for a deviation.
func (c *Capacity) Spread(r load.Resource, deviation float64) float64 {
	if r != load.Memory || c.hugePages == 0 {
		return deviation
	}
	return deviation * (c.Amounts[r] + c.hugePages) / c.Amounts[r]
}

// Part is one summand of an estimate.
type Part struct {
	// Amount is in milliCPU or bytes.
	Amount float64 `json:"amount"`
	// Basis says where the amount comes from, such as "limit of container app".
	Basis string `json:"basis"`

	unset bool
}

// Breakdown shows how the estimate of one resource is made up.
type Breakdown struct {
	// Parts add up to the estimate.
	Parts []Part `json:"parts,omitempty"`
	// Peak adds up to the predicted 95th percentile of the pod's usage; nil where the Estimator predicts no peaks.
	Peak []Part `json:"peakParts,omitempty"`
}

func (e BySpec) Explain(pod *corev1.Pod) (x [load.ResourceCount]Breakdown) {
	x[load.CPU].Parts = e.Parts(pod, load.CPU, e.DefaultCPUMillis)
	return x
}

// Parts returns the summands of FromSpec. A container with neither limit nor request counts defaultAmount, in milliCPU or bytes.
func (e BySpec) Parts(pod *corev1.Pod, r load.Resource, defaultAmount float64) []Part {
	var parts []Part
	e.FromSpec(pod, pod, r, math.Inf(1), &parts)
	for i := range parts {
		if parts[i].unset {
			parts[i].Amount = defaultAmount
		}
	}
	return parts
}

func (e BySpec) basis(by basis, of string) string {
	switch {
	case by == byLimit:
		return "limit of " + of
	case by == byRequest && e.Multiplier == 1:
		return "request of " + of
	case by == byRequest:
		return fmt.Sprintf("%g × request of %s", e.Multiplier, of)
	}
	return "default: " + of + " has neither limit nor request"
}

func (e ByRequests) Explain(pod *corev1.Pod) (x [load.ResourceCount]Breakdown) {
	requests := ByRequests{}.Estimate(pod)
	for r, amount := range e.Estimate(pod) {
		basis := "request of the pod"
		switch {
		case requests[r] > 0:
		case amount > 0:
			basis = fmt.Sprintf("default: the pod has no %s request", load.Resource(r))
		default:
			basis = fmt.Sprintf("the pod has no %s request", load.Resource(r))
		}
		x[r].Parts = []Part{{Amount: amount, Basis: basis}}
	}
	return x
}
