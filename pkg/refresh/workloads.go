package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// WorkloadInterval is the time between two observations of all pods.
	WorkloadInterval = 5 * time.Minute
	// workloadRetryAfter is as retryAfter, but longer: the queries are more work for the source.
	workloadRetryAfter = 15 * time.Second
	// MaxWorkloads bounds the workloads that have statistics.
	MaxWorkloads = 20000
	// shortestRun is an observed pod's least run time. Run times are accurate to about half a scrape interval.
	shortestRun = 2 * time.Minute
	// settledAfter is the run time after which a pod must have a measured usage.
	settledAfter = 2 * WorkloadInterval
)

// WorkloadConfig configures statistics of workloads.
type WorkloadConfig struct {
	// Source measures the pods, and is called Label in logs and metrics. If it is a source.WorkloadHistory, the past is read too.
	Source source.PodSource
	Label  string
	// Pods are the pods of the cluster, Nodes its nodes. HasSynced reports whether all of them are known yet.
	Pods      corelisters.PodLister
	Nodes     corelisters.NodeLister
	HasSynced func() bool
	// History is as in learned.Config, and WorkloadLabel as in learned.WorkloadOf.
	History       time.Duration
	WorkloadLabel string
	Clock         clock.Clock
	Metrics       *Metrics
}

// WorkloadWatcher keeps statistics of each workload. It reads usage of pods at intervals, outside the scheduling cycle, and
// publishes immutable Statistics. A failed refresh keeps them, unless the clock went back.
//
// A live pod's workload follows from the pod object, never from the source's names. Only the history has the source's
// workloads: most of its pods are gone.
//
// Publisher may be called from any goroutine, also while Run runs. Run is called once.
type WorkloadWatcher struct {
	WorkloadConfig
	publisher *learned.Publisher
	outcome   atomic.Pointer[WorkloadOutcome]

	// The fields below are used by Run's goroutine alone.
	// started reports whether there was a refresh, and failed whether the last one failed. nextRefresh is when the next is due.
	started, failed bool
	nextRefresh     time.Time
	// adopted reports whether the statistics are those of another process, whose observations are not this one's.
	adopted bool
	// observed is the time of the last observation, by the wall clock. The source knows no other.
	observed                  time.Time
	history                   source.WorkloadHistory // nil if the source knows no past
	past                      backfill
	historyErr, unmeasuredErr error // see WorkloadOutcome
	failures                  failureLog
	unmeasured                failureLog
}

// WorkloadOutcome is the result of the last refresh, which began at Began and failed with Err.
type WorkloadOutcome struct {
	Began time.Time
	Took  time.Duration
	Err   error
	// HistoryErr is why a part of the history has not been read. UnmeasuredErr is why usages are missing although the refresh
	// succeeded: a resource could not be read, or many pods have no measured usage.
	HistoryErr, UnmeasuredErr error
	PastRatio                 float64
}

// Outcome returns that of the last refresh; zero before the first.
func (w *WorkloadWatcher) Outcome() WorkloadOutcome {
	if o := w.outcome.Load(); o != nil {
		return *o
	}
	return WorkloadOutcome{}
}

func (w *WorkloadWatcher) tell(began time.Time, err error) {
	if w.Clock.Since(w.past.lost) > w.History {
		w.past.incomplete = nil // no statistics lack these pods anymore
	}
	missing := cmp.Or(w.historyErr, w.past.incomplete)
	w.outcome.Store(&WorkloadOutcome{began, w.Clock.Since(began), err, missing, w.unmeasuredErr, w.past.read()})
}

// NewWorkloadWatcher returns a watcher. The config must be complete.
func NewWorkloadWatcher(c WorkloadConfig) *WorkloadWatcher {
	history, _ := c.Source.(source.WorkloadHistory)
	return &WorkloadWatcher{
		WorkloadConfig: c, history: history, publisher: learned.NewPublisher(),
		failures:   failureLog{what: "The usage of pods", done: "read"},
		unmeasured: failureLog{what: "The usage of many pods", done: "read"},
	}
}

// Publisher is where the watcher's Statistics appear.
func (w *WorkloadWatcher) Publisher() *learned.Publisher { return w.publisher }

// Adopt publishes statistics that another process has learned. A watcher that adopts must not run. The next observation replaces
// them: they have the history that it reads.
func (w *WorkloadWatcher) Adopt(s *learned.Statistics) {
	w.publisher.Publish(s)
	w.adopted = true
}

// own returns the latest statistics; empty ones if those were adopted.
func (w *WorkloadWatcher) own() *learned.Statistics {
	if w.adopted {
		return &learned.Statistics{}
	}
	return w.publisher.Latest()
}

// Run waits until the pods are known, then refreshes, at once and at intervals, until ctx is done. After a failure it tries again
// sooner, with backoff.
func (w *WorkloadWatcher) Run(ctx context.Context) {
	w.Metrics.registerWorkloads(w)
	defer Close(ctx, w.Label, w.Source)
	if !cache.WaitForCacheSync(ctx.Done(), w.HasSynced) {
		return
	}
	repeat(ctx, w.Clock, workloadRetryAfter, w.refreshDue, w.untilDue)
}

// refreshDue observes all pods if that is due, and reads at most one period of the history. So the source has little work at once.
func (w *WorkloadWatcher) refreshDue(ctx context.Context) (err error) {
	began := w.Clock.Now()
	defer func() { w.tell(began, err) }()
	defer func() { err = w.Metrics.panicked(ctx, w.Label, recover(), err) }()
	ctx = w.logging(ctx)
	if now := w.Clock.Now(); w.failed || !now.Before(w.nextRefresh) {
		w.nextRefresh, w.failed = now.Add(WorkloadInterval), true // also if it panics
		err := w.observeNow(ctx, now)
		if w.failed = err != nil; w.failed {
			return err
		}
	}
	if w.history != nil && w.past.isDue(w.Clock.Now()) {
		w.readPeriod(ctx)
	}
	return ctx.Err()
}

// untilDue returns the time until there is something to do. After a failure, untilDue returns the longest backoff.
func (w *WorkloadWatcher) untilDue() time.Duration {
	if w.failed {
		return WorkloadInterval
	}
	next := w.nextRefresh
	if w.history != nil && w.past.remains() && w.past.notBefore.Before(next) {
		next = w.past.notBefore
	}
	return min(max(next.Sub(w.Clock.Now()), 0), WorkloadInterval)
}

func (w *WorkloadWatcher) logging(ctx context.Context) context.Context {
	return klog.NewContext(ctx, klog.FromContext(ctx).WithValues("source", w.Label))
}

// refreshTime is how long Refresh reads the history, without pauses. The last period may end later.
const refreshTime = 10 * time.Second

// Refresh observes all pods once, then reads what is missing of the history, within refreshTime. It publishes the results of both.
// It fails if no resource of the pods could be read.
func (w *WorkloadWatcher) Refresh(ctx context.Context) (err error) {
	began := w.Clock.Now()
	defer func() { w.tell(began, err) }()
	defer func() { err = w.Metrics.panicked(ctx, w.Label, recover(), err) }()
	ctx = w.logging(ctx)
	if err := w.observeNow(ctx, began); err != nil {
		return err
	}
	if w.history != nil {
		w.readFor(ctx, refreshTime)
	}
	return ctx.Err()
}

// readFor reads periods of the history one after the other, until a time has passed or one fails. Nothing waits for
// pods that are missing.
func (w *WorkloadWatcher) readFor(ctx context.Context, most time.Duration) {
	for began := w.Clock.Now(); w.past.remains(); {
		if w.Clock.Since(began) >= most {
			w.historyErr = fmt.Errorf("only %.0f %% of the past was read, as a refresh takes at most %s for it", 100*w.past.read(), most)
			break
		}
		if !w.readPeriod(ctx) && !w.past.accept(w.historyErr) {
			break
		}
	}
}

// observeNow observes all pods. The backfill covers the time before the first observation, and later gaps.
func (w *WorkloadWatcher) observeNow(ctx context.Context, began time.Time) error {
	logger := klog.FromContext(ctx)
	w.forgetIfClockWentBack(logger, began)
	err := w.observe(ctx, began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.Metrics.refreshed(w.Label, w.Clock.Since(began), err)
	if err != nil {
		return err
	}
	began = began.Round(0)
	begin := began.Add(-WorkloadInterval)
	w.past.givenUp = w.past.givenUp && began.Before(w.past.notBefore)
	if w.started && !w.adopted {
		w.past.add(span{w.observed, begin}) // while the source could not be read
	} else {
		w.past = newBackfill(begin, w.History)
	}
	w.started, w.adopted, w.observed = true, false, began
	w.reportPast()
	return nil
}

// forgetIfClockWentBack forgets all statistics if the clock was set back: nothing that follows would count as newer.
func (w *WorkloadWatcher) forgetIfClockWentBack(logger klog.Logger, now time.Time) {
	if last := w.own().At(); now.Round(0).Before(last.Add(-clockStep)) {
		logger.Info("The clock went back: the statistics of workloads are forgotten and read again", "from", last, "to", now)
		w.publisher.Publish(&learned.Statistics{})
		w.started = false
	}
}

func (w *WorkloadWatcher) observe(ctx context.Context, now time.Time) error {
	pods, err := w.Pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	w.unmeasuredErr = nil
	t := newTally(&w.WorkloadConfig, now)
	failed := w.Source.FetchPods(ctx, len(pods), t.add)
	w.countRejected()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if t.foreign > 0 && t.known == 0 && len(pods) > 0 {
		err := fmt.Errorf(
			"none of %d values is of a pod of this cluster, one is of %s: "+
				"check the address, and honorLabels in the kubelets' scrape",
			t.foreign, t.example,
		)
		failed = [load.ResourceCount]error{err, err}
	}
	err = failed[load.CPU]
	if memory := failed[load.Memory]; !errors.Is(memory, err) { // both may have one cause
		err = errors.Join(err, memory)
	}
	w.failures.log(klog.FromContext(ctx), now, err, "The statistics of workloads do not change")
	if failed[load.CPU] != nil && failed[load.Memory] != nil {
		return failed[load.CPU]
	}
	for r, err := range failed {
		if err != nil {
			t.usages.Discard(load.Resource(r))
		}
	}
	w.unmeasuredErr = errors.Join(err, w.leftOut(), w.reportMeasured(ctx, pods, t, failed))
	w.publisher.Publish(w.own().WithTally(t.usages, now, WorkloadInterval, w.bounds()))
	klog.FromContext(ctx).V(4).
		Info("Usage of pods read", "pods", len(pods), "known", t.known, "measured", t.measured, "workloads", w.publisher.Latest().Len())
	return nil
}

func (w *WorkloadWatcher) countRejected() {
	if checked, ok := w.Source.(source.CheckedPods); ok {
		w.Metrics.countRejected(w.Label, checked.TakeRejected())
	}
}

func (w *WorkloadWatcher) leftOut() error {
	if bounded, ok := w.Source.(source.BoundedPods); ok && bounded.LeftOut() != "" {
		return fmt.Errorf("left out, because of too many series of pods: %s: find out which targets write them", bounded.LeftOut())
	}
	return nil
}

// reportMeasured reports how many of the settled pods have a measured usage, of each resource that could be read.
// It returns an error if many have none.
func (w *WorkloadWatcher) reportMeasured(
	ctx context.Context, pods []*corev1.Pod, t *tally, failed [load.ResourceCount]error,
) (few error) {
	settled, nodes := 0, sets.New[string]()
	for _, pod := range pods {
		if t.ran(pod) >= settledAfter {
			settled++
			nodes.Insert(pod.Spec.NodeName)
		}
	}
	for r := range load.ResourceCount {
		if failed[r] != nil || settled == 0 {
			continue
		}
		share := min(float64(t.settled[r])/float64(settled), 1)
		w.Metrics.measured.WithLabelValues(w.Label, r.String()).Set(share)
		if source.IsIncomplete(t.settled[r], settled) {
			w.Metrics.countRejected(w.Label, source.Rejected{load.IncompleteResponse: 1})
			few = errors.Join(few, fmt.Errorf("%d of %d pods that have run for %s have a %s usage%s: check that %s reads the kubelet of "+
				"each node", t.settled[r], settled, settledAfter, r, without(nodes.Difference(t.nodes[r])), w.Source.Name()))
		}
	}
	w.unmeasured.log(klog.FromContext(ctx), t.now, few, "Workloads without history are predicted by their requests and limits")
	return few
}

func without(nodes sets.Set[string]) string {
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf(", and none on %s, such as %s", text.Count(len(nodes), "node"), slices.Min(nodes.UnsortedList()))
}

func (w *WorkloadWatcher) bounds() learned.Config {
	return learned.Config{History: w.History, MaxWorkloads: MaxWorkloads}
}

// namesByOwner maps workloads by owner to the names by the configured label, for live pods.
// If pods of an owner have different names, the name of the owner counts.
func (w *WorkloadWatcher) namesByOwner() map[learned.Workload]string {
	names := map[learned.Workload]string{}
	if w.WorkloadLabel == "" {
		return names
	}
	pods, _ := w.Pods.List(labels.Everything()) // a lister of a cache returns no error
	for _, pod := range pods {
		owner, owned := learned.OwnerOf(pod)
		named, _ := learned.WorkloadOf(pod, w.WorkloadLabel)
		if !owned {
			continue
		}
		if name, ok := names[owner]; ok && name != named.Name {
			named.Name = owner.Name
		}
		names[owner] = named.Name
	}
	return names
}

// tally counts the values of one refresh, and adds up those of pods that have run for long enough.
type tally struct {
	*WorkloadConfig
	now                     time.Time
	usages                  *learned.Tally
	capacities, allocatable map[string]podusage.Amounts
	// known counts values of pods of the cluster, measured the values added, and foreign the values of other pods.
	// example is one of the other pods.
	known, measured, foreign int
	example                  string
	settled                  [load.ResourceCount]int
	nodes                    [load.ResourceCount]sets.Set[string]
}

func newTally(c *WorkloadConfig, now time.Time) *tally {
	nodes, _ := c.Nodes.List(labels.Everything()) // a lister of a cache returns no error
	t := &tally{
		WorkloadConfig: c, now: now, capacities: make(map[string]podusage.Amounts, len(nodes)),
		allocatable: make(map[string]podusage.Amounts, len(nodes)),
	}
	var total podusage.Amounts
	for _, node := range nodes {
		t.capacities[node.Name] = podusage.CapacityOf(node).Amounts
		allocatable := podusage.AmountsOf(node.Status.Allocatable)
		t.allocatable[node.Name] = allocatable
		for r := range total {
			total[r] += allocatable[r]
		}
	}
	for r := range t.nodes {
		t.nodes[r] = sets.New[string]()
	}
	t.usages = learned.NewTally(c.WorkloadLabel, total)
	return t
}

func (t *tally) add(u *source.PodUsage) {
	pod, err := t.Pods.Pods(u.Namespace).Get(u.Pod)
	if err != nil { // it has ended, or is of another cluster
		if t.foreign++; t.foreign == 1 {
			t.example = text.Excerpt(u.Namespace + "/" + u.Pod)
		}
		return
	}
	t.known++
	if reason := load.RejectionOf(u.Usage); reason != load.Accepted {
		t.Metrics.rejected.WithLabelValues(t.Label, string(reason)).Inc()
		return
	}
	ran := t.ran(pod)
	if ran < shortestRun {
		return
	}
	if u.Resource == load.CPU && u.Window < shortestRun { // startups are learned of CPU alone
		t.usages.Momentary()
	}
	if ran < u.Window && !hasUniqueName(pod) {
		return // the pod before it had the same name, and is in the window too
	}
	usage := t.bounded(pod, u.Resource, u.Usage)
	t.measured++
	t.nodes[u.Resource].Insert(pod.Spec.NodeName)
	if ran >= settledAfter {
		t.settled[u.Resource]++
	}
	share := min(float64(ran)/float64(WorkloadInterval), 1)
	// No pod uses more than its node has. On an unknown node, the request counts as 0.
	request := min(podusage.Request(pod, u.Resource), t.allocatable[pod.Spec.NodeName][u.Resource])
	t.usages.Add(pod, u.Resource, usage, request, share)
}

func (t *tally) bounded(pod *corev1.Pod, r load.Resource, usage float64) float64 {
	capacity := t.capacities[pod.Spec.NodeName][r]
	if capacity <= 0 || usage <= capacity {
		return usage
	}
	t.Metrics.rejected.WithLabelValues(t.Label, string(load.ClampedAboveCapacity)).Inc()
	return capacity
}

// ran is how long the pod has run. After a restart of a container it is the time since the pod was started.
func (t *tally) ran(pod *corev1.Pod) time.Duration {
	if pod.Status.Phase != corev1.PodRunning {
		return 0
	}
	var first time.Time
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.RestartCount > 0 && pod.Status.StartTime != nil {
			first = pod.Status.StartTime.Time
			break
		}
		if running := s.State.Running; running != nil && (first.IsZero() || running.StartedAt.Time.Before(first)) {
			first = running.StartedAt.Time
		}
	}
	if first.IsZero() {
		return 0
	}
	return t.now.Sub(first)
}

// hasUniqueName reports whether the pod's name ends in random characters of the API server. No other pod had the name before.
// The pods of a StatefulSet also have a generateName, but end in a number.
func hasUniqueName(pod *corev1.Pod) bool {
	const randomCharacters = 5
	return pod.GenerateName != "" && len(pod.Name) == len(pod.GenerateName)+randomCharacters
}
