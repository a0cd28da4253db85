package engine

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// returnedWithin is the time in which a pod on a node that it was moved off has returned.
const returnedWithin = time.Hour

// MoveCosts are the costs of a move. Times are rounded up to ticks.
type MoveCosts struct {
	// Termination is how long an evicted pod still uses its source. Nobody is served meanwhile.
	Termination time.Duration
	// Startup is the time from the end of the evicted pod until its replacement runs.
	Startup time.Duration
}

// mover moves pods off hot nodes.
type mover struct {
	*rebalancing
	MoveCosts
	// underWay are the moves by the pod's index.
	underWay map[int]underWay
	// departures are the nodes that a pod was moved off, by its index.
	departures map[int][]departure
	// replacements are the pods to decide again, by eviction.
	replacements []int
	terminating  []terminating
}

type underWay struct {
	plan.Move
	until time.Time
	// mark is the move's index in the charts; negative if figures do not cover the eviction.
	mark int
}

type departure struct {
	node string
	at   time.Time
}

// terminating is an evicted pod that uses its node until a tick.
type terminating struct {
	pod                *corev1.Pod
	index, node, until int
}

// newMover returns nil for a policy without moves.
func (e *engine) newMover(ctx context.Context) (*mover, error) {
	if e.policy.rebalancer == nil {
		return nil, nil
	}
	r := &rebalancing{engine: e, c: e.policy.rebalancer}
	m := &mover{rebalancing: r, MoveCosts: e.policy.costs, underWay: map[int]underWay{}, departures: map[int][]departure{}}
	if readers := e.scheduler.LoadReaders(e.policy.schedulerName()); len(readers) > 0 {
		r.load = readers[0]
		return m, nil
	}
	minutes := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Minute} }
	spec := config.LoadSpec{
		Window: minutes(5), MaxAge: minutes(5),
		RefreshInterval: metav1.Duration{Duration: input.Tick}, // moves end before the next refresh
	}
	reader, err := e.provider.Open(ctx, reading.ForLoad(spec, podusage.ByRequests{}))
	r.load = &measuredLoad{reader}
	return m, err
}

// measuredLoad reads the load for a policy whose profile reads none.
type measuredLoad struct{ reader *reading.Reader }

// Name implements minor.Plugin.
func (*measuredLoad) Name() string { return "MeasuredLoad" }

// Reader implements explain.LoadReader.
func (l *measuredLoad) Reader() *reading.Reader { return l.reader }

// LoadLine implements explain.LoadReader. There is no line.
func (l *measuredLoad) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	line := explain.LoadLine{Node: l.reader.Model(load.CPU).View(state).For(estimate.Stranger()).Estimate(node)}
	for r := range line.Node {
		line.Utilization[r] = line.Node[r].Utilization(0)
	}
	return line
}

// rebalancing plans as Plimsoll's rebalancer does.
type rebalancing struct {
	engine  *engine
	c       *api.Configuration
	load    explain.LoadReader
	history plan.History
}

func (r *rebalancing) plan(ctx context.Context) (*plan.Plan, error) {
	e := r.engine
	nodes, err := plan.Look(ctx, e.scheduler, r.load, r.c)
	if err != nil {
		return nil, err
	}
	r.history.Observe(nodes, r.c)
	p, err := plan.Make(ctx, r.cluster(), &r.history, r.c)
	if err != nil {
		return nil, err
	}
	stop, _ := r.history.StoppedBy(e.clock.Now(), r.c)
	if stop == plan.BreakerOpen && e.counts(e.measured.ticks) {
		e.figures.BreakerMinutes += input.Tick.Minutes()
	}
	if stop != "" { // there is no plan to count
		return &plan.Plan{}, nil
	}
	return p, nil
}

// cluster returns what is known now.
func (r *rebalancing) cluster() plan.Cluster {
	e := r.engine
	return plan.Cluster{
		Scheduler: e.scheduler, SchedulerNames: []string{e.policy.schedulerName()}, Load: r.load, Now: e.clock.Now(), Usage: r.usageOf,
	}
}

func (r *rebalancing) begin(move *plan.Move, now time.Time) { r.history.Begin(move, now) }

func (r *rebalancing) end(ctx context.Context, pod types.UID, replacement *corev1.Pod) plan.Outcome {
	return r.history.End(ctx, r.cluster(), r.c, pod, replacement)
}

// usageOf returns the mean usage of a running pod over the window that nodes are compared by.
func (r *rebalancing) usageOf(pod *corev1.Pod) (podusage.Amounts, bool) {
	i := r.engine.runningPod(pod.Spec.NodeName, pod.UID)
	if i < 0 {
		return podusage.Amounts{}, false
	}
	return r.engine.usageOver(i, r.load.Reader().Model(load.CPU).Config().Window)
}

// usageOver returns the mean usage of a running pod over the last window; false before its first tick.
func (e *engine) usageOver(i int, window time.Duration) (a podusage.Amounts, ok bool) {
	p := &e.pods[i]
	first := max(p.start, e.measured.ticks-input.Ticks(window))
	for tick := first; tick < e.measured.ticks; tick++ {
		a[load.CPU] += float64(p.demand.At(tick)) / float64(e.measured.ticks-first)
	}
	a[load.Memory] = e.Pods[i].MemoryBytes
	return a, first < e.measured.ticks
}

// move plans at the start of the tick, with the newest load, and evicts. Decisions follow decideAfter later. As a controller does,
// it creates replacements at once.
func (e *engine) move(ctx context.Context, tick int) error {
	m, now := e.mover, e.clock.Now()
	if m == nil || tick == 0 {
		return nil
	}
	if err := e.endTerminating(tick); err != nil {
		return err
	}
	for i, u := range m.underWay {
		if now.After(u.until) {
			m.end(ctx, u.UID, nil)
			delete(m.underWay, i)
		}
	}
	plan, err := m.plan(ctx)
	if err != nil {
		return err
	}
	if e.counts(tick) {
		e.figures.stays(plan)
	}
	for i := range plan.Moves {
		if err := e.evict(&plan.Moves[i], tick); err != nil {
			return err
		}
	}
	return nil
}

// counts reports whether figures cover the tick.
func (e *engine) counts(tick int) bool { return time.Duration(tick)*input.Tick >= e.Length-e.Counted }

// endTerminating removes the evicted pods whose time is over.
func (e *engine) endTerminating(tick int) error {
	m := e.mover
	for len(m.terminating) > 0 && m.terminating[0].until <= tick {
		t := m.terminating[0]
		m.terminating = m.terminating[1:]
		n := &e.nodes[t.node]
		n.terminating = slices.DeleteFunc(n.terminating, func(other int) bool { return other == t.index })
		if err := e.scheduler.Remove(t.pod); err != nil {
			return err
		}
	}
	return nil
}

// runningPod returns the index of a pod that runs on the node; -1 if none does.
func (e *engine) runningPod(node string, uid types.UID) int {
	running := e.nodes[e.nodeOf[node]].running
	at := slices.IndexFunc(running, func(i int) bool { return e.pods[i].object.UID == uid })
	if at < 0 {
		return -1
	}
	return running[at]
}

// evict evicts the pod, and creates its replacement with the rest of its lifetime.
func (e *engine) evict(move *plan.Move, tick int) error {
	m, now := e.mover, e.clock.Now()
	node := e.nodeOf[move.From]
	n := &e.nodes[node]
	i := e.runningPod(move.From, move.UID)
	p := &e.pods[i]
	e.flush(i)
	n.running = slices.DeleteFunc(n.running, func(other int) bool { return other == i })
	n.terminating = append(n.terminating, i)
	n.placed--
	e.ends[p.end] = slices.DeleteFunc(e.ends[p.end], func(other int) bool { return other == i })
	if e.future != nil {
		e.future.remove(i, tick)
	}
	ending := p.object.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	if err := e.scheduler.Update(ending); err != nil {
		return err
	}
	gone := tick + input.Ticks(m.Termination)
	m.terminating = append(m.terminating, terminating{ending, i, node, gone})
	m.begin(move, now)
	m.departures[i] = append(m.departures[i], departure{move.From, now})
	u := underWay{Move: *move, until: now.Add(m.c.ReplacementTimeout.Duration), mark: -1}
	if e.counts(tick) {
		u.mark = e.figures.Moves
		e.figures.Moves++
		since := time.Duration(tick) * input.Tick
		e.figures.charts.Moves = append(e.figures.charts.Moves, report.MoveMark{Seconds: since.Seconds(), From: move.From})
	}
	m.underWay[i] = u
	m.replacements = append(m.replacements, i)
	e.replace(i, tick, gone+input.Ticks(m.Startup))
	return nil
}

// replace creates the pod again, with the rest of its lifetime. It runs from tick ready on at the earliest.
func (e *engine) replace(i, tick, ready int) {
	p := &e.pods[i]
	p.restarts++
	p.left, p.ready = max(p.end-tick, 1), ready
	p.object = e.templates[e.Pods[i].Workload].pod(i, e.clock.Now())
	suffix := "-r" + strconv.Itoa(p.restarts)
	p.object.Name, p.object.UID = p.object.Name+suffix, p.object.UID+types.UID(suffix)
}

// bound counts where the replacement was placed.
func (m *mover) bound(i int, node string, now time.Time, f *figures) {
	if m == nil {
		return
	}
	u, ok := m.underWay[i]
	if !ok || u.mark < 0 {
		return
	}
	f.charts.Moves[u.mark].To = node
	if slices.ContainsFunc(m.departures[i], func(d departure) bool { return d.node == node && now.Sub(d.at) <= returnedWithin }) {
		f.Returned++
	}
}

// started ends the move of a pod that runs again.
func (m *mover) started(ctx context.Context, i int, replacement *corev1.Pod, f *figures) {
	if m == nil {
		return
	}
	if u, ok := m.underWay[i]; ok {
		if m.end(ctx, u.UID, replacement) == plan.Landed && u.mark >= 0 {
			f.Landed++
		}
		delete(m.underWay, i)
	}
}
