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
	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// The costs of a move.
const (
	// terminationTicks is how long an evicted pod still uses its source. Nobody is served meanwhile.
	terminationTicks = 1
	// startupTicks is the time from the end of the evicted pod until its replacement runs.
	startupTicks = 1
	// readyWithin is the time from the eviction until a replacement that is not ready counts as failed.
	readyWithin = 5 * time.Minute
)

// mover moves pods off hot nodes.
type mover struct {
	c       *rebalancer.Configuration
	load    explain.LoadReader
	history rebalance.History
	// underWay are the moves by the pod's index.
	underWay map[int]underWay
	// replacements are the pods to decide again, by eviction. terminating are evicted pods, until the next tick.
	replacements []int
	terminating  []*corev1.Pod
}

type underWay struct {
	rebalance.Move
	until time.Time
	// counted reports whether figures cover the eviction.
	counted bool
}

// newMover returns nil for a policy without a rebalancer.
func (e *engine) newMover(ctx context.Context) (*mover, error) {
	if e.policy.rebalancer == nil {
		return nil, nil
	}
	m := &mover{c: e.policy.rebalancer, underWay: map[int]underWay{}}
	if readers := e.scheduler.LoadReaders(e.policy.schedulerName()); len(readers) > 0 {
		m.load = readers[0]
		return m, nil
	}
	minutes := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Minute} }
	spec := config.LoadSpec{Window: minutes(5), MaxAge: minutes(5)}
	reader, err := e.provider.Open(ctx, reading.ForLoad(spec, podusage.ByRequests{}))
	m.load = &measuredLoad{reader}
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

// rebalance plans at the start of the tick, with the newest load, and evicts. Decisions follow decideAfter later. As a controller
// does, it creates replacements at once.
func (e *engine) rebalance(ctx context.Context, tick int) error {
	m, now := e.mover, e.clock.Now()
	if m == nil || tick == 0 {
		return nil
	}
	for _, pod := range m.terminating {
		if err := e.scheduler.Remove(pod); err != nil {
			return err
		}
	}
	m.terminating = m.terminating[:0]
	for i := range e.nodes {
		e.nodes[i].terminating = e.nodes[i].terminating[:0]
	}
	for i, u := range m.underWay {
		if now.After(u.until) {
			m.history.End(u.UID, "", now)
			delete(m.underWay, i)
		}
	}
	nodes, err := rebalance.Look(ctx, e.scheduler, m.load, m.c)
	if err != nil {
		return err
	}
	m.history.Observe(nodes, m.c)
	plan, err := rebalance.Make(ctx, rebalance.Cluster{
		Scheduler: e.scheduler, SchedulerNames: []string{e.policy.schedulerName()}, Load: m.load, Now: now, Usage: e.usageOf,
	}, &m.history, m.c)
	if err != nil {
		return err
	}
	for i := range plan.Moves {
		if err := e.evict(&plan.Moves[i], tick); err != nil {
			return err
		}
	}
	return nil
}

// usageOf returns the mean usage of a running pod over the window that nodes are compared by.
func (e *engine) usageOf(pod *corev1.Pod) (a podusage.Amounts, ok bool) {
	i := e.runningPod(pod.Spec.NodeName, pod.UID)
	if i < 0 {
		return a, false
	}
	p := &e.pods[i]
	window := e.mover.load.Reader().Model(load.CPU).Config().Window
	first := max(p.start, e.measured.ticks-input.Ticks(window))
	for tick := first; tick < e.measured.ticks; tick++ {
		a[load.CPU] += float64(p.demand.At(tick)) / float64(e.measured.ticks-first)
	}
	a[load.Memory] = e.Pods[i].MemoryBytes
	return a, first < e.measured.ticks
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
func (e *engine) evict(move *rebalance.Move, tick int) error {
	m, now := e.mover, e.clock.Now()
	n := &e.nodes[e.nodeOf[move.From]]
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
	m.terminating = append(m.terminating, ending)
	m.history.Begin(move, now)
	counted := time.Duration(tick)*input.Tick >= e.Length-e.Counted
	m.underWay[i] = underWay{*move, now.Add(readyWithin), counted}
	m.replacements = append(m.replacements, i)
	p.moves++
	p.left, p.ready = max(p.end-tick, 1), tick+terminationTicks+startupTicks
	p.object = e.templates[e.Pods[i].Workload].pod(i, now)
	suffix := "-m" + strconv.Itoa(p.moves)
	p.object.Name, p.object.UID = p.object.Name+suffix, p.object.UID+types.UID(suffix)
	if counted {
		e.figures.Moves++
	}
	return nil
}

// bound counts where the replacement was placed.
func (m *mover) bound(i int, node string, f *figures) {
	if m == nil {
		return
	}
	switch u, ok := m.underWay[i]; {
	case !ok || !u.counted:
	case node == u.To || slices.Contains(u.Or, node):
		f.Landed++
	case node == u.From:
		f.Returned++
	}
}

// started ends the move of a pod that runs again.
func (m *mover) started(i int, node string, now time.Time) {
	if m == nil {
		return
	}
	if u, ok := m.underWay[i]; ok {
		m.history.End(u.UID, node, now)
		delete(m.underWay, i)
	}
}
