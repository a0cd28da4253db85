package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/compare"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// side is one of the two compared schedulers.
type side struct {
	// name is the name of the scheduler, of its profile and of its log.
	name string
	// program is the name of the program in the folder of programs.
	program string
	profile profile
}

// workload is what the schedulers are given.
type workload struct {
	nodes, podsPerNode int
	// batch is the number of pods of a round, and replicas how many of them are of one workload.
	batch, replicas int
	// owned pods have a ReplicaSet, and so are spread by default.
	owned bool
	// rate is the number of pods that arrive in a second. 0 means all at once.
	rate int
}

// round is what one round took.
type round struct {
	pods int
	// used is the processor time of the scheduler.
	used time.Duration
	heap heap
	// before is the collection right before the round, so that few happen within it.
	before collection
	// perSecond is the number of pods bound in a second.
	perSecond float64
}

// perPod is the processor time per pod in seconds. Whether a garbage collection happens within a round is chance. So none counts;
// the round pays for its share of one.
func (r round) perPod(c collection) float64 {
	return (r.used.Seconds() - r.heap.collections*c.used + r.heap.allocated/c.room*c.used) / float64(r.pods)
}

// heap is what a scheduler did to its heap.
type heap struct {
	// allocated is in bytes.
	allocated   float64
	collections float64
}

// collection is a garbage collection of a scheduler.
type collection struct {
	// used is its processor time in seconds.
	used float64
	// room is how many bytes are allocated between two collections.
	room float64
}

// blocks holds what is compared, by the life of the processes.
type blocks struct {
	// costs are the processor time per pod, and speeds the pods/s, of each round.
	costs, speeds []compare.Block
	// starts are the processor time up to the end of the warm-up, and memory the peak of resident memory.
	starts, memory []compare.Block
}

// bench compares two schedulers of one cluster.
type bench struct {
	cluster    *cluster.Cluster
	store      *store
	prometheus *httptest.Server
	workload   workload
	// pods is the number of pods made so far, so that names differ.
	pods int
}

// newBench starts a cluster and fills it. Close it.
func newBench(ctx context.Context, binDir string, w workload) (_ *bench, err error) {
	known := make([]promstub.Pod, w.nodes*w.podsPerNode)
	for i := range known {
		known[i] = promstub.Pod{Namespace: foundNamespace, Name: podName(i, replicas), Workload: workloadName(i, replicas)}
	}
	stub := &promstub.Server{Gzip: true, Pods: promstub.NewPods(known)}
	instances := make([]string, w.nodes)
	for i := range instances {
		instances[i] = nodeName(i) + ":9100"
	}
	stub.SetInstances(instances)
	b := &bench{prometheus: httptest.NewServer(stub), workload: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.cluster, err = cluster.Start(ctx, cluster.Options{BinDir: binDir, StoreOnly: true}); err != nil {
		return nil, err
	}
	if b.store, err = newStore(b.cluster.Endpoints.Etcd); err != nil {
		return nil, err
	}
	return b, b.fill(ctx)
}

func (b *bench) close() error {
	b.prometheus.Close()
	if b.store != nil {
		b.store.close()
	}
	if b.cluster != nil {
		return b.cluster.Stop()
	}
	return nil
}

// fill creates the nodes, and the pods that run on them.
func (b *bench) fill(ctx context.Context) error {
	for _, name := range []string{foundNamespace, measuredNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := b.cluster.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	nodes := make([]keyed, b.workload.nodes)
	for i := range nodes {
		nodes[i] = newNode(i)
	}
	if err := b.store.put(ctx, nodes); err != nil {
		return err
	}
	const lot = 1000
	for i := 0; i < b.workload.nodes*b.workload.podsPerNode; i += lot {
		pods := make([]keyed, 0, lot)
		for j := i; j < min(i+lot, b.workload.nodes*b.workload.podsPerNode); j++ {
			pods = append(pods, runningPod(j, b.workload.nodes))
		}
		if err := b.store.put(ctx, pods); err != nil {
			return err
		}
	}
	return nil
}

// block adds a life of both schedulers. After their start, which ends with a round to warm up, it measures pairs of rounds.
func (b *bench) block(ctx context.Context, ours, base side, pairs int, all *blocks) (err error) {
	var running [2]cluster.Replica
	defer func() {
		for _, r := range running {
			if r.Process != nil {
				err = errors.Join(err, r.Stop())
			}
		}
	}()
	for i, s := range [2]side{ours, base} {
		if running[i], err = b.run(ctx, s); err != nil {
			return err
		}
	}
	var starts, peaks [2]float64
	for i, s := range [2]side{ours, base} { // only now: both are quiet
		if _, err := b.round(ctx, running[i], s); err != nil {
			return err
		}
		used, err := running[i].ProcessorTime()
		if err != nil {
			return err
		}
		starts[i] = used.Seconds()
	}
	took, err := b.rounds(ctx, running, [2]side{ours, base}, pairs)
	if err != nil {
		return err
	}
	for i, r := range running {
		bytes, err := r.PeakResidentBytes()
		if err != nil {
			return err
		}
		peaks[i] = float64(bytes)
	}
	all.add(took)
	all.starts = append(all.starts, compare.Block{{Ours: starts[0], Base: starts[1]}})
	all.memory = append(all.memory, compare.Block{{Ours: peaks[0], Base: peaks[1]}})
	return b.cluster.Failed()
}

// profile writes a profile of the processor time of a scheduler that binds batches, after a round to warm up.
func (b *bench) profile(ctx context.Context, s side, file string) (err error) {
	const over = time.Minute
	r, err := b.run(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if _, err := b.round(ctx, r, s); err != nil {
		return err
	}
	binding, stop := context.WithCancel(ctx)
	bound := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = b.round(binding, r, s)
		}
		bound <- err
	}()
	profile, err := r.ProfileCPU(ctx, over)
	stop()
	if last := <-bound; !errors.Is(last, context.Canceled) {
		return errors.Join(err, last)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o666)
}

// rounds measures pairs of rounds.
func (b *bench) rounds(ctx context.Context, running [2]cluster.Replica, sides [2]side, pairs int) (took [][2]round, err error) {
	took = make([][2]round, pairs)
	for pair := range took {
		order := [2]int{0, 1}
		if !compare.OursFirst(pair) {
			order = [2]int{1, 0}
		}
		for _, i := range order {
			before, err := b.collect(ctx, running[i])
			if err != nil {
				return nil, err
			}
			if took[pair][i], err = b.round(ctx, running[i], sides[i]); err != nil {
				return nil, err
			}
			took[pair][i].before = before
		}
	}
	return took, nil
}

// add adds the rounds of one life.
func (all *blocks) add(took [][2]round) {
	var collections [2]collection // the means
	for _, pair := range took {
		for i := range pair {
			collections[i].used += pair[i].before.used / float64(len(took))
			collections[i].room += pair[i].before.room / float64(len(took))
		}
	}
	var costs, speeds compare.Block
	for _, pair := range took {
		costs = append(costs, compare.Pair{Ours: pair[0].perPod(collections[0]), Base: pair[1].perPod(collections[1])})
		speeds = append(speeds, compare.Pair{Ours: 1 / pair[0].perSecond, Base: 1 / pair[1].perSecond})
	}
	all.costs, all.speeds = append(all.costs, costs), append(all.speeds, speeds)
}

// collect has the scheduler collect its garbage. What the response costs is measured apart, by another one.
func (b *bench) collect(ctx context.Context, r cluster.Replica) (c collection, err error) {
	if err := b.quiet(ctx, r); err != nil {
		return c, err
	}
	var used [3]time.Duration
	for i := range used {
		if i > 0 {
			if err := r.ProfileHeap(ctx, i == 1); err != nil {
				return c, err
			}
		}
		if used[i], err = r.ProcessorTime(); err != nil {
			return c, err
		}
	}
	metrics, err := r.Metrics(ctx)
	if err != nil {
		return c, err
	}
	c = collection{
		used: (used[1] - used[0] - (used[2] - used[1])).Seconds(),
		room: metrics.Sum("go_gc_heap_goal_bytes") - metrics.Sum("go_gc_heap_live_bytes"),
	}
	if c.room <= 0 {
		return c, errors.New("the scheduler's metrics lack go_gc_heap_goal_bytes or go_gc_heap_live_bytes")
	}
	return c, nil
}

// heapOf returns what the scheduler did to its heap since its start.
func heapOf(ctx context.Context, r cluster.Replica) (heap, error) {
	metrics, err := r.Metrics(ctx)
	return heap{metrics.Sum("go_gc_heap_allocs_bytes_total"), metrics.Sum("go_gc_cycles_total_gc_cycles_total")}, err
}

func (h heap) since(earlier heap) heap {
	return heap{h.allocated - earlier.allocated, h.collections - earlier.collections}
}

// run starts a scheduler, and waits until it knows the load of all nodes. Where it reads the usage of pods, it must have read
// their past. Until then, the statistics change with each period.
func (b *bench) run(ctx context.Context, s side) (cluster.Replica, error) {
	configuration, err := s.profile.configure(s.name, b.prometheus.URL)
	if err != nil {
		return cluster.Replica{}, err
	}
	r, err := b.cluster.RunScheduler(ctx, s.name, build.Part{Name: s.program}, configuration)
	if err != nil || !s.profile.readsLoad() {
		return r, err
	}
	const patience, pause = 2 * time.Minute, 200 * time.Millisecond
	for end := time.Now().Add(patience); ; {
		metrics, err := r.Metrics(ctx)
		fresh := metrics.Sum("plimsoll_load_nodes", "resource", "cpu", "state", "Fresh")
		past := metrics.Sum("plimsoll_workload_history_read_ratio")
		knowsPods := !s.profile.readsPods() || past >= 1
		if err == nil && int(fresh) >= b.workload.nodes && knowsPods {
			return r, nil
		}
		if time.Now().After(end) {
			return r, errors.Join(err, fmt.Errorf("%s knows the load of %v nodes and %.0f %% of the past of pods after %s, must be %d",
				s.name, fresh, 100*past, patience, b.workload.nodes))
		}
		if err := sleep(ctx, pause); err != nil {
			return r, err
		}
	}
}

// round has the scheduler bind a batch of pods. What it does afterwards is counted too, until it has nothing more to do.
func (b *bench) round(ctx context.Context, r cluster.Replica, s side) (_ round, err error) {
	const patience = 5 * time.Minute
	late := fmt.Errorf("%s has not bound %d pods in %s", s.name, b.workload.batch, patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	pods := make([]keyed, b.workload.batch)
	for i := range pods {
		pod := newPod(measuredNamespace, s.name, b.pods, b.workload.replicas, b.workload.owned)
		pods[i] = keyed{podKey(pod), pod}
		b.pods++
	}
	if err := b.quiet(ctx, r); err != nil {
		return round{}, err
	}
	// A response with metrics takes memory, too.
	first, err := heapOf(ctx, r)
	if err != nil {
		return round{}, err
	}
	heapBefore, err := heapOf(ctx, r)
	if err != nil {
		return round{}, err
	}
	bound := b.store.bound(ctx, len(pods))
	before, err := r.ProcessorTime()
	if err != nil {
		return round{}, err
	}
	began := time.Now()
	if err := b.arrive(ctx, pods); err != nil {
		return round{}, err
	}
	var last time.Time
	select {
	case last = <-bound:
	case <-ctx.Done():
		return round{}, context.Cause(ctx)
	}
	if err := b.quiet(ctx, r); err != nil {
		return round{}, err
	}
	after, err := r.ProcessorTime()
	if err != nil {
		return round{}, err
	}
	heapAfter, err := heapOf(ctx, r)
	if err != nil {
		return round{}, err
	}
	n := len(pods)
	took := round{
		pods: n, used: after - before, heap: heapAfter.since(heapBefore), perSecond: float64(n) / last.Sub(began).Seconds(),
	}
	took.heap.allocated -= heapBefore.since(first).allocated
	return took, errors.Join(b.store.remove(ctx, pods), b.store.removeEvents(ctx))
}

// arrive creates the pods at the workload's rate.
func (b *bench) arrive(ctx context.Context, pods []keyed) error {
	if b.workload.rate == 0 {
		return b.store.put(ctx, pods)
	}
	const tick = 20 * time.Millisecond
	began, sent := time.Now(), 0
	for sent < len(pods) {
		due := min(len(pods), 1+int(time.Since(began).Seconds()*float64(b.workload.rate)))
		if err := b.store.put(ctx, pods[sent:due]); err != nil {
			return err
		}
		sent = due
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// quiet waits until the scheduler has used little processor time for a while. A scheduler without pods still polls a little.
func (b *bench) quiet(ctx context.Context, r cluster.Replica) error {
	const pause, little, often = 100 * time.Millisecond, 4 * time.Millisecond, 3
	before, err := r.ProcessorTime()
	if err != nil {
		return err
	}
	for calm := 0; calm < often; calm++ {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		now, err := r.ProcessorTime()
		if err != nil {
			return err
		}
		if now-before > little {
			calm = -1
		}
		before = now
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
