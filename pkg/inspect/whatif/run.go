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
	// Progress is called after each pod with the fraction that is done. It may be nil.
	Progress func(done float64)
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

// prepare records the load before the changes, and applies them.
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
	return r, p.apply(ctx, s, &o)
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

// decideAll places the pods of the queue, one after the other.
func (r *run) decideAll(ctx context.Context, queue []queued) error {
	for done := 0; done < len(queue); done++ {
		victims, err := r.placeOne(ctx, queue[done])
		if err != nil {
			return err
		}
		if len(victims) > 0 {
			queue = append(queue, victims...)
			sortByPriority(queue[done+1:])
		}
		if r.options.Progress != nil {
			r.options.Progress(float64(done+1) / float64(len(queue)))
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

// placeOne places one pod, and returns the pods that were preempted for it.
func (r *run) placeOne(ctx context.Context, q queued) ([]queued, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.pod = r.withSchedulerName(q.pod)
	if len(q.pod.Spec.SchedulingGates) > 0 {
		r.fail(q, "it waits for its scheduling gates: "+q.pod.Spec.SchedulingGates[0].Name)
		return nil, nil
	}
	if last := r.failures[q.owner]; q.alike && last != nil && last.changes == r.changes {
		r.fail(q, last.reason) // nothing has changed since an equal pod failed
		return nil, nil
	}
	d, victims, err := r.decide(ctx, q)
	if err != nil {
		return nil, err
	}
	if d.Node == "" {
		r.fail(q, reasonOf(d))
		return victims, nil
	}
	return victims, r.bind(ctx, q, d)
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

func (r *run) bind(ctx context.Context, q queued, d *sim.Result) error {
	r.changes++
	if err := r.scheduler.Assume(ctx, d); err != nil {
		return err
	}
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

// decide chooses a node, after waivers and preemption. An error of a plugin is a reason why there is none.
func (r *run) decide(ctx context.Context, q queued) (d *sim.Result, victims []queued, err error) {
	attempts, err := sim.Attempt(ctx, q.pod, r.scheduler.Decide, func(pods []*corev1.Pod) error {
		preempted, err := r.preempt(pods)
		victims = append(victims, preempted...)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return &sim.Result{Pod: q.pod, Err: err}, victims, nil
	}
	n := len(attempts)
	if n > 1 && attempts[n-1].Node != "" && attempts[n-2].Waived() {
		r.Relaxed++
	}
	return attempts[n-1], victims, nil
}

// preempt removes the victims, and returns the pods that their owners create instead. Victims without an owner are lost.
func (r *run) preempt(victims []*corev1.Pod) ([]queued, error) {
	var again []queued
	for _, victim := range victims {
		if err := r.scheduler.Remove(victim); err != nil {
			return nil, err
		}
		r.changes++
		name := victim.Namespace + "/" + victim.Name
		r.Preempted = append(r.Preempted, name)
		if placement := r.placed[victim.UID]; placement != nil {
			placement.Node = ""
		}
		if metav1.GetControllerOfNoCopy(victim) == nil {
			r.Lost = append(r.Lost, name)
			continue
		}
		again = append(again, queued{pod: recreate(victim), owner: ownerOf(victim)})
	}
	return again, nil
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
