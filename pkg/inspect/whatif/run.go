package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Outcome is where the pods of a Plan go.
type Outcome struct {
	// Profile is the profile whose plugin LinePlugin says what nodes carry; both are empty if no plugin reads load.
	Profile    string `json:"profile,omitempty"`
	LinePlugin string `json:"linePlugin,omitempty"`
	// LineQuantile is the fraction of the quantile that is compared with the line; 0 where it is the mean.
	LineQuantile float64 `json:"lineQuantile,omitempty"`
	// Pods is the number of pods to place, those that were preempted for others included.
	Pods   int `json:"pods"`
	Placed int `json:"placed"`
	// Relaxed is the number of pods that were placed because a limit that left them no node was waived.
	Relaxed   int      `json:"relaxed"`
	Preempted []string `json:"preempted,omitempty"`
	// Lost are the preempted pods that have no controller: nobody creates them again.
	Lost []string `json:"lost,omitempty"`
	// NodesInCluster counts the nodes with those added, NodesAboveBefore and NodesAboveAfter those above their load line.
	NodesInCluster   int `json:"nodesInCluster"`
	NodesAboveBefore int `json:"nodesAboveBefore"`
	NodesAboveAfter  int `json:"nodesAboveAfter"`
	// Nodes are the nodes that change, those with the most placed pods first.
	Nodes []Node `json:"nodes"`
	// Unschedulable are the pods without a node, grouped by owner and reason.
	Unschedulable []Group     `json:"unschedulable,omitempty"`
	Placements    []Placement `json:"placements,omitempty"`
	// Notes say what may differ in the real cluster under this configuration, a line each.
	Notes []string `json:"notes,omitempty"`

	// before and after are how all nodes stand against their load lines.
	before, after map[string]plugins.LoadLine
}

// Node returns the named node, whether or not it changes.
func (o *Outcome) Node(name string) Node {
	if i := slices.IndexFunc(o.Nodes, func(n Node) bool { return n.Name == name }); i >= 0 {
		return o.Nodes[i]
	}
	n := Node{Name: name}
	n.setLoads(o)
	return n
}

// setLoads sets what the node carries, if a plugin reads load.
func (n *Node) setLoads(o *Outcome) {
	if after, ok := o.after[n.Name]; ok {
		before, existed := o.before[n.Name]
		n.CPU, n.Memory = loadOf(before, existed, after, load.CPU), loadOf(before, existed, after, load.Memory)
	}
}

// Node is a node that changes.
type Node struct {
	Name    string `json:"name"`
	New     bool   `json:"new,omitempty"`
	Drained bool   `json:"drained,omitempty"`
	Placed  int    `json:"placed"`
	Evicted int    `json:"evicted,omitempty"`
	CPU     Load   `json:"cpu"`
	Memory  Load   `json:"memory"`
	// PassesLine reports whether the node is above its load line in the end, and was not before.
	PassesLine bool `json:"passesLine"`
}

// Load is what a node carries of one resource, in percent: what is measured and what is pending, as it is compared with the load
// line. Both are absent where no plugin reads load, and Before for a new node.
type Load struct {
	BeforePercent *float64 `json:"beforePercent,omitempty"`
	AfterPercent  *float64 `json:"afterPercent,omitempty"`
	// LinePercent is absent if no line holds.
	LinePercent *float64 `json:"linePercent,omitempty"`
	// ByRequests says that the load is not known: it is the share of allocatable that pods request.
	ByRequests bool `json:"byRequests,omitempty"`
	// Above reports whether it is above the line in the end.
	Above bool `json:"above"`
}

// Group are pods without a node.
type Group struct {
	Of       string   `json:"of"`
	Reason   string   `json:"reason"`
	Pods     int      `json:"pods"`
	Examples []string `json:"examples"`
}

// Placement is a pod with its node.
type Placement struct {
	Pod  string `json:"pod"`
	Of   string `json:"of"`
	Node string `json:"node"`
}

// RunOptions say how a Plan is run.
type RunOptions struct {
	// SchedulerName, if not empty, is the profile that places all pods.
	SchedulerName string
	// Profiles are the names of all profiles, in the order of the configuration.
	Profiles []string
	// Usages are what pods use; nil if that is not known.
	Usages PodUsages
	// Progress is called after each pod with the fraction that is done. It may be nil.
	Progress func(done float64)
}

// Run makes the plan's changes in the cluster of s, which has the objects that the plan was made for, and places the pods. If ctx ends,
// it fails.
func (p *Plan) Run(ctx context.Context, s *sim.Scheduler, o RunOptions) (*Outcome, error) {
	names := p.SchedulerNames()
	if o.SchedulerName != "" {
		names = []string{o.SchedulerName}
	}
	out := &Outcome{}
	var line plugins.LoadReader
	var err error
	out.Profile, line = reader(s, slices.Concat(names, o.Profiles))
	if line != nil {
		out.LinePlugin, out.LineQuantile = line.Name(), line.Reader().Request().Fraction
	}
	if out.LineQuantile > 0 && p.Evicts() {
		out.Notes = append(out.Notes, fmt.Sprintf("%s compares quantile %g of the load with the line, from which the usage of single pods cannot be subtracted: "+
			"nodes that pods are evicted from are judged as if the pods still ran there, and may have more room.", out.LinePlugin, out.LineQuantile))
	}
	if out.before, err = loadLines(ctx, s, line); err != nil {
		return nil, err
	}
	if err := p.apply(ctx, s, modelsOf(s, o.Profiles), o.Usages); err != nil {
		return nil, err
	}
	r := &run{Outcome: out, scheduler: s, options: &o, placed: map[types.UID]*Placement{}, failures: map[string]*failure{}}
	if err := r.place(ctx, slices.Clone(p.queue)); err != nil {
		return nil, err
	}
	if len(out.Preempted) > 0 {
		out.Notes = append(out.Notes, "Preempted: "+text.FirstN(out.Preempted))
	}
	if len(out.Lost) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s without a controller would be preempted and lost, for nobody creates them again: %s", text.Count(len(out.Lost), "pod"), text.FirstN(out.Lost)))
	}
	if out.after, err = loadLines(ctx, s, line); err != nil {
		return nil, err
	}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	out.NodesInCluster = len(nodes)
	p.compare(out)
	return out, nil
}

// apply makes the changes.
func (p *Plan) apply(ctx context.Context, s *sim.Scheduler, models map[*load.Publisher][]*estimate.Model, known PodUsages) error {
	usage, err := p.measuredUsage(ctx, s, models, known)
	if err != nil {
		return err
	}
	capacities := map[string]podusage.Amounts{}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		capacities[node.Node().Name] = podusage.AmountsOf(node.Node().Status.Capacity)
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
	for publisher := range models {
		p.publishChanged(publisher, usage[publisher], capacities)
	}
	return nil
}

// run is the placing of the pods of one plan.
type run struct {
	*Outcome
	scheduler *sim.Scheduler
	options   *RunOptions
	placed    map[types.UID]*Placement
	order     []*Placement
	// failures are the last failures by owner, at the given number of changes.
	failures map[string]*failure
	changes  int
}

// failure is why a pod found no node.
type failure struct {
	reason  string
	changes int
}

func (r *run) place(ctx context.Context, queue []queued) error {
	for done := 0; done < len(queue); done++ {
		if err := ctx.Err(); err != nil {
			return err
		}
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
	if name := r.options.SchedulerName; name != "" && q.pod.Spec.SchedulerName != name {
		renamed := *q.pod
		renamed.Spec.SchedulerName = name
		q.pod = &renamed
	}
	if len(q.pod.Spec.SchedulingGates) > 0 {
		r.fail(q, "it waits for its scheduling gates: "+q.pod.Spec.SchedulingGates[0].Name)
		return nil, nil
	}
	if last := r.failures[q.of]; q.alike && last != nil && last.changes == r.changes {
		r.fail(q, last.reason) // nothing has changed since one like it failed
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
	r.changes++
	if err := r.scheduler.Assume(ctx, d); err != nil {
		return nil, err
	}
	bound := *d.Pod
	bound.Spec.NodeName = d.Node
	add := func() error { return r.scheduler.Add(&bound) }
	if q.inCluster {
		add = func() error { return r.scheduler.Update(&bound) }
	}
	if err := add(); err != nil {
		return nil, err
	}
	placement := &Placement{Pod: q.pod.Namespace + "/" + q.pod.Name, Of: q.of, Node: d.Node}
	r.placed[q.pod.UID] = placement
	r.order = append(r.order, placement)
	return victims, nil
}

// attempts bounds how often a pod is tried again after a limit was waived for it: once for each plugin that has a limit, and once more
// after preemption.
const attempts = 4

// decide decides about the pod, again if a limit was waived or pods were preempted for it, as the scheduler would.
func (r *run) decide(ctx context.Context, q queued) (d *sim.Result, victims []queued, err error) {
	pod, relaxed := q.pod, false
	for range attempts {
		if d, err = r.scheduler.Decide(ctx, pod); err != nil {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			return &sim.Result{Pod: pod, Err: err}, victims, nil
		}
		if d.Node != "" || d.PostFilter == nil || !d.PostFilter.Status.IsSuccess() {
			break
		}
		relaxed = true
		if node := d.PostFilter.NominatedNode; node != "" {
			relaxed = false
			preempted, err := r.preempt(d.PostFilter.Victims)
			if err != nil {
				return nil, nil, err
			}
			victims = append(victims, preempted...)
			nominated := *q.pod
			nominated.Status.NominatedNodeName = node
			pod = &nominated
		}
	}
	if d.Node != "" && relaxed {
		r.Relaxed++
	}
	return d, victims, nil
}

// preempt removes the victims, and returns them as their owners create them again. Those without an owner are lost.
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
		again = append(again, queued{pod: recreated(victim), of: ownerOf(victim)})
	}
	return again, nil
}

func (r *run) fail(q queued, reason string) {
	r.failures[q.of] = &failure{reason: reason, changes: r.changes}
	name := q.pod.Namespace + "/" + q.pod.Name
	i := slices.IndexFunc(r.Unschedulable, func(g Group) bool { return g.Of == q.of && g.Reason == reason })
	if i < 0 {
		i = len(r.Unschedulable)
		r.Unschedulable = append(r.Unschedulable, Group{Of: q.of, Reason: reason})
	}
	const examples = 3
	g := &r.Unschedulable[i]
	if g.Pods++; len(g.Examples) < examples {
		g.Examples = append(g.Examples, name)
	}
}

// reasonOf says why no node was found, without what preemption says, which repeats it.
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

// compare sets the nodes that change.
func (p *Plan) compare(out *Outcome) {
	nodes := map[string]*Node{}
	node := func(name string) *Node {
		if nodes[name] == nil {
			nodes[name] = &Node{Name: name}
		}
		return nodes[name]
	}
	for i := range out.Placements {
		node(out.Placements[i].Node).Placed++
	}
	for name := range p.newNodes {
		node(name).New = true
	}
	for _, cordoned := range p.cordoned {
		node(cordoned.Name).Drained = true
	}
	for _, pod := range p.evicted {
		node(pod.Spec.NodeName).Evicted++
	}
	for name, line := range out.after {
		was, is := anyAbove(out.before[name]), anyAbove(line)
		if was {
			out.NodesAboveBefore++
		}
		if is {
			out.NodesAboveAfter++
		}
		if is && !was {
			node(name).PassesLine = true
		}
	}
	out.Nodes = []Node{}
	for _, n := range nodes {
		n.setLoads(out)
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b Node) int { return cmp.Or(cmp.Compare(b.Placed, a.Placed), cmp.Compare(a.Name, b.Name)) })
}

func anyAbove(l plugins.LoadLine) bool { return l.Above[load.CPU] || l.Above[load.Memory] }

func loadOf(before plugins.LoadLine, existed bool, after plugins.LoadLine, r load.Resource) Load {
	percent := func(l *plugins.LoadLine) *float64 { return new(100 * l.Utilization[r]) }
	l := Load{AfterPercent: percent(&after), ByRequests: after.Node[r].State != load.Fresh, Above: after.Above[r]}
	if existed {
		l.BeforePercent = percent(&before)
	}
	if line := after.Percent[r]; line > 0 {
		l.LinePercent = &line
	}
	return l
}

// String is one line that sums the outcome up.
func (o *Outcome) String() string {
	line := fmt.Sprintf("%d of %s placed", o.Placed, text.Count(o.Pods, "pod"))
	if missing := o.Pods - o.Placed; missing > 0 {
		line += fmt.Sprintf(", %d without a node", missing)
	}
	return line
}
