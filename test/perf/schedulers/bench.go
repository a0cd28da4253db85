package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	pprof "github.com/google/pprof/profile"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
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
	// batch is the number of pods of a round.
	batch int
	// owned pods have a ReplicaSet, and so are spread by default.
	owned bool
	// strict pods must spread over zones and hosts.
	strict bool
	// apart says that pods of a third of the workloads, running ones too, are on different hosts by their anti-affinity.
	apart bool
	// rate is the number of pods that arrive for each scheduler in a second. 0 means all at once.
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
	// took is the time until all pods were bound.
	took time.Duration
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

// life is what both schedulers took in one life of their processes.
type life struct {
	// cost is the processor time per pod, time the time per pod, and memory the peak of resident memory. start is the processor time
	// until all is known, and slowest the 99th percentile of the time of an attempt.
	cost, time, memory, start, slowest pair
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
		known[i] = promstub.Pod{Namespace: foundNamespace, Name: podName(i), Workload: workloadName(i)}
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
			pods = append(pods, runningPod(j, b.workload))
		}
		if err := b.store.put(ctx, pods); err != nil {
			return err
		}
	}
	return nil
}

// process is a running scheduler.
type process struct {
	cluster.Replica
	// name is the name of the scheduler.
	name string
}

// life measures rounds in a life of both schedulers, after a round to warm up. What starts first uses more memory, and then 3 %
// more processor time, so both start at the same time.
func (b *bench) life(ctx context.Context, sides [2]side, rounds int) (l life, err error) {
	both := make([]process, len(sides))
	defer func() {
		for _, p := range both {
			if p.Process != nil {
				err = errors.Join(err, p.Stop())
			}
		}
	}()
	group, startContext := errgroup.WithContext(ctx)
	for i, s := range sides {
		group.Go(func() (err error) {
			both[i], err = b.run(startContext, s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return l, err
	}
	starts, err := each(both, func(_ int, p process) (time.Duration, error) {
		if err := b.quiet(ctx, p); err != nil {
			return 0, err
		}
		return p.ProcessorTime()
	})
	if err != nil {
		return l, err
	}
	if _, err := b.round(ctx, both); err != nil { // only now: both are quiet
		return l, err
	}
	took := make([][]round, len(sides)) // by side
	for range rounds {
		before, err := each(both, func(_ int, p process) (collection, error) { return b.collect(ctx, p) })
		if err != nil {
			return l, err
		}
		measured, err := b.round(ctx, both)
		if err != nil {
			return l, err
		}
		for i, r := range measured {
			r.before = before[i]
			took[i] = append(took[i], r)
		}
	}
	peaks, err := each(both, func(_ int, p process) (int64, error) { return p.PeakResidentBytes() })
	if err != nil {
		return l, err
	}
	slowest, err := each(both, func(_ int, p process) (float64, error) {
		metrics, err := p.Metrics(ctx)
		return quantile(.99, metrics.Select("scheduler_scheduling_attempt_duration_seconds_bucket")), err
	})
	if err != nil {
		return l, err
	}
	return life{
		start: pair{starts[0].Seconds(), starts[1].Seconds()}, slowest: pair{slowest[0], slowest[1]},
		cost: pair{costOf(took[0]), costOf(took[1])}, time: pair{timeOf(took[0]), timeOf(took[1])},
		memory: pair{float64(peaks[0]), float64(peaks[1])},
	}, b.cluster.Failed()
}

// costOf returns the processor time per pod in all rounds, in seconds. Whether a garbage collection happens within a round is
// chance. So none counts; each round pays for its share of one.
func costOf(rounds []round) float64 {
	var mean collection
	for _, r := range rounds {
		mean.used += r.before.used / float64(len(rounds))
		mean.room += r.before.room / float64(len(rounds))
	}
	used, pods := 0.0, 0
	for _, r := range rounds {
		used += r.used.Seconds() - r.heap.collections*mean.used + r.heap.allocated/mean.room*mean.used
		pods += r.pods
	}
	return used / float64(pods)
}

// quantile returns a quantile of the buckets of a histogram with one set of labels, by straight lines within buckets.
func quantile(fraction float64, buckets cluster.Metrics) float64 {
	counts := map[float64]float64{}
	for _, b := range buckets {
		if bound, err := strconv.ParseFloat(string(b.Metric[model.BucketLabel]), 64); err == nil {
			counts[bound] += float64(b.Value)
		}
	}
	bounds := slices.Sorted(maps.Keys(counts))
	if len(bounds) == 0 {
		return math.NaN()
	}
	rank := fraction * counts[bounds[len(bounds)-1]]
	lower, below := 0.0, 0.0
	for _, bound := range bounds {
		if counts[bound] >= rank && !math.IsInf(bound, 1) {
			return lower + (bound-lower)*(rank-below)/(counts[bound]-below)
		}
		lower, below = bound, counts[bound]
	}
	return lower
}

// timeOf returns the time per pod in all rounds, in seconds.
func timeOf(rounds []round) float64 {
	took, pods := 0.0, 0
	for _, r := range rounds {
		took, pods = took+r.took.Seconds(), pods+r.pods
	}
	return took / float64(pods)
}

// until returns the time from began to the moment that bound gets.
func until(ctx context.Context, bound <-chan time.Time, began time.Time) (time.Duration, error) {
	select {
	case last := <-bound:
		return last.Sub(began), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// each returns what do returns for each process. It calls do for all at once: other work on the machine then costs them the same.
func each[T any](processes []process, do func(int, process) (T, error)) ([]T, error) {
	all := make([]T, len(processes))
	var group errgroup.Group
	for i, p := range processes {
		group.Go(func() (err error) {
			if all[i], err = do(i, p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			return nil
		})
	}
	return all, group.Wait()
}

// profile writes a profile of the processor time of a scheduler that binds batches, after a round to warm up. It does not name the
// program's folder, so that it can be published.
func (b *bench) profile(ctx context.Context, s side, file string) (err error) {
	const over = time.Minute
	p, err := b.run(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	alone := []process{p}
	if _, err := b.round(ctx, alone); err != nil {
		return err
	}
	binding, stop := context.WithCancel(ctx)
	bound := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = b.round(binding, alone)
		}
		bound <- err
	}()
	taken, err := p.Get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%.0f", over.Seconds()))
	stop()
	if last := <-bound; !errors.Is(last, context.Canceled) {
		return errors.Join(err, last)
	}
	if err != nil {
		return err
	}
	return writeProfile(file, []byte(taken))
}

func writeProfile(file string, taken []byte) error {
	p, err := pprof.ParseData(taken)
	if err != nil {
		return fmt.Errorf("reading the scheduler's profile: %w", err)
	}
	for _, m := range p.Mapping {
		m.File = filepath.Base(m.File)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return fmt.Errorf("writing the scheduler's profile: %w", err)
	}
	return os.WriteFile(file, b.Bytes(), 0o666)
}

// collect has the scheduler collect its garbage. What the response costs is measured apart, by another one.
func (b *bench) collect(ctx context.Context, p process) (c collection, err error) {
	if err := b.quiet(ctx, p); err != nil {
		return c, err
	}
	var used [3]time.Duration
	for i := range used {
		if i > 0 {
			if _, err := p.Get(ctx, fmt.Sprintf("/debug/pprof/heap?gc=%d", i%2)); err != nil { // only the first one collects
				return c, err
			}
		}
		if used[i], err = p.ProcessorTime(); err != nil {
			return c, err
		}
	}
	metrics, err := p.Metrics(ctx)
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
func heapOf(ctx context.Context, p process) (heap, error) {
	metrics, err := p.Metrics(ctx)
	return heap{metrics.Sum("go_gc_heap_allocs_bytes_total"), metrics.Sum("go_gc_cycles_total_gc_cycles_total")}, err
}

func (h heap) since(earlier heap) heap {
	return heap{h.allocated - earlier.allocated, h.collections - earlier.collections}
}

// run starts a scheduler, and waits until it knows the load of all nodes. Where it reads the usage of pods, it must have read
// their past. Until then, the statistics change with each period.
func (b *bench) run(ctx context.Context, s side) (process, error) {
	configuration, err := s.profile.configure(s.name, b.prometheus.URL)
	if err != nil {
		return process{}, err
	}
	r, err := b.cluster.RunScheduler(ctx, s.name, s.program, configuration)
	p := process{r, s.name}
	if err != nil || len(s.profile.plugins) == 0 { // no plugin reads load
		return p, err
	}
	const patience, pause = 2 * time.Minute, 2 * time.Second // a response costs the scheduler, too
	known := -1.0
	for end := time.Now(); ; {
		metrics, err := p.Metrics(ctx)
		fresh := metrics.Sum("plimsoll_load_nodes", "resource", "cpu", "state", "Fresh")
		past := metrics.Sum("plimsoll_workload_history_read_ratio")
		knowsPods := !s.profile.readsPods() || past >= 1
		if err == nil && int(fresh) >= b.workload.nodes && knowsPods {
			return p, nil
		}
		if fresh+past > known { // the past of large clusters takes minutes
			known, end = fresh+past, time.Now().Add(patience)
		}
		if time.Now().After(end) {
			return p, errors.Join(err, fmt.Errorf(
				"%s has learned nothing for %s; it knows the load of %v of %d nodes, and %.0f %% of the past of pods",
				s.name, patience, fresh, b.workload.nodes, 100*past))
		}
		if err := sleep(ctx, pause); err != nil {
			return p, err
		}
	}
}

// round has each scheduler bind a batch of pods, all at the same time. What they do afterwards is counted too, until they have
// nothing more to do.
func (b *bench) round(ctx context.Context, processes []process) ([]round, error) {
	const patience = 5 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%d pods are not bound in %s", b.workload.batch, patience))
	defer cancel()
	names := make([]string, len(processes))
	for i, p := range processes {
		names[i] = p.name
	}
	sets, pods := b.newReplicaSets(len(names)), b.newPods(names)
	if err := b.store.put(ctx, sets); err != nil {
		return nil, err
	}
	before, err := each(processes, func(_ int, p process) (h heap, err error) {
		if err := b.quiet(ctx, p); err != nil {
			return h, err
		}
		// A response with metrics takes memory, too.
		first, err := heapOf(ctx, p)
		if err != nil {
			return h, err
		}
		second, err := heapOf(ctx, p)
		second.allocated += second.since(first).allocated
		return second, err
	})
	if err != nil {
		return nil, err
	}
	bound := make([]<-chan time.Time, len(processes))
	for i, p := range processes {
		bound[i] = b.store.bound(ctx, p.name, b.workload.batch)
	}
	used, err := each(processes, func(_ int, p process) (time.Duration, error) { return p.ProcessorTime() })
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.arrive(ctx, pods, b.workload.rate*len(processes)); err != nil {
		return nil, err
	}
	last, err := each(processes, func(i int, _ process) (time.Duration, error) { return until(ctx, bound[i], began) })
	if err != nil {
		return nil, err
	}
	took, err := each(processes, func(i int, p process) (r round, err error) {
		if err := b.quiet(ctx, p); err != nil {
			return r, err
		}
		after, err := p.ProcessorTime()
		if err != nil {
			return r, err
		}
		end, err := heapOf(ctx, p)
		return round{pods: b.workload.batch, used: after - used[i], heap: end.since(before[i]), took: last[i]}, err
	})
	return took, errors.Join(err, b.store.remove(ctx, pods), b.store.remove(ctx, sets), b.store.removeEvents(ctx))
}

// newReplicaSets returns the ReplicaSets of the pods of the next batches; none for bare pods.
func (b *bench) newReplicaSets(schedulers int) (sets []keyed) {
	if !b.workload.owned && !b.workload.strict {
		return nil
	}
	for number := b.pods; number < b.pods+schedulers*b.workload.batch; number += replicas {
		sets = append(sets, newReplicaSet(number))
	}
	return sets
}

// newPods returns the next batch of pods for each scheduler, one pod after the other.
func (b *bench) newPods(schedulers []string) []keyed {
	batch := b.workload.batch
	pods := make([]keyed, 0, batch*len(schedulers))
	for i := range batch {
		for j := range schedulers {
			turn := (i + j) % len(schedulers)
			pod := newPod(measuredNamespace, schedulers[turn], b.pods+turn*batch+i, b.workload.owned)
			if b.workload.strict {
				spreadStrictly(pod)
			}
			b.workload.keepApart(pod, b.pods+turn*batch+i)
			pods = append(pods, keyed{podKey(pod), pod})
		}
	}
	b.pods += len(pods)
	return pods
}

// arrive creates the pods, so many in a second; 0 means all at once.
func (b *bench) arrive(ctx context.Context, pods []keyed, rate int) error {
	if rate == 0 {
		return b.store.put(ctx, pods)
	}
	const tick = 20 * time.Millisecond
	began, sent := time.Now(), 0
	for sent < len(pods) {
		due := min(len(pods), 1+int(time.Since(began).Seconds()*float64(rate)))
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
func (b *bench) quiet(ctx context.Context, p process) error {
	const pause, little, often = 100 * time.Millisecond, 4 * time.Millisecond, 3
	before, err := p.ProcessorTime()
	if err != nil {
		return err
	}
	for calm := 0; calm < often; calm++ {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		now, err := p.ProcessorTime()
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
