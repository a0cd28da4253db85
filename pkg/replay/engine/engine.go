package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// decideAfter is the age of a measurement at the decisions.
const decideAfter = 15 * time.Second

// engine replays an Input with one policy.
//
// At the start of each tick, pods end, containers start, load of the previous ticks is published, and the mover evicts pods.
// decideAfter later, pods are placed. A pod's container starts at the tick after its binding.
type engine struct {
	*input.Input
	policy    Policy
	clock     *clocktesting.FakeClock
	scheduler *sim.Scheduler
	provider  *loadProvider
	measured  *measured
	noise     input.Noise
	templates []podTemplate
	figures   *figures
	future    *future
	// mover is nil if no pods move.
	mover *moving

	nodes  []nodeState
	nodeOf map[string]int
	pods   []podState
	// waiting are the pods to decide, by arrival; starting are the pods bound since the last tick.
	waiting, starting []int
	// ends are the pods by the tick of their end.
	ends    map[int][]int
	arrived int
}

type nodeState struct {
	capacity input.Amounts
	// running are the pods with running containers, by start.
	running []int
	// terminating are the evicted pods that still use the node.
	terminating []int
}

type podState struct {
	object *corev1.Pod
	demand input.Demand
	node   int
	// start and end are ticks of the container.
	start, end int
	// usage is in milliCPU in the current tick. sum adds up the usage of the ticks since the last observation; ticks is their number.
	usage float32
	sum   float64
	ticks int
	// restarts counts the moves. After a move, left is the rest of the lifetime in ticks, and ready is the earliest tick in which the
	// pod runs again.
	restarts, left, ready int
}

// Run replays the input with the policy.
func Run(ctx context.Context, in *input.Input, policy Policy) (report.Run, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer cancel() // ends the goroutines of plugins
	e, err := newEngine(ctx, in, policy)
	if err != nil {
		return report.Run{}, fmt.Errorf("policy %s: %w", policy.Name, err)
	}
	for tick := range input.Ticks(in.Length) {
		if err := ctx.Err(); err != nil {
			return report.Run{}, err
		}
		if err := e.tick(ctx, tick); err != nil {
			return report.Run{}, fmt.Errorf("policy %s, %s after the start: %w", policy.Name, time.Duration(tick)*input.Tick, err)
		}
	}
	return e.figures.run(e), nil
}

func newEngine(ctx context.Context, in *input.Input, policy Policy) (*engine, error) {
	e := &engine{
		Input: in, policy: policy, clock: clocktesting.NewFakeClock(in.Start), measured: newMeasured(in), noise: input.NewNoise(),
		figures: newFigures(in), nodeOf: map[string]int{}, pods: make([]podState, len(in.Pods)), ends: map[int][]int{},
	}
	var objects []runtime.Object
	for i := range in.Nodes {
		n := &in.Nodes[i]
		e.nodes = append(e.nodes, nodeState{capacity: n.Capacity})
		e.nodeOf[n.Name] = i
		node := nodeObject(n)
		if policy.power != nil {
			e.figures.power[i] = policy.power.PowerModelOf(n.Name, node.Labels)
		}
		objects = append(objects, node)
	}
	for i := range in.Workloads {
		t := newPodTemplate(&in.Workloads[i], i, policy.schedulerName())
		e.templates = append(e.templates, t)
		objects = append(objects, t.replicaSet)
	}
	registry := metrics.NewKubeRegistry()
	e.provider = newLoadProvider(e.measured, e.clock, registry)
	factories := plugins.NewRegistry(e.provider, e.clock, registry.MustRegister)
	if err := factories.Merge(frameworkruntime.Registry{clairvoyantName: e.newClairvoyant}); err != nil {
		return nil, err
	}
	var err error
	e.scheduler, err = sim.New(ctx, sim.Options{
		Configuration: policy.configuration, Plugins: factories, Objects: objects, Clock: e.clock,
		Rand: rand.New(rand.NewPCG(in.Seed, 2)),
	})
	if err != nil {
		return nil, err
	}
	e.figures.ReadsLoad = len(e.scheduler.LoadReaders(policy.schedulerName())) > 0
	if policy.moves != nil {
		e.mover, err = e.newMoving(ctx)
	}
	return e, err
}

func (e *engine) tick(ctx context.Context, tick int) error {
	now := e.Start.Add(time.Duration(tick) * input.Tick)
	e.clock.SetTime(now)
	if err := e.end(tick); err != nil {
		return err
	}
	if err := e.startContainers(ctx, tick, now); err != nil {
		return err
	}
	if tick > 0 {
		if err := e.provider.refresh(ctx); err != nil {
			return err
		}
	}
	if tick%ticksPerStatistics == 0 {
		e.observe()
	}
	if e.mover != nil {
		if err := e.mover.move(ctx, tick); err != nil {
			return err
		}
	}
	e.clock.SetTime(now.Add(decideAfter))
	if err := e.decide(ctx, tick); err != nil {
		return err
	}
	e.use(tick)
	return nil
}

func (e *engine) end(tick int) error {
	for _, i := range e.ends[tick] {
		p := &e.pods[i]
		e.flush(i)
		n := &e.nodes[p.node]
		n.running = slices.DeleteFunc(n.running, func(other int) bool { return other == i })
		if err := e.scheduler.Remove(p.object); err != nil {
			return err
		}
		p.object = nil
	}
	delete(e.ends, tick)
	return nil
}

func (e *engine) startContainers(ctx context.Context, tick int, now time.Time) error {
	later := e.starting[:0]
	for _, i := range e.starting {
		p := &e.pods[i]
		if p.start > tick {
			later = append(later, i)
			continue
		}
		p.object = running(p.object, now)
		if err := e.scheduler.Update(p.object); err != nil {
			return err
		}
		p.demand = e.demandOf(i, p.start)
		e.nodes[p.node].running = append(e.nodes[p.node].running, i)
		if e.mover != nil {
			e.mover.started(ctx, i)
		}
	}
	e.starting = later
	return nil
}

// demandOf returns the demand of a pod whose container starts at the tick.
func (e *engine) demandOf(i, start int) input.Demand {
	d := e.DemandOf(&e.Pods[i], e.noise)
	if e.pods[i].restarts > 0 {
		d = d.Restarted(start)
	}
	return d
}

// decide places the waiting pods and the new arrivals.
func (e *engine) decide(ctx context.Context, tick int) error {
	began := time.Duration(tick) * input.Tick
	e.arrive(began)
	if e.mover != nil {
		e.waiting = append(e.waiting, e.mover.replacements()...) // of pods evicted at the start of the tick
	}
	e.arrive(began + decideAfter)
	still := e.waiting[:0]
	for _, i := range e.waiting {
		placed, err := e.place(ctx, i, tick)
		if err != nil {
			return err
		}
		if !placed {
			still = append(still, i)
		}
	}
	e.waiting = still
	return nil
}

func (e *engine) arrive(until time.Duration) {
	for ; e.arrived < len(e.Pods) && e.Pods[e.arrived].Arrival <= until; e.arrived++ {
		p := &e.Pods[e.arrived]
		e.pods[e.arrived].object = e.templates[p.Workload].pod(e.arrived, e.Start.Add(p.Arrival))
		e.waiting = append(e.waiting, e.arrived)
	}
}

func (e *engine) place(ctx context.Context, i, tick int) (placed bool, err error) {
	attempts, err := sim.Attempt(ctx, e.pods[i].object, e.scheduler.Decide, nil)
	if err != nil {
		return false, err
	}
	d := attempts[len(attempts)-1]
	if d.Node == "" {
		return false, nil
	}
	if err := e.scheduler.Assume(ctx, d); err != nil {
		return false, err
	}
	return true, e.bind(i, tick, d.Node)
}

func (e *engine) bind(i, tick int, node string) error {
	p := &e.pods[i]
	p.object = bound(p.object, node, e.clock.Now())
	if err := e.scheduler.Add(p.object); err != nil {
		return err
	}
	p.node = e.nodeOf[node]
	p.start = max(tick+1, p.ready)
	p.end = p.start + e.left(i)
	if e.mover != nil {
		e.mover.bound(i, node)
	}
	e.starting = append(e.starting, i)
	e.ends[p.end] = append(e.ends[p.end], i)
	if e.future != nil {
		e.future.add(i)
	}
	return nil
}

// left returns the ticks that the pod has yet to run.
func (e *engine) left(i int) int {
	return cmp.Or(e.pods[i].left, max(input.Ticks(e.Pods[i].Lifetime), 1))
}

// counts reports whether figures cover the tick.
func (e *engine) counts(tick int) bool { return time.Duration(tick)*input.Tick >= e.Length-e.Counted }

func (e *engine) use(tick int) {
	counted := e.counts(tick)
	for i := range e.nodes {
		n := &e.nodes[i]
		cpu, memory := 0.0, 0.0
		for _, j := range n.running {
			p := &e.pods[j]
			p.usage = p.demand.At(tick)
			p.sum += float64(p.usage)
			p.ticks++
			cpu += float64(p.usage)
			memory += e.Pods[j].MemoryBytes
		}
		for _, j := range n.terminating {
			cpu += float64(e.pods[j].demand.At(tick))
			memory += e.Pods[j].MemoryBytes
		}
		e.measured.add(i, podusage.Amounts{load.CPU: cpu / n.capacity.CPUMillis, load.Memory: memory / n.capacity.MemoryBytes})
		if counted {
			e.figures.node(i, n.capacity.CPUMillis, cpu)
		}
	}
	e.measured.next()
}

// loadProvider gives plugins the simulated load. The watcher reads the simulated load at each Tick, not at each refreshInterval.
type loadProvider struct {
	measured *measured
	watcher  *refresh.Watcher
	source   *reading.Source
	// used is true once a plugin has opened a reader.
	used       bool
	statistics []*statistics
}

var _ descriptor.LoadProvider = &loadProvider{}

func newLoadProvider(m *measured, c clock.Clock, registry metrics.KubeRegistry) *loadProvider {
	watcher := refresh.NewWatcher(m, m.Name(), m, c, refresh.NewMetrics(registry))
	return &loadProvider{measured: m, watcher: watcher, source: reading.NewSource(watcher.Publisher(), c)}
}

func (p *loadProvider) Open(_ context.Context, _ minor.Handle, request reading.Request) (*reading.Reader, error) {
	if len(request.Metrics) > 0 {
		return nil, errors.New("a replay has no node metrics: leave the plugin out of the profile")
	}
	requirements := request.Requirements()
	requirements.RefreshInterval = input.Tick
	for _, window := range request.Windows {
		p.measured.keep(window)
	}
	p.watcher.Register(requirements, request.Trust())
	p.used = true
	if request.Peak != nil {
		return p.source.Reader(request, p.publisher(request.Peak.StatisticsSpec)), nil
	}
	return p.source.Reader(request, nil), nil
}

// publisher returns the publisher of a spec's statistics. Readers with the same spec share it.
func (p *loadProvider) publisher(spec config.StatisticsSpec) *learned.Publisher {
	for _, s := range p.statistics {
		if s.spec == spec {
			return s.publisher
		}
	}
	s := newStatistics(spec, p.measured.capacity)
	p.statistics = append(p.statistics, s)
	return s.publisher
}

// refresh publishes the load of the ticks so far.
func (p *loadProvider) refresh(ctx context.Context) error {
	if !p.used {
		return nil
	}
	return p.watcher.Refresh(ctx)
}

const ticksPerStatistics = int(refresh.WorkloadInterval / input.Tick)

// statistics are of the workloads' usage, learned as a scheduler does: from each pod's mean over each refresh.WorkloadInterval.
type statistics struct {
	spec      config.StatisticsSpec
	publisher *learned.Publisher
	tally     *learned.Tally
	// capacity is that of all nodes.
	capacity podusage.Amounts
}

func newStatistics(spec config.StatisticsSpec, capacity podusage.Amounts) *statistics {
	return &statistics{spec, learned.NewPublisher(), learned.NewTally(spec.WorkloadLabel, capacity), capacity}
}

func (s *statistics) publish(now time.Time) {
	bounds := learned.Config{History: s.spec.History.Duration, MaxWorkloads: refresh.MaxWorkloads}
	s.publisher.Publish(s.publisher.Latest().WithTally(s.tally, now, refresh.WorkloadInterval, bounds))
	s.tally = learned.NewTally(s.spec.WorkloadLabel, s.capacity)
}

// flush adds the pod's usage since the last observation to all statistics.
func (e *engine) flush(i int) {
	p, in := &e.pods[i], &e.Pods[i]
	if p.ticks == 0 {
		return
	}
	usage := podusage.Amounts{load.CPU: p.sum / float64(p.ticks), load.Memory: in.MemoryBytes}
	of := e.Workloads[in.Workload].Requests
	requests := podusage.Amounts{load.CPU: of.CPUMillis, load.Memory: of.MemoryBytes}
	share := float64(p.ticks) / float64(ticksPerStatistics)
	for _, s := range e.provider.statistics {
		for r, u := range usage {
			s.tally.Add(p.object, load.Resource(r), u, requests[r], share)
		}
	}
	p.sum, p.ticks = 0, 0
}

func (e *engine) observe() {
	for i := range e.nodes {
		for _, j := range e.nodes[i].running {
			e.flush(j)
		}
	}
	for _, s := range e.provider.statistics {
		s.publish(e.clock.Now())
	}
}
