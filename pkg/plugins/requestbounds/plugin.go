// Package requestbounds rejects pods whose requests are a thousand times what any node has.
package requestbounds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
)

// Name is the name of the plugin in configurations.
const Name = config.RequestBounds

// RequestBounds is a plugin that rejects pods with impossible requests. It is safe for concurrent use.
//
// The scheduler's sums are of int64 and wrap. Two containers with 5Ei of memory sum up to a negative request. It fits every node.
type RequestBounds struct{}

var (
	_ minor.PreFilterPlugin   = &RequestBounds{}
	_ minor.EnqueueExtensions = &RequestBounds{}
	_ minor.SignPlugin        = &RequestBounds{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Descriptor{
		Name: Name, Limits: descriptor.NoLimits,
		New: func(_ context.Context, args runtime.Object, _ minor.Handle, _ descriptor.Deps) (minor.Plugin, error) {
			if args != nil {
				return nil, errors.New("the plugin takes no arguments: remove its entry in pluginConfig")
			}
			return &RequestBounds{}, nil
		},
	}
}

func (pl *RequestBounds) Name() string { return Name }

func (pl *RequestBounds) PreFilter(
	_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	if small(pod, nodes) {
		return nil, nil
	}
	if x := beyond(pod, nodes); x != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, x.reason())
	}
	return nil, nil
}

// PreFilterExtensions returns nil: pods that come or go change neither the pod's requests nor what nodes have.
func (pl *RequestBounds) PreFilterExtensions() minor.PreFilterExtensions { return nil }

func (pl *RequestBounds) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable},
			QueueingHintFn: pl.isQueueableAfterNode,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodScaleDown},
			QueueingHintFn: pl.isQueueableAfterPodScaleDown,
		},
	}, nil
}

// isQueueableAfterNode retries the pod if the node is now large enough for one of its requests.
func (pl *RequestBounds) isQueueableAfterNode(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if grows(pod, infos(before), infos(now)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// infos returns the node alone; nothing if it is nil.
func infos(node *corev1.Node) []fwk.NodeInfo {
	if node == nil {
		return nil
	}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return []fwk.NodeInfo{info}
}

func (pl *RequestBounds) isQueueableAfterPodScaleDown(
	_ klog.Logger, pod *corev1.Pod, oldObj, newObj any,
) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if now != nil && now.UID == pod.UID {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// SignPod signs nothing: PreFilter checks every pod, also one for which a node is known from a batch.
func (pl *RequestBounds) SignPod(context.Context, *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return nil, nil
}

// factor is how many times the largest node's allocatable a pod may request. It leaves room for nodes that are yet to come.
const factor = 1000

// excess is a request beyond a bound.
type excess struct {
	name      corev1.ResourceName
	requested string
	// largest is the largest node's allocatable; nil if no node matters because the scheduler cannot hold the request.
	largest *resource.Quantity
}

func (x *excess) reason() string {
	name := text.Excerpt(string(x.name))
	if x.largest == nil {
		return fmt.Sprintf("the pod requests %s of %s, more than the scheduler can count: lower its requests", x.requested, name)
	}
	return fmt.Sprintf("the pod requests %s of %s, more than %d times what the largest node has (%s): lower its requests",
		x.requested, name, factor, x.largest)
}

// small reports that no request is beyond a bound: no list has more than an n-th of it. It does not allocate. The bound is a little
// lower than factor, so that rounding does not matter.
func small(pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	n := 0.0
	for range podrequests.Lists(pod) {
		n++
	}
	for list := range podrequests.Lists(pod) {
		for name, quantity := range list {
			need := n * inUnits(name, &quantity)
			if need < 0 || !(need < math.MaxInt64/2) { // or not a number
				return false
			}
			// A resource that no node has is NodeResourcesFit's to reject.
			if largest := largestOf(nodes, name, need/(factor-1)); largest > 0 && need > (factor-1)*float64(largest) {
				return false
			}
		}
	}
	return true
}

// beyond returns the first request, by name, that is beyond a bound; nil if there is none.
func beyond(pod *corev1.Pod, nodes []fwk.NodeInfo) *excess {
	if x := uncountable(pod); x != nil {
		return x
	}
	requests := podrequests.Of(pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		requested := requests[name]
		if requested.Cmp(*inUnit(name, math.MaxInt64)) > 0 {
			return &excess{name: name, requested: requested.String()}
		}
		if largest := largestOf(nodes, name, math.Inf(1)); largest > 0 && !covers(largest, name, requested) {
			return &excess{name: name, requested: requested.String(), largest: inUnit(name, largest)}
		}
	}
	return nil
}

// uncountable returns the first quantity that is too large to be added: 1e800000000 plus 1 takes minutes and gigabytes.
func uncountable(pod *corev1.Pod) *excess {
	for list := range podrequests.Lists(pod) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			quantity := list[name]
			if amount := quantity.AsApproximateFloat64(); !quantity.IsZero() && !(math.Abs(amount) <= 1<<63) {
				return &excess{name: name, requested: fmt.Sprintf("%.3g", amount)}
			}
		}
	}
	return nil
}

// grows reports whether the node covers a request of the pod that it did not cover before.
func grows(pod *corev1.Pod, before, now []fwk.NodeInfo) bool {
	if uncountable(pod) != nil {
		return false
	}
	for name, requested := range podrequests.Of(pod) {
		covered := covers(largestOf(before, name, math.Inf(1)), name, requested)
		if !covered && covers(largestOf(now, name, math.Inf(1)), name, requested) {
			return true
		}
	}
	return false
}

// covers reports whether the request is at most factor times what a node has. It compares exactly.
func covers(allocatable int64, name corev1.ResourceName, requested resource.Quantity) bool {
	bound := inUnit(name, allocatable)
	bound.Mul(factor)
	return requested.Cmp(*bound) <= 0
}

// largestOf returns the largest allocatable of the nodes, or the first that is enough. It is 0 if no node has the resource. The
// unit is that in which the scheduler counts.
func largestOf(nodes []fwk.NodeInfo, name corev1.ResourceName, enough float64) (largest int64) {
	for _, node := range nodes {
		largest = max(largest, allocatable(node.GetAllocatable(), name))
		if float64(largest) >= enough {
			break
		}
	}
	return largest
}

func allocatable(of fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return of.GetMilliCPU()
	case corev1.ResourceMemory:
		return of.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return of.GetEphemeralStorage()
	case corev1.ResourcePods:
		return int64(of.GetAllowedPodNumber())
	}
	return of.GetScalarResources()[name]
}

// inUnits returns the quantity in the unit in which the scheduler counts the resource.
func inUnits(name corev1.ResourceName, quantity *resource.Quantity) float64 {
	if name == corev1.ResourceCPU {
		return 1000 * quantity.AsApproximateFloat64()
	}
	return quantity.AsApproximateFloat64()
}

// inUnit returns an amount of the unit in which the scheduler counts the resource.
func inUnit(name corev1.ResourceName, amount int64) *resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return resource.NewQuantity(amount, resource.BinarySI)
	}
	return resource.NewQuantity(amount, resource.DecimalSI)
}
