package whatif

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// RunOptions say how a Plan is run.
type RunOptions struct {
	// Profiles are the names of all profiles, in the order of the configuration.
	Profiles []string
	// Usages are the measured usages of pods; nil if unknown.
	Usages sim.MeasuredUsage
	// Groups are those of the pods to place; nil if they have none.
	Groups cluster.PodGroups
}

// Run applies the plan to s, which has the objects of NewPlan, and places the pods.
func (p *Plan) Run(ctx context.Context, s *sim.Scheduler, o RunOptions) (*Outcome, error) {
	r, err := p.prepare(ctx, s, o)
	if err != nil {
		return nil, err
	}
	if err := r.decideAll(ctx, slices.Clone(p.queue)); err != nil {
		return nil, err
	}
	return r.Outcome, r.report(ctx)
}

func (p *Plan) prepare(ctx context.Context, s *sim.Scheduler, o RunOptions) (*run, error) {
	out := &Outcome{}
	r := &run{Outcome: out, plan: p, scheduler: s, options: &o, placed: map[types.UID]*Placement{}, failures: map[string]*failure{}}
	out.Profile, r.line = s.FirstLoadReader(slices.Concat(p.SchedulerNames(), o.Profiles))
	if r.line != nil {
		out.LinePlugin, out.LineQuantile = r.line.Name(), r.line.Reader().Request().Fraction
	}
	if out.LineQuantile > 0 && p.Evicts() {
		out.note("%s compares quantile %g of the load with the line. Usage of evicted pods cannot be subtracted from quantiles: "+
			"their nodes count as if the pods still ran there, and may have more room.", out.LinePlugin, out.LineQuantile)
	}
	var err error
	if out.before, err = loadLines(ctx, s, r.line); err != nil {
		return nil, err
	}
	return r, errors.Join(p.apply(ctx, s, &o), p.countGroups(o.Groups, s))
}

func (p *Plan) apply(ctx context.Context, s *sim.Scheduler, o *RunOptions) error {
	usage, err := s.LeavingUsageOf(ctx, o.Profiles, p.evicted, o.Usages)
	if err != nil {
		return err
	}
	if err := s.Add(p.added...); err != nil {
		return err
	}
	for _, node := range p.cordoned {
		if err := s.Update(node); err != nil {
			return err
		}
	}
	for _, pod := range p.evicted {
		if err := s.Remove(pod); err != nil {
			return err
		}
	}
	for _, publisher := range usage.Publishers() {
		p.publishChanged(publisher, usage)
	}
	return nil
}

type run struct {
	*Outcome
	plan      *Plan
	scheduler *sim.Scheduler
	// line is the plugin of LinePlugin; nil if there is none.
	line    explain.LoadReader
	options *RunOptions
	placed  map[types.UID]*Placement
	order   []*Placement
	// failures are the last failures by owner. changes counts placed and preempted pods.
	failures map[string]*failure
	changes  int
}

// failure says why a pod found no node, when run.changes was changes.
type failure struct {
	reason  string
	changes int
}

// decideAll places the pods of the queue: those of a group together, and others one after the other.
func (r *run) decideAll(ctx context.Context, queue []queued) error {
	for done := 0; done < len(queue); {
		next := r.together(queue[done:])
		done += len(next)
		victims, err := r.place(ctx, next)
		if err != nil {
			return err
		}
		if len(victims) > 0 {
			queue = append(queue, victims...)
			sortByPriority(queue[done:])
		}
	}
	r.Pods = len(queue)
	for _, placement := range r.order {
		if placement.Node != "" { // it was not preempted since
			r.Placements = append(r.Placements, *placement)
		}
	}
	r.Placed = len(r.Placements)
	return nil
}

// together moves the pods of the first one's group to the front of the queue, and returns them; the first alone if it has none.
func (r *run) together(queue []queued) []queued {
	group, n := r.options.Groups.Of(queue[0].pod), 1
	for i := 1; group != nil && i < len(queue); i++ {
		if q := queue[i]; r.options.Groups.Of(q.pod) == group {
			copy(queue[n+1:i+1], queue[n:i])
			queue[n] = q
			n++
		}
	}
	return queue[:n]
}

// place places the pods for which there is a node or, if they are too few for the minimum of their group, none. It returns the pods
// that were preempted.
func (r *run) place(ctx context.Context, pods []queued) ([]queued, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	group := r.options.Groups.Of(pods[0].pod)
	if group != nil && !slices.Contains(r.Groups, group) {
		r.Groups = append(r.Groups, group)
	}
	var tried []*corev1.Pod
	of := map[types.UID]queued{}
	for _, q := range pods {
		q.pod = r.withSchedulerName(q.pod)
		if why := r.hopeless(&q, group); why != "" {
			r.fail(q, why)
			continue
		}
		tried, of[q.pod.UID] = append(tried, q.pod), q
	}
	placed, err := r.scheduler.PlaceGroup(ctx, tried)
	if err != nil {
		return nil, err
	}
	for _, d := range placed.Failed {
		r.fail(of[d.Pod.UID], reasonOf(d))
	}
	if group != nil && len(tried) > 0 && !group.Try(len(placed.Placed), len(placed.Victims)) {
		for _, d := range placed.Placed {
			r.fail(of[d.Pod.UID], group.String())
		}
		return nil, placed.Undo(ctx)
	}
	r.Relaxed += placed.Relaxed
	again := r.preempt(placed.Victims)
	for _, d := range placed.Placed {
		if err := r.bind(of[d.Pod.UID], d); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// hopeless says why the pod is not tried; empty if it is.
func (r *run) hopeless(q *queued, group *cluster.PodGroup) string {
	last := r.failures[q.owner]
	switch {
	case len(q.pod.Spec.SchedulingGates) > 0:
		return "it waits for its scheduling gates: " + q.pod.Spec.SchedulingGates[0].Name
	case group.Incomplete():
		return group.String()
	case group == nil && q.alike && last != nil && last.changes == r.changes:
		return last.reason // nothing has changed since an equal pod failed
	}
	return ""
}

func (r *run) withSchedulerName(pod *corev1.Pod) *corev1.Pod {
	name := r.plan.SchedulerName
	if name == "" || pod.Spec.SchedulerName == name {
		return pod
	}
	renamed := *pod
	renamed.Spec.SchedulerName = name
	return &renamed
}

func (r *run) bind(q queued, d *sim.Result) error {
	r.changes++
	bound := *d.Pod
	bound.Spec.NodeName = d.Node
	place := r.scheduler.Update
	if !q.inCluster {
		place = func(pod runtime.Object) error { return r.scheduler.Add(pod) }
	}
	if err := place(&bound); err != nil {
		return err
	}
	placement := &Placement{Pod: q.pod.Namespace + "/" + q.pod.Name, Of: q.owner, Node: d.Node}
	r.placed[q.pod.UID] = placement
	r.order = append(r.order, placement)
	return nil
}

// preempt records removed victims, and returns the pods that their owners create instead. Victims without an owner are lost.
func (r *run) preempt(victims []*corev1.Pod) (again []queued) {
	for _, victim := range victims {
		r.changes++
		name := victim.Namespace + "/" + victim.Name
		r.Preempted = append(r.Preempted, name)
		if placement := r.placed[victim.UID]; placement != nil {
			placement.Node = ""
		}
		recreated := metav1.GetControllerOfNoCopy(victim) != nil
		if group := r.options.Groups.Of(victim); group != nil {
			group.Preempt(recreated)
		}
		if !recreated {
			r.Lost = append(r.Lost, name)
			continue
		}
		again = append(again, queued{pod: recreate(victim), owner: ownerOf(victim)})
	}
	return again
}

func (r *run) fail(q queued, reason string) {
	r.failures[q.owner] = &failure{reason: reason, changes: r.changes}
	name := q.pod.Namespace + "/" + q.pod.Name
	i := slices.IndexFunc(r.Unschedulable, func(g Group) bool { return g.Of == q.owner && g.Reason == reason })
	if i < 0 {
		i = len(r.Unschedulable)
		r.Unschedulable = append(r.Unschedulable, Group{Of: q.owner, Reason: reason})
	}
	const examples = 3
	g := &r.Unschedulable[i]
	if g.Pods++; len(g.Examples) < examples {
		g.Examples = append(g.Examples, name)
	}
}

// reasonOf says why no node was found. It drops the message of preemption, which repeats the reason.
func reasonOf(d *sim.Result) string {
	reason := d.Err.Error()
	if fit := (*framework.FitError)(nil); errors.As(d.Err, &fit) {
		filtered := *fit
		filtered.Diagnosis.PostFilterMsg = ""
		reason = filtered.Error()
	}
	parts := strings.Split(strings.TrimSuffix(reason, "."), ", ")
	for i := range parts {
		parts[i] = text.Excerpt(parts[i])
	}
	return strings.Join(parts, ", ")
}

// loadLines returns the loads and lines of all nodes, by name, as reader sees them; nil if reader is nil.
func loadLines(ctx context.Context, s *sim.Scheduler, reader explain.LoadReader) (map[string]explain.LoadLine, error) {
	if reader == nil {
		return nil, nil
	}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	state, lines := framework.NewCycleState(), make(map[string]explain.LoadLine, len(nodes))
	for _, node := range nodes {
		lines[node.Node().Name] = reader.LoadLine(state, node)
	}
	return lines, nil
}

// publishChanged publishes the load without the usage of evicted pods. New nodes have the newest measurement, but idle. It changes
// nothing for a source without measurements.
func (p *Plan) publishChanged(publisher *load.Publisher, evicted *sim.LeavingUsage) {
	measured := publisher.Latest()
	if measured.Index().Len() == 0 || len(p.newNodes) == 0 && !p.Evicts() {
		return
	}
	var added []string
	for _, object := range p.added {
		if node, ok := object.(*corev1.Node); ok {
			added = append(added, node.Name)
		}
	}
	newest := map[load.Quantile]load.NodeLoad{}
	publisher.Publish(measured.With(added, func(statistic load.Quantile, node string, l load.NodeLoad) load.NodeLoad {
		if p.newNodes[node] {
			return idle(newestOf(newest, measured, statistic))
		}
		return evicted.Subtract(publisher, statistic, node, l)
	}))
}

// newestOf returns each resource's newest measurement on any node, of a quantile or, with Fraction 0, of the mean. It caches it.
func newestOf(cache map[load.Quantile]load.NodeLoad, s *load.Snapshot, statistic load.Quantile) load.NodeLoad {
	newest, ok := cache[statistic]
	if ok {
		return newest
	}
	table := s.Table(statistic)
	for row := range table.Index().Len() {
		for r, m := range table.Row(row) {
			if m.Known && (!newest[r].Known || m.End.After(newest[r].End)) {
				newest[r] = m
			}
		}
	}
	cache[statistic] = newest
	return newest
}

func idle(l load.NodeLoad) load.NodeLoad {
	for r := range l {
		l[r].Mean, l[r].StdDev, l[r].Drift = 0, 0, 0
	}
	return l
}
