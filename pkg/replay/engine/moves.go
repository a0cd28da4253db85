package engine

import (
	"context"
	"fmt"
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
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

const (
	// returnedWithin is the time in which a pod on a node that it was moved off has returned.
	returnedWithin = time.Hour
	maxMoveCost    = time.Hour
)

// Moves lets a mover evict pods.
type Moves struct {
	Kind sim.MoverKind
	// An evicted pod still uses its source for termination, and serves nobody. Its replacement runs startup later, at the earliest.
	termination, startup time.Duration
	file                 string
	start                func(sim.MoverInput) sim.Mover
}

// AddFlags adds the flags of moves, unless there are none.
func (m *Moves) AddFlags(flags *pflag.FlagSet) {
	if m.Kind.Name == "" {
		return
	}
	flags.StringVar(&m.file, m.Kind.Flag, "", m.Kind.Usage)
	flags.DurationVar(&m.termination, "termination", 30*time.Second, "time that an evicted pod still uses its node")
	flags.DurationVar(&m.startup, "startup", 30*time.Second, "time from the end of an evicted pod until its replacement runs")
}

// Flags returns the names of the flags.
func (m *Moves) Flags() []string { return []string{m.Kind.Flag, "termination", "startup"} }

// Read reads and checks the values of the flags. Errors name the flag.
func (m *Moves) Read() (err error) {
	switch {
	case m.termination < input.Tick || m.termination > maxMoveCost:
		return fmt.Errorf("--termination: %v; write from %v to %v", m.termination, input.Tick, maxMoveCost)
	case m.startup < 0 || m.startup > maxMoveCost:
		return fmt.Errorf("--startup: %v; write from 0s to %v", m.startup, maxMoveCost)
	}
	m.start, err = m.Kind.Open(m.file)
	return err
}

// AddTo returns the policy with moves. It follows Read.
func (m *Moves) AddTo(p Policy) Policy {
	p.Name, p.moves = p.Name+"+"+m.Kind.Name, m
	return p
}

// moving moves pods as the mover decides.
type moving struct {
	*engine
	*Moves
	mover sim.Mover
	load  explain.LoadReader
	// underWay are the last moves by the pod's index.
	underWay map[int]underWay
	// departures are the nodes that a pod was moved off, by its index.
	departures map[int][]departure
	// evicted are the pods to decide again, by eviction.
	evicted     []int
	terminating []terminating
}

type underWay struct {
	evicted types.UID
	// counted says that figures cover the eviction.
	counted bool
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

func (e *engine) newMoving(ctx context.Context) (*moving, error) {
	m := &moving{engine: e, Moves: e.policy.moves, underWay: map[int]underWay{}, departures: map[int][]departure{}}
	if readers := e.scheduler.LoadReaders(e.policy.schedulerName()); len(readers) > 0 {
		m.load = readers[0]
	} else {
		minutes := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Minute} }
		spec := config.LoadSpec{
			Window: minutes(5), MaxAge: minutes(5),
			RefreshInterval: metav1.Duration{Duration: input.Tick}, // moves end before the next refresh
		}
		reader, err := e.provider.Open(ctx, nil, reading.ForLoad(spec, podusage.ByRequests{}))
		if err != nil {
			return nil, err
		}
		m.load = &measuredLoad{reader}
	}
	m.mover = m.start(sim.MoverInput{
		Scheduler: e.scheduler, SchedulerName: e.policy.schedulerName(), Load: m.load, Usage: m.usageOf,
	})
	return m, nil
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
func (m *moving) move(ctx context.Context, tick int) error {
	if tick == 0 {
		return nil
	}
	if err := m.endTerminating(tick); err != nil {
		return err
	}
	pods, err := m.mover.Moves(ctx, m.clock.Now())
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := m.evict(pod, tick); err != nil {
			return err
		}
	}
	return nil
}

// usageOf returns the mean usage of a running pod over the window that nodes are compared by; false before its first tick.
func (m *moving) usageOf(pod *corev1.Pod) (a podusage.Amounts, ok bool) {
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

func (m *moving) endTerminating(tick int) error {
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
func (m *moving) runningPod(node string, uid types.UID) int {
	running := m.nodes[m.nodeOf[node]].running
	at := slices.IndexFunc(running, func(i int) bool { return m.pods[i].object.UID == uid })
	if at < 0 {
		return -1
	}
	return running[at]
}

// evict evicts the pod, and creates its replacement with the rest of its lifetime.
func (m *moving) evict(pod *corev1.Pod, tick int) error {
	from, i := pod.Spec.NodeName, m.runningPod(pod.Spec.NodeName, pod.UID)
	if i < 0 {
		return fmt.Errorf("evict %s/%s: it does not run on %s", pod.Namespace, pod.Name, from)
	}
	now, node := m.clock.Now(), m.nodeOf[from]
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
	m.departures[i] = append(m.departures[i], departure{from, now})
	m.underWay[i] = underWay{pod.UID, m.counts(tick)}
	if m.counts(tick) {
		m.figures.Moves++
	}
	m.evicted = append(m.evicted, i)
	p.restarts++
	p.left, p.ready = max(p.end-tick, 1), gone+input.Ticks(m.startup)
	p.object = m.templates[m.Pods[i].Workload].pod(i, now)
	suffix := "-r" + strconv.Itoa(p.restarts)
	p.object.Name, p.object.UID = p.object.Name+suffix, p.object.UID+types.UID(suffix)
	m.mover.Placed(pod.UID, p.object)
	return nil
}

// replacements returns the pods evicted since the last call, which wait for a node again.
func (m *moving) replacements() []int {
	evicted := m.evicted
	m.evicted = nil
	return evicted
}

// bound notes where the replacement was placed.
func (m *moving) bound(i int, node string) {
	u, ok := m.underWay[i]
	if ok {
		m.mover.Placed(u.evicted, m.pods[i].object)
	}
	if !ok || !u.counted {
		return
	}
	now := m.clock.Now()
	if slices.ContainsFunc(m.departures[i], func(d departure) bool { return d.node == node && now.Sub(d.at) <= returnedWithin }) {
		m.figures.Returned++
	}
}

// started ends the move of a pod that runs again.
func (m *moving) started(ctx context.Context, i int) {
	u, ok := m.underWay[i]
	if !ok {
		return
	}
	if m.mover.Ready(ctx, u.evicted, m.pods[i].object, m.clock.Now()) && u.counted {
		m.figures.Landed++
	}
	delete(m.underWay, i)
}
