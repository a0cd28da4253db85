package top

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	quantities "github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Pods are pods that the load of nodes is expected from.
type Pods struct {
	View
	// Node is set where the pods are of one node.
	Node *Row `json:"node,omitempty"`
	// Pods are sorted by what is pending, the most first, then by usage.
	Pods []Pod `json:"pods"`
	// Total is the sum over the pods, and percentages are of all their nodes. Its PendingPercent is that of Node.
	Total Total `json:"total"`
	// Top is the number of pods that are printed; 0 prints all. Waiting are the pods without a node.
	Top     int          `json:"-"`
	Waiting []WaitingPod `json:"-"`
}

// Pod is what one pod is expected to use.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	// Since is the moment since when the pod runs; nil if it does not run yet.
	Since  *time.Time  `json:"since,omitempty"`
	CPU    PodResource `json:"cpu"`
	Memory PodResource `json:"memory"`
	// Replaces is set for the replacement of a pod that the rebalancer moved. Reader does not know it: Session sets it.
	Replaces *cluster.Origin `json:"replaces,omitempty"`

	uid types.UID
}

// PodResource is one resource of a Pod.
type PodResource struct {
	PodAmounts
	// State is that of the node's load.
	State string `json:"state"`
	// CoveragePercent is the share of the usage that the measurement shows.
	CoveragePercent float64 `json:"coveragePercent"`
}

// PodAmounts are amounts of one resource. Percentages are of the node's capacity; where the node's State is not Fresh, of its
// allocatable.
type PodAmounts struct {
	// Usage is what is expected. Where the node's State is not Fresh, it is the pod's request, with the scheduler's non-zero minimum.
	// Nothing is pending then.
	Usage        resource.Quantity `json:"usage"`
	UsagePercent float64           `json:"usagePercent"`
	// Pending is the part of the usage that the measurement does not show yet.
	Pending        resource.Quantity `json:"pending"`
	PendingPercent float64           `json:"pendingPercent"`
}

// Total is the sum over pods.
type Total struct {
	CPU    PodAmounts `json:"cpu"`
	Memory PodAmounts `json:"memory"`
}

// Pods returns the pods that have not ended, of the named nodes and of the namespace. Without names it returns those of all nodes,
// and without a namespace those of all. It fails if a node does not exist.
func (r *Reader) Pods(ctx context.Context, nodes []string, namespace string) (*Pods, error) {
	infos, err := r.scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) > 0 {
		if infos, err = named(infos, nodes); err != nil {
			return nil, err
		}
	}
	look := r.look()
	result := &Pods{View: look.view(), Pods: []Pod{}}
	if len(nodes) == 1 {
		result.Node = look.node(infos[0])
	}
	var usage, pending, base [load.ResourceCount]float64
	for _, info := range infos {
		line, first := look.plugin.LoadLine(look.state, info), len(result.Pods)
		for of, view := range look.views {
			of, at := load.Resource(of), first
			base[of] += line.Node[of].Base
			for _, p := range view.Pods(info) { // all views have the same pods
				if namespace != "" && p.Pod.Namespace != namespace {
					continue
				}
				if of == load.CPU {
					pod := Pod{Namespace: p.Pod.Namespace, Name: p.Pod.Name, Node: info.Node().Name, uid: p.Pod.UID}
					if !p.Since.IsZero() {
						pod.Since = new(p.Since.UTC())
					}
					result.Pods = append(result.Pods, pod)
				}
				l := &p.Resources[of]
				usage[of], pending[of] = usage[of]+l.Usage, pending[of]+l.Pending
				*result.Pods[at].resource(of) = PodResource{
					PodAmounts: amounts(of, l.Usage, l.Pending, line.Node[of].Base), State: line.Node[of].State.String(),
					CoveragePercent: 100 * l.Coverage,
				}
				at++
			}
		}
	}
	for of := range load.ResourceCount {
		*result.Total.resource(of) = amounts(of, usage[of], pending[of], base[of])
	}
	slices.SortFunc(result.Pods, func(a, b Pod) int {
		return cmp.Or(
			cmp.Compare(b.CPU.PendingPercent+b.Memory.PendingPercent, a.CPU.PendingPercent+a.Memory.PendingPercent),
			cmp.Compare(b.CPU.UsagePercent+b.Memory.UsagePercent, a.CPU.UsagePercent+a.Memory.UsagePercent),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return result, nil
}

func (p *Pod) resource(r load.Resource) *PodResource {
	return [load.ResourceCount]*PodResource{load.CPU: &p.CPU, load.Memory: &p.Memory}[r]
}

func (t *Total) resource(r load.Resource) *PodAmounts {
	return [load.ResourceCount]*PodAmounts{load.CPU: &t.CPU, load.Memory: &t.Memory}[r]
}

// amounts are given in milliCPU or bytes.
func amounts(r load.Resource, usage, pending, base float64) PodAmounts {
	return PodAmounts{
		Usage: quantity(r, quantities.Int(usage)), UsagePercent: percent(usage, base),
		Pending: quantity(r, quantities.Int(pending)), PendingPercent: percent(pending, base),
	}
}
