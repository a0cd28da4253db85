package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Consolidation names the nodes whose pods fit on other nodes.
type Consolidation struct {
	// Nodes could be removed together. They are in the order in which they were drained.
	Nodes []string `json:"nodes"`
	// Pods is the number of pods on these nodes, without DaemonSet pods and static pods.
	Pods int `json:"pods"`
	// Tried is the number of Candidates that were drained on trial.
	Tried      int `json:"tried"`
	Candidates int `json:"candidates"`
	// Stopped says why not all candidates were tried; empty if they were.
	Stopped StopReason `json:"stopped,omitempty"`
}

// String says how many of the cluster's nodes could be removed.
func (c *Consolidation) String() string {
	if len(c.Nodes) == 0 {
		return fmt.Sprintf("No node could be removed: the pods of each of %s need it%s", text.Count(c.Tried, "node"), c.partial())
	}
	return fmt.Sprintf("%s could be removed%s: %s. The pods on them (%d) fit elsewhere, and no node crosses its line",
		text.Count(len(c.Nodes), "node"), c.partial(), text.FirstN(c.Nodes), c.Pods)
}

func (c *Consolidation) partial() string {
	if c.Stopped == "" {
		return ""
	}
	return fmt.Sprintf(" (%d of %d tried: %s)", c.Tried, c.Candidates, c.Stopped)
}

// candidate is a node to drain on trial.
type candidate struct {
	node *corev1.Node
	// requestedFraction is the higher of requested cpu and memory, as a fraction of allocatable.
	requestedFraction float64
}

// consolidate drains nodes on trial, nodes with the least requests first. It undoes a drain if a pod finds no other node. It also
// does so if the other node ends above its line or 100 %.
func (r *run) consolidate(ctx context.Context) error {
	candidates, err := r.candidates(context.WithoutCancel(ctx)) // a stopped run counts them too
	if err != nil {
		return err
	}
	c := &Consolidation{Candidates: len(candidates)}
	r.Consolidation = c
	for _, candidate := range candidates {
		moved, ok, err := r.tryDrain(ctx, candidate.node)
		if c.Stopped = StoppedBy(ctx); c.Stopped != "" {
			return nil
		}
		if err != nil {
			return err
		}
		c.Tried++
		if ok {
			c.Nodes, c.Pods = append(c.Nodes, candidate.node.Name), c.Pods+moved
		}
		if r.options.Progress != nil {
			r.options.Progress(float64(c.Tried) / float64(c.Candidates))
		}
	}
	return nil
}

// candidates returns the nodes that are not new, drained or of the control plane, sorted by requests.
func (r *run) candidates(ctx context.Context) (candidates []candidate, err error) {
	nodes, err := r.scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range nodes {
		node := info.Node()
		_, controlPlane := node.Labels["node-role.kubernetes.io/control-plane"]
		drained := slices.ContainsFunc(r.plan.cordoned, func(n *corev1.Node) bool { return n.Name == node.Name })
		if controlPlane || drained || r.plan.newNodes[node.Name] {
			continue
		}
		requested, allocatable := info.GetRequested(), info.GetAllocatable()
		candidates = append(candidates, candidate{node, max(
			float64(requested.GetMilliCPU())/max(float64(allocatable.GetMilliCPU()), 1),
			float64(requested.GetMemory())/max(float64(allocatable.GetMemory()), 1))})
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.requestedFraction, b.requestedFraction), cmp.Compare(a.node.Name, b.node.Name))
	})
	return candidates, nil
}

// tryDrain moves the node's pods to other nodes, and returns their number. If the drain fails, all stay, and ok is false.
func (r *run) tryDrain(ctx context.Context, node *corev1.Node) (moved int, ok bool, err error) {
	pods, ok, err := r.movable(ctx, node.Name)
	if err != nil || !ok {
		return 0, false, err
	}
	trial := &drainTrial{run: r, node: node}
	if ok, err = trial.move(ctx, pods); err != nil || !ok {
		return 0, false, cmp.Or(trial.undo(), err)
	}
	return len(pods), true, nil
}

// movable returns the pods to move from a node, by priority. ok is false if one of them has no controller.
func (r *run) movable(ctx context.Context, name string) (pods []queued, ok bool, err error) {
	node, err := r.scheduler.NodeInfo(ctx, name)
	if err != nil {
		return nil, false, err
	}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if sim.LeavesWithNode(pod) != "" || podusage.HasEnded(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if metav1.GetControllerOfNoCopy(pod) == nil {
			return nil, false, nil
		}
		pods = append(pods, queued{pod: pod})
	}
	sortByPriority(pods)
	return pods, true, nil
}

// drainTrial is a drain that can be undone.
type drainTrial struct {
	*run
	node            *corev1.Node
	evicted, placed []*corev1.Pod
}

func (t *drainTrial) move(ctx context.Context, pods []queued) (ok bool, err error) {
	if err := t.scheduler.Update(sim.Cordoned(t.node)); err != nil {
		return false, err
	}
	for _, q := range pods {
		if err := t.scheduler.Remove(q.pod); err != nil {
			return false, err
		}
		t.evicted = append(t.evicted, q.pod)
	}
	targets := map[string]bool{}
	for _, q := range pods {
		d, err := t.scheduler.Decide(ctx, t.withSchedulerName(recreate(q.pod)))
		if err != nil || d.Node == "" {
			return false, ctx.Err()
		}
		bound, err := t.assume(context.WithoutCancel(ctx), d, false)
		if err != nil {
			return false, err
		}
		t.placed = append(t.placed, bound)
		targets[d.Node] = true
	}
	return t.below(ctx, targets)
}

// below reports whether the named nodes are below their lines and 100 %.
func (t *drainTrial) below(ctx context.Context, names map[string]bool) (bool, error) {
	lines, err := loadLines(ctx, t.scheduler, t.line)
	if err != nil {
		return false, err
	}
	for name := range names {
		line := lines[name]
		if _, utilization := highest(&line); anyAbove(line) || utilization > 1 {
			return false, nil
		}
	}
	return true, nil
}

func (t *drainTrial) undo() error {
	for _, pod := range t.placed {
		if err := t.scheduler.Remove(pod); err != nil {
			return err
		}
	}
	for _, pod := range t.evicted {
		if err := t.scheduler.Add(pod); err != nil {
			return err
		}
	}
	return t.scheduler.Update(t.node)
}

// withSchedulerName returns the pod with the schedulerName of the options, if they have one.
func (r *run) withSchedulerName(pod *corev1.Pod) *corev1.Pod {
	name := r.options.SchedulerName
	if name == "" || pod.Spec.SchedulerName == name {
		return pod
	}
	renamed := *pod
	renamed.Spec.SchedulerName = name
	return &renamed
}

// assume places the decision's pod, and returns the placed pod. inCluster reports whether it waited in the cluster.
func (r *run) assume(ctx context.Context, d *sim.Result, inCluster bool) (*corev1.Pod, error) {
	if err := r.scheduler.Assume(ctx, d); err != nil {
		return nil, err
	}
	bound := *d.Pod
	bound.Spec.NodeName = d.Node
	if inCluster {
		return &bound, r.scheduler.Update(&bound)
	}
	return &bound, r.scheduler.Add(&bound)
}
