package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
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

const (
	// returnedWithin is the time in which a pod on a node that it was moved off has returned.
	returnedWithin = time.Hour
	maxMoveCost    = time.Hour
)

// Rebalance moves pods off hot nodes as Plimsoll's rebalancer does.
type Rebalance struct {
	file string
	// An evicted pod still uses its source for termination, and serves nobody. Its replacement runs startup later, at the earliest.
	termination, startup time.Duration
	c                    *api.Configuration
}

// AddFlags adds the flags of moves.
func (r *Rebalance) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&r.file, "rebalancer-config", "", "RebalancerConfiguration of policies that end in "+report.Rebalanced)
	flags.DurationVar(&r.termination, "termination", 30*time.Second, "time that an evicted pod still uses its node")
	flags.DurationVar(&r.startup, "startup", 30*time.Second, "time from the end of an evicted pod until its replacement runs")
}

// Read reads and checks the values of the flags. Errors name the flag.
func (r *Rebalance) Read() (err error) {
	switch {
	case r.termination < input.Tick || r.termination > maxMoveCost:
		return fmt.Errorf("--termination: %v; write from %v to %v", r.termination, input.Tick, maxMoveCost)
	case r.startup < 0 || r.startup > maxMoveCost:
		return fmt.Errorf("--startup: %v; write from 0s to %v", r.startup, maxMoveCost)
	}
	if r.c, err = plan.ReadConfiguration(r.file); err != nil {
		return fmt.Errorf("--rebalancer-config: %w", err)
	}
	if r.c.Paused {
		return fmt.Errorf("--rebalancer-config: %s: paused: true: nothing would move; write false", r.file)
	}
	return nil
}

// AddTo returns the policy with moves. It follows Read.
func (r *Rebalance) AddTo(p Policy) Policy {
	p.Name, p.rebalance = p.Name+report.Rebalanced, r
	return p
}

// check fails if no window is open in any input.
func (r *Rebalance) check(inputs []*input.Input) error {
	if slices.ContainsFunc(inputs, r.movesIn) {
		return nil
	}
	begin, end := inputs[0].Start.UTC(), inputs[0].Start.Add(inputs[0].Length).UTC()
	return fmt.Errorf("--rebalancer-config: windows: none is open during the replay, from %s to %s: nothing would move; "+
		"change a schedule", begin.Format(time.RFC3339), end.Format(time.RFC3339))
}

func (r *Rebalance) movesIn(in *input.Input) bool {
	next := r.c.NextOpening(in.Start)
	return r.c.Open(in.Start) || !next.IsZero() && next.Before(in.Start.Add(in.Length))
}

// rebalancing moves pods as the rebalancer does.
type rebalancing struct {
	*engine
	*Rebalance
	load    explain.LoadReader
	history plan.History
	// underWay are the moves by the pod's index.
	underWay map[int]underWay
	// departures are the nodes that a pod was moved off, by its index.
	departures map[int][]departure
	// evicted are the pods to decide again, by eviction.
	evicted     []int
	terminating []terminating
}

type underWay struct {
	plan.Move
	until time.Time
	// mark is negative if figures do not cover the eviction.
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

func (r *Rebalance) start(ctx context.Context, e *engine) (*rebalancing, error) {
	m := &rebalancing{engine: e, Rebalance: r, underWay: map[int]underWay{}, departures: map[int][]departure{}}
	if readers := e.scheduler.LoadReaders(e.policy.schedulerName()); len(readers) > 0 {
		m.load = readers[0]
		return m, nil
	}
	minutes := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Minute} }
	spec := config.LoadSpec{
		Window: minutes(5), MaxAge: minutes(5),
		RefreshInterval: metav1.Duration{Duration: input.Tick}, // moves end before the next refresh
	}
	reader, err := e.provider.Open(ctx, nil, reading.ForLoad(spec, podusage.ByRequests{}))
	m.load = &measuredLoad{reader}
	return m, err
}

// measuredLoad reads the load for a policy whose profile reads none.
type measuredLoad struct{ reader *reading.Reader }

func (*measuredLoad) Name() string { return "MeasuredLoad" }

func (l *measuredLoad) Reader() *reading.Reader { return l.reader }

// LoadLine implements explain.LoadReader. There is no line.
func (l *measuredLoad) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	line := explain.LoadLine{Node: l.reader.Model(load.CPU).View(state).For(estimate.Stranger()).Estimate(node)}
	for r := range line.Node {
		line.Utilization[r] = line.Node[r].Utilization(0)
	}
	return line
}

// move plans at the start of the tick, with the newest load, and evicts. Decisions follow decideAfter later. As a controller does,
// it creates replacements at once.
func (m *rebalancing) move(ctx context.Context, tick int) error {
	if tick == 0 {
		return nil
	}
	if err := m.endTerminating(tick); err != nil {
		return err
	}
	now := m.clock.Now()
	for _, i := range slices.Sorted(maps.Keys(m.underWay)) {
		if u := m.underWay[i]; now.After(u.until) {
			m.history.End(ctx, m.cluster(), m.c, u.UID, nil)
			delete(m.underWay, i)
		}
	}
	moves, err := m.plan(ctx)
	if err != nil {
		return err
	}
	for i := range moves {
		if err := m.evict(&moves[i], tick); err != nil {
			return err
		}
	}
	return nil
}

func (m *rebalancing) plan(ctx context.Context) ([]plan.Move, error) {
	nodes, err := plan.Look(ctx, m.scheduler, m.load, m.c)
	if err != nil {
		return nil, err
	}
	m.history.Observe(nodes, m.c)
	p, err := plan.Make(ctx, m.cluster(), &m.history, m.c)
	if err != nil {
		return nil, err
	}
	if stop, _ := m.history.StoppedBy(m.clock.Now(), m.c); stop != "" {
		return nil, nil
	}
	return p.Moves, nil
}

func (m *rebalancing) cluster() plan.Cluster {
	return plan.Cluster{
		Scheduler: m.scheduler, SchedulerNames: []string{m.policy.schedulerName()}, Load: m.load, Now: m.clock.Now(), Usage: m.usageOf,
	}
}

// usageOf returns the mean usage of a running pod over the window that nodes are compared by; false before its first tick.
func (m *rebalancing) usageOf(pod *corev1.Pod) (a podusage.Amounts, ok bool) {
	i := m.runningPod(pod.Spec.NodeName, pod.UID)
	if i < 0 {
		return a, false
	}
	p := &m.pods[i]
	first := max(p.start, m.measured.ticks-input.Ticks(m.load.Reader().Model(load.CPU).Config().Window))
	for tick := first; tick < m.measured.ticks; tick++ {
		a[load.CPU] += float64(p.demand.At(tick)) / float64(m.measured.ticks-first)
	}
	a[load.Memory] = m.Pods[i].MemoryBytes
	return a, first < m.measured.ticks
}

func (m *rebalancing) endTerminating(tick int) error {
	for len(m.terminating) > 0 && m.terminating[0].until <= tick {
		t := m.terminating[0]
		m.terminating = m.terminating[1:]
		n := &m.nodes[t.node]
		n.terminating = slices.DeleteFunc(n.terminating, func(other int) bool { return other == t.index })
		if err := m.scheduler.Remove(t.pod); err != nil {
			return err
		}
	}
	return nil
}

// runningPod returns the index of a pod that runs on the node; -1 if none does.
func (m *rebalancing) runningPod(node string, uid types.UID) int {
	running := m.nodes[m.nodeOf[node]].running
	at := slices.IndexFunc(running, func(i int) bool { return m.pods[i].object.UID == uid })
	if at < 0 {
		return -1
	}
	return running[at]
}

// evict evicts the pod, and creates its replacement with the rest of its lifetime.
func (m *rebalancing) evict(move *plan.Move, tick int) error {
	now, node, i := m.clock.Now(), m.nodeOf[move.From], m.runningPod(move.From, move.UID)
	if i < 0 {
		return fmt.Errorf("evict %s/%s: it does not run on %s", move.Namespace, move.Pod, move.From)
	}
	n, p := &m.nodes[node], &m.pods[i]
	m.flush(i)
	n.running = slices.DeleteFunc(n.running, func(other int) bool { return other == i })
	n.terminating = append(n.terminating, i)
	m.ends[p.end] = slices.DeleteFunc(m.ends[p.end], func(other int) bool { return other == i })
	if m.future != nil {
		m.future.remove(i, tick)
	}
	ending := p.object.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	if err := m.scheduler.Update(ending); err != nil {
		return err
	}
	gone := tick + input.Ticks(m.termination)
	m.terminating = append(m.terminating, terminating{ending, i, node, gone})
	m.history.Begin(move, now)
	m.departures[i] = append(m.departures[i], departure{move.From, now})
	u := underWay{Move: *move, until: now.Add(m.c.ReplacementTimeout.Duration), mark: -1}
	if m.counts(tick) {
		u.mark = m.figures.Moves
		m.figures.Moves++
	}
	m.underWay[i] = u
	m.evicted = append(m.evicted, i)
	p.restarts++
	p.left, p.ready = max(p.end-tick, 1), gone+input.Ticks(m.startup)
	p.object = m.templates[m.Pods[i].Workload].pod(i, now)
	suffix := "-r" + strconv.Itoa(p.restarts)
	p.object.Name, p.object.UID = p.object.Name+suffix, p.object.UID+types.UID(suffix)
	m.history.Place(move.UID, p.object)
	return nil
}

// replacements returns the pods evicted since the last call, which wait for a node again.
func (m *rebalancing) replacements() []int {
	evicted := m.evicted
	m.evicted = nil
	return evicted
}

// bound notes where the replacement was placed.
func (m *rebalancing) bound(i int, node string) {
	u, ok := m.underWay[i]
	m.history.Place(u.UID, m.pods[i].object)
	if !ok || u.mark < 0 {
		return
	}
	now := m.clock.Now()
	if slices.ContainsFunc(m.departures[i], func(d departure) bool { return d.node == node && now.Sub(d.at) <= returnedWithin }) {
		m.figures.Returned++
	}
}

// started ends the move of a pod that runs again.
func (m *rebalancing) started(ctx context.Context, i int) {
	u, ok := m.underWay[i]
	if !ok {
		return
	}
	if m.history.End(ctx, m.cluster(), m.c, u.UID, m.pods[i].object) == plan.Landed && u.mark >= 0 {
		m.figures.Landed++
	}
	delete(m.underWay, i)
}
