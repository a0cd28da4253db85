// Package explain shows where the scheduler would place one pod now, and why.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Options say what is explained.
type Options struct {
	// Pod is the pod, with a UID. If it has a node, the node is ignored.
	Pod *corev1.Pod
	// InCluster reports whether the scheduler has the pod among its objects.
	InCluster bool
	// Measured is the measured usage of pods. If Measured lacks the pod, Explain estimates the pod's usage.
	Measured sim.MeasuredUsage
	// Top is the number of candidates to return at most; 0 returns all.
	Top int
}

// Explain explains where the scheduler would place the pod. Explain removes a pod that has a node from the scheduler, and does not
// add the pod again. Until Explain returns, the load of the pod's node excludes the pod's usage.
func Explain(ctx context.Context, s *sim.Scheduler, o Options) (*Explanation, error) {
	pod := o.Pod.DeepCopy()
	result := &Explanation{Profile: pod.Spec.SchedulerName, Pod: describe(o.Pod)}
	usageEstimated := false
	if pod.Spec.NodeName != "" {
		if o.InCluster {
			usage, err := s.LeavingUsageOf(ctx, []string{pod.Spec.SchedulerName}, []*corev1.Pod{o.Pod}, o.Measured)
			if err != nil {
				return nil, err
			}
			if err := s.Remove(o.Pod); err != nil {
				return nil, err
			}
			restore := usage.Publish()
			defer restore()
			usageEstimated = usage.Estimated
		}
		pod = sim.Recreate(pod)
	}
	nominated := pod.Status.NominatedNodeName
	pod.Status.NominatedNodeName = "" // the scheduler would look at that node alone
	attempts, err := sim.Attempt(ctx, pod, s.Explain, nil)
	if err != nil {
		return nil, err
	}
	d := attempts[len(attempts)-1]
	result.setRelaxed(attempts)
	ranked := candidates(d)
	result.Nodes, result.FeasibleNodes = len(d.Nodes), len(ranked)
	result.SkippedFilters, result.SkippedScores = d.SkippedFilters, d.SkippedScores
	result.ExpectedUsage = d.PodUsages
	result.RuledOut = ruledOut(d)
	result.Decision = decide(ranked)
	result.Decision.nominate(nominated, ranked)
	result.Candidates = ranked
	if o.Top > 0 {
		result.Candidates = ranked[:min(o.Top, len(ranked))]
	}
	if d.Err != nil {
		result.Decision.Event = d.Err.Error()
	}
	result.Preemption = preemptionOf(d)
	if result.Pod.Node != "" && !podusage.HasEnded(o.Pod) {
		result.Placement = placementOf(result, d)
		result.Placement.UsageEstimated = usageEstimated
	}
	result.notePod(o.Pod)
	return result, nil
}

// setRelaxed records the last attempt that skipped filters: the waived plugins, and the nodes that these had ruled out.
func (r *Explanation) setRelaxed(attempts []*sim.Result) {
	for i, d := range attempts[1:] {
		waived := Relaxed{RuledOut: ruledOut(attempts[i])}
		for _, out := range waived.RuledOut {
			if slices.Contains(d.SkippedFilters, out.Plugin) && !slices.Contains(waived.Plugins, out.Plugin) {
				waived.Plugins = append(waived.Plugins, out.Plugin)
			}
		}
		if waived.Plugins != nil {
			r.Relaxed = &waived
		}
	}
}

func describe(pod *corev1.Pod) Pod {
	return Pod{
		Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), Node: pod.Spec.NodeName,
		NominatedNode: pod.Status.NominatedNodeName, PriorityClass: pod.Spec.PriorityClassName,
		Priority: corev1helpers.PodPriority(pod),
	}
}

// ruledOut groups the nodes that filters ruled out, the largest group first.
func ruledOut(d *sim.Result) []RuledOut {
	type key struct{ plugin, reason string }
	groups := map[key]*RuledOut{}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.RuledOutBy == "" {
			continue
		}
		k := key{n.RuledOutBy, n.Reason}
		g := groups[k]
		if g == nil {
			g = &RuledOut{Plugin: k.plugin, Reason: k.reason}
			groups[k] = g
		}
		g.Count++
		g.Nodes = append(g.Nodes, RuledOutNode{Name: n.Name, Limits: n.Limits})
	}
	var all []RuledOut
	for _, g := range groups {
		slices.SortFunc(g.Nodes, func(a, b RuledOutNode) int {
			return cmp.Or(cmp.Compare(a.value(), b.value()), cmp.Compare(a.Name, b.Name))
		})
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b RuledOut) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

func candidates(d *sim.Result) []sim.NodeResult {
	ranked := slices.DeleteFunc(slices.Clone(d.Nodes), func(n sim.NodeResult) bool { return n.Rank == 0 })
	slices.SortFunc(ranked, func(a, b sim.NodeResult) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name)) })
	return ranked
}

// preemptionOf returns what preemption would do for the pod; nil if no plugin was asked.
func preemptionOf(d *sim.Result) *Preemption {
	if d.Node != "" || d.PostFilter == nil {
		return nil
	}
	p := &Preemption{Node: d.PostFilter.NominatedNode}
	if p.Node == "" { // some minor versions of Kubernetes have a message for success too
		p.Message = text.Excerpt(d.PostFilter.Status.Message())
	}
	for _, v := range d.PostFilter.Victims {
		p.Victims = append(p.Victims, Victim{Namespace: v.Namespace, Name: v.Name, Priority: corev1helpers.PodPriority(v)})
	}
	return p
}

func find(nodes []sim.NodeResult, name string) *sim.NodeResult {
	i := slices.IndexFunc(nodes, func(n sim.NodeResult) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}

// differences returns by how much each plugin scores a higher than b. Both have passed the filters.
func differences(a, b *sim.NodeResult) (all []Difference) {
	for i, s := range a.Scores {
		all = append(all, Difference{Plugin: s.Plugin, Weighted: s.Weighted - b.Scores[i].Weighted})
	}
	return all
}

func placementOf(e *Explanation, d *sim.Result) *Placement {
	p := &Placement{Node: e.Pod.Node, Differs: !slices.Contains(e.Decision.Nodes, e.Pod.Node)}
	switch n := find(d.Nodes, p.Node); {
	case n == nil:
	case n.Rank > 0:
		p.Rank, p.Behind = n.Rank, e.Decision.Total-n.Total
		if p.Differs {
			p.Differences = differences(find(d.Nodes, e.Decision.Nodes[0]), n)
		}
	default:
		p.RuledOutBy, p.Reason, p.Limits = n.RuledOutBy, n.Reason, n.Limits
	}
	return p
}

func (r *Explanation) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Explanation) notePod(pod *corev1.Pod) {
	for _, gate := range pod.Spec.SchedulingGates {
		r.note("The pod has the scheduling gate %s: it is not scheduled until the gate is removed.", text.Excerpt(gate.Name))
	}
	if pod.DeletionTimestamp != nil {
		r.note("The pod is being deleted: the scheduler does not place it.")
	}
	if podusage.HasEnded(pod) {
		r.note("The pod has ended (%s): it is explained as if it were recreated.", pod.Status.Phase)
	}
	if p := r.Placement; p != nil {
		r.note("The pod is explained as if it were not placed yet: %s counts neither its requests nor its usage.", p.Node)
		if p.UsageEstimated {
			r.note("The usage of the pod is not measured: what %s counts of it is estimated.", p.Node)
		}
	}
}
