package plan

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// DeletionCostAnnotation repeats the deletion cost that the rebalancer wrote. A pod whose cost differs has it from somebody else.
const DeletionCostAnnotation = "rebalancer.plimsoll.io/deletion-cost"

const (
	// maxCosts bounds the deletion costs that one step writes.
	maxCosts = 50
	// costChange is how far the load must change, in percent of capacity, until a cost is written anew.
	costChange = 10
	// costTime bounds the writes of one step, even if a webhook hangs. So a pause takes effect soon.
	costTime = 5 * time.Second
)

// Cost is a deletion cost of a pod that changes.
type Cost struct {
	Pod *corev1.Pod
	// Value is empty if the cost is removed.
	Value string
}

// CostWriter writes deletion costs.
type CostWriter interface {
	// SetDeletionCost writes the pod's cost, or removes it if it is empty. It returns false if the pod has changed, or is gone.
	SetDeletionCost(ctx context.Context, pod *corev1.Pod, cost string) (bool, error)
}

// costIsOurs reports whether the pod's cost is the rebalancer's.
func costIsOurs(pod *corev1.Pod) bool {
	written, ok := pod.Annotations[DeletionCostAnnotation]
	return ok && written == pod.Annotations[corev1.PodDeletionCost]
}

// readsCost reports whether the pod's controller reads its cost. Only that of ReplicaSets does, and ends the lowest cost first.
func readsCost(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "ReplicaSet" && pod.DeletionTimestamp == nil
}

// costs returns the deletion costs that must change, and the number of pods with a cost of the rebalancer.
func costs(ctx context.Context, cluster Cluster, p *Plan) (changes []Cost, held int, err error) {
	infos, err := cluster.Scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, 0, err
	}
	nodes := make(map[string]*LoadedNode, len(p.Nodes))
	for i := range p.Nodes {
		nodes[p.Nodes[i].Name] = &p.Nodes[i]
	}
	for _, info := range infos {
		n := nodes[info.Node().Name]
		if n == nil || !n.Known {
			continue // nothing is known: costs stay
		}
		hot := slices.Contains(p.Hot, n.Name)
		for _, of := range info.GetPods() {
			pod := of.GetPod()
			cost, exists := pod.Annotations[corev1.PodDeletionCost]
			ours := exists && costIsOurs(pod)
			if ours {
				held++
			}
			if exists && !ours || !readsCost(pod) || !slices.Contains(cluster.SchedulerNames, pod.Spec.SchedulerName) {
				continue
			}
			value := ""
			if hot {
				value = costOn(n, cost)
			}
			if value != cost {
				changes = append(changes, Cost{pod, value})
			}
		}
	}
	return changes, held, nil
}

// costOn returns the deletion cost of pods on a hot node. It is minus the load above the line, in percent of capacity. The current
// cost stays if it is close.
func costOn(n *LoadedNode, current string) string {
	_, excess := n.Excess()
	cost := -max(1, int(math.Round(100*excess)))
	if held, err := strconv.Atoi(current); err == nil && max(held-cost, cost-held) < costChange {
		return current
	}
	return strconv.Itoa(cost)
}

// isRefusal reports whether the same request would fail again. A failing or hanging webhook counts. A busy or restarting API server
// does not.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &answer) &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err)
}

// writeCosts writes deletion costs that must change, up to maxCosts and for costTime. A pod whose cost is refused is left out for a
// while. After any failure, others come first: a slow one may have taken all of the time.
func (e *Executor) writeCosts(ctx context.Context, s *Status) error {
	if s.Stop != "" || e.Config.Mode != api.DeletionCost {
		return nil
	}
	cluster, err := e.World.Cluster(ctx)
	if err != nil {
		return err
	}
	changes, held, err := costs(ctx, cluster, s.Plan)
	if err != nil {
		return err
	}
	now := e.Clock.Now()
	changes = slices.DeleteFunc(changes, func(c Cost) bool { return now.Before(e.history.costRefused[c.Pod.UID]) })
	slices.SortStableFunc(changes, func(a, b Cost) int {
		return e.history.costFailed[a.Pod.UID].Compare(e.history.costFailed[b.Pod.UID])
	})
	s.CostPods = held
	for _, c := range changes[:min(len(changes), maxCosts)] {
		left := costTime - e.Clock.Since(now)
		if left <= 0 {
			break
		}
		written, err := e.setCost(ctx, c, left)
		if err != nil {
			s.CostError = errors.Join(s.CostError, err)
		}
		if written {
			s.Costs = append(s.Costs, c)
		} else {
			noteUntil(&e.history.costFailed, c.Pod.UID, now.Add(firstBar))
		}
		late := errors.Is(err, context.DeadlineExceeded)
		if isRefusal(err) && (!late || left >= costTime/2) { // with less time, a sound request may be late
			noteUntil(&e.history.costRefused, c.Pod.UID, now.Add(firstBar))
		}
		if late {
			break
		}
	}
	return nil
}

// setCost writes the deletion cost within the time that is left.
func (e *Executor) setCost(ctx context.Context, c Cost, left time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return e.Costs.SetDeletionCost(ctx, c.Pod, c.Value)
}
