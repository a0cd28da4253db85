// Package refresh keeps the load of nodes up to date. It reads a source outside the scheduling cycle, and checks each batch.
// It publishes an immutable snapshot, which decisions read without waiting.
package refresh

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// retryAfter is the wait after the first of several failed refreshes; it doubles up to the refresh interval.
	retryAfter = time.Second
	// clockStep is how far the clock may go back before all load is forgotten.
	clockStep = time.Second
	// jitter spreads the refreshes of several schedulers, so that they do not all query at the same moment.
	jitter = 0.1
)

// Nodes are the nodes of the cluster.
type Nodes interface {
	HasSynced() bool
	Names() []string
}

// Watcher reads one source at intervals, and publishes its measurements. A node keeps its last measurement if a batch has no value,
// or an impossible one. A failed refresh changes nothing.
//
// Publisher and Register may be called from any goroutine, also while Run runs. Run is called once.
type Watcher struct {
	source    source.Source
	label     string
	nodes     Nodes
	clock     clock.Clock
	metrics   *Metrics
	publisher *load.Publisher

	mu           sync.Mutex
	outcome      Outcome
	requirements load.Requirements
	trust        load.Trust

	// The fields below are used by Run's goroutine alone: histories by node, node metrics by expression.
	histories   map[string]*nodeHistory
	nodeMetrics map[string]load.MetricTable
	metricEnds  map[string]sourceEnd
	index       *load.Index
	failures    failureLog
	lastRefresh time.Time
}

// Outcome is what a refresh told beside the load. It began at Began, and failed with Err.
type Outcome struct {
	Began     time.Time
	Took      time.Duration
	Err       error
	Contested []source.Contested
	Further   map[string][]string
}

// Outcome returns that of the last refresh; zero before the first.
func (w *Watcher) Outcome() Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcome
}

// NewWatcher returns a watcher of src, called label in logs and metrics. Register what is to be read before calling Run.
func NewWatcher(src source.Source, label string, nodes Nodes, c clock.Clock, m *Metrics) *Watcher {
	return &Watcher{
		source: src, label: label, nodes: nodes, clock: c, metrics: m, publisher: load.NewPublisher(),
		histories: map[string]*nodeHistory{}, nodeMetrics: map[string]load.MetricTable{}, metricEnds: map[string]sourceEnd{},
		index: load.NewIndex(nil), failures: failureLog{what: "Load", done: "read"},
	}
}

// Publisher is where the watcher's snapshots appear.
func (w *Watcher) Publisher() *load.Publisher { return w.publisher }

// Register adds a reader's windows and node metrics from the next refresh on. The shortest interval of all readers applies.
// Measurements are kept as long as any reader trusts them.
func (w *Watcher) Register(requirements load.Requirements, trust load.Trust) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requirements = w.requirements.Add(requirements)
	w.trust = w.trust.Loosest(trust)
}

func (w *Watcher) registered() (load.Requirements, load.Trust) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requirements, w.trust
}

// Trust is the loosest of all readers.
func (w *Watcher) Trust() load.Trust {
	_, trust := w.registered()
	return trust
}

// Adopt publishes the load of nodes that another process has read. It does nothing and returns false if a table or a node metric is
// missing that a reader needs. A watcher that adopts must not run.
func (w *Watcher) Adopt(
	nodes sets.Set[string], tables map[load.Quantile]map[string]load.NodeLoad, metrics map[string]load.MetricTable,
) bool {
	requirements, _ := w.registered()
	needed := slices.Clone(requirements.Quantiles)
	for _, window := range requirements.Windows {
		needed = append(needed, load.Quantile{Window: window})
	}
	if slices.ContainsFunc(needed, func(of load.Quantile) bool { return tables[of] == nil }) ||
		slices.ContainsFunc(requirements.Metrics, func(query string) bool { return metrics[query] == nil }) {
		return false
	}
	w.index = indexOf(nodes, w.index)
	adopted := map[load.Quantile]*load.Table{}
	for of, rows := range tables {
		adopted[of] = load.NewTable(w.index, func(node string) load.NodeLoad { return rows[node] })
	}
	w.publisher.Publish(load.NewSnapshot(w.index, nil, metrics).WithQuantiles(adopted))
	return true
}

type nodeStates [load.ResourceCount][load.StateCount]int

// states returns the newest measurement's end, and the nodes' states by the shortest window, else by the first quantile.
// They are all 0 if only node metrics are read.
func (w *Watcher) states() (newest time.Time, states nodeStates) {
	requirements, trust := w.registered()
	latest, now := w.publisher.Latest(), w.clock.Now()
	var table *load.Table
	switch {
	case len(requirements.Windows) > 0:
		table = latest.Over(requirements.Windows[0])
	case len(requirements.Quantiles) > 0:
		table = latest.Table(requirements.Quantiles[0])
	default:
		return newest, states
	}
	for _, name := range w.nodes.Names() {
		for r, m := range table.Node(name) {
			states[r][m.State(now, trust)]++
			if m.End.After(newest) {
				newest = m.End
			}
		}
	}
	return newest, states
}

// Run waits until the nodes are known, then refreshes, at once and at intervals, until ctx is done. After a failure it tries
// again sooner, with backoff.
func (w *Watcher) Run(ctx context.Context) {
	w.metrics.register(w)
	defer Close(ctx, w.label, w.source)
	if !cache.WaitForCacheSync(ctx.Done(), w.nodes.HasSynced) {
		return
	}
	repeat(ctx, w.clock, retryAfter, w.Refresh, func() time.Duration {
		requirements, _ := w.registered()
		return requirements.RefreshInterval
	})
}

// Close closes a source that can be closed, called label in logs.
func Close(ctx context.Context, label string, source any) {
	if closer, ok := source.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			klog.FromContext(ctx).Error(err, "Closing a source failed", "source", label)
		}
	}
}

// repeat calls refresh, at once and at intervals, until ctx is done. After a failure it tries again sooner, with backoff from retry
// on.
func repeat(
	ctx context.Context, c clock.Clock, retry time.Duration, refresh func(context.Context) error,
	currentInterval func() time.Duration,
) {
	var backoff *wait.Backoff
	for {
		err := refresh(ctx)
		interval := currentInterval()
		delay := wait.Jitter(interval, jitter)
		if err == nil {
			backoff = nil
		} else {
			if backoff == nil {
				if interval <= 0 { // due at once: a failure must not be repeated without a pause
					interval = retry
				}
				backoff = &wait.Backoff{Duration: min(retry, interval), Factor: 2, Jitter: jitter, Steps: 16, Cap: interval}
			}
			delay = backoff.Step()
		}
		timer := c.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// Refresh reads the source once and publishes the result. After an error all load stays as it was, unless the clock went
// back. Node metrics that were read beside it are published. A panic is an error.
func (w *Watcher) Refresh(ctx context.Context) (err error) {
	began := w.clock.Now()
	var batch source.Batch
	defer func() {
		err = w.metrics.panicked(ctx, w.label, recover(), err)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outcome = Outcome{began, w.clock.Since(began), err, batch.Contested, batch.Further}
	}()
	logger := klog.FromContext(ctx).WithValues("source", w.label)
	requirements, trust := w.registered()
	batch, err = w.source.Fetch(ctx,
		source.Request{Windows: requirements.Windows, Quantiles: requirements.Quantiles, Metrics: requirements.Metrics})
	if err == nil && len(batch.Samples)+len(batch.Metrics)+len(batch.Contested) == 0 {
		err = errors.New("the source returned no node")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now := w.clock.Now()
	w.metrics.refreshed(w.label, now.Sub(began), err)
	w.metrics.countRejected(w.label, batch.Rejected)
	w.forgetIfClockWentBack(logger, now)
	w.failures.log(logger, now, err, "Nodes keep their last measurement until it expires, then their requests are used")
	if err != nil && len(batch.Metrics) == 0 {
		return err
	}
	oldest := now.Add(-trust.MaxAge)
	if err == nil {
		w.storeLoad(&batch, requirements, oldest, now)
	}
	for i := range batch.Metrics {
		w.storeMetric(&batch.Metrics[i], now)
	}
	w.forgetMetrics(oldest, batch.Metrics)
	w.publish(requirements)
	if err == nil {
		logger.V(4).Info("Load read", "windows", requirements.Windows, "samples", len(batch.Samples), "nodes", len(w.histories))
	}
	return err
}

// storeLoad stores the load of a batch. It forgets load that ended before oldest, unless this refresh returned it: that is expired.
func (w *Watcher) storeLoad(batch *source.Batch, requirements load.Requirements, oldest, now time.Time) {
	w.metrics.unmatched.WithLabelValues(w.label).Set(float64(batch.UnmatchedCount))
	w.metrics.contested.WithLabelValues(w.label).Set(float64(len(batch.Contested)))
	if source.IsIncomplete(w.measuredAgain(batch, oldest)) {
		w.metrics.countRejected(w.label, source.Rejected{load.IncompleteResponse: 1})
	}
	for _, c := range batch.Contested {
		delete(w.histories, c.Node) // neither the last load nor either of the two counts
	}
	for i := range batch.Samples {
		w.store(&batch.Samples[i], requirements, now.Sub(oldest), now)
	}
	maps.DeleteFunc(w.histories, func(_ string, h *nodeHistory) bool {
		newest, lastRead := h.times()
		return newest.Before(oldest) && lastRead.Before(now)
	})
}

func (w *Watcher) measuredAgain(batch *source.Batch, oldest time.Time) (has, expected int) {
	measured := make(map[string]bool, len(w.histories))
	for i := range batch.Samples {
		measured[batch.Samples[i].Node] = true
	}
	for _, c := range batch.Contested {
		measured[c.Node] = true
	}
	for _, name := range w.nodes.Names() {
		h, ok := w.histories[name]
		if !ok {
			continue
		}
		if newest, _ := h.times(); newest.Before(oldest) {
			continue
		}
		if expected++; measured[name] {
			has++
		}
	}
	return has, expected
}

// failureLog logs when what is done repeatedly starts to fail or to succeed, at a limited rate.
type failureLog struct {
	// what names a source or a file, and done is what is done with it: read or saved.
	what, done string
	failure    string // of the last time; empty if it succeeded
	limit      source.LogLimit
}

func (l *failureLog) log(logger klog.Logger, now time.Time, err error, consequence string) {
	before, state := l.failure, []string(nil)
	if l.failure = ""; err != nil {
		l.failure, state = err.Error(), []string{"failed"}
	}
	switch changed, ok := l.limit.AllowChange(logger, now, state); {
	case ok && err != nil:
		changed.Error(err, l.what+" cannot be "+l.done+". "+consequence)
	case ok:
		changed.Info(l.what + " can be " + l.done + " again")
	case err != nil && l.failure != before:
		logger.V(4).Info(l.what+" still cannot be "+l.done, "err", err)
	}
}

// forgetIfClockWentBack forgets all load if the clock was set back since the last refresh.
// Earlier load would be newer than later load, and stay fresh too long.
func (w *Watcher) forgetIfClockWentBack(logger klog.Logger, now time.Time) {
	wall := now.Round(0) // without the monotonic clock reading, by which time never goes back
	if wall.Before(w.lastRefresh.Add(-clockStep)) {
		logger.Info("The clock went back: all load is forgotten and read again", "from", w.lastRefresh, "to", wall)
		clear(w.histories)
		clear(w.nodeMetrics)
		clear(w.metricEnds)
		w.publish(load.Requirements{})
	}
	w.lastRefresh = wall
}

// forgetMetrics forgets node metrics that ended before oldest, except those returned again.
func (w *Watcher) forgetMetrics(oldest time.Time, returned []source.MetricValues) {
	values := make(map[string]map[string]float64, len(returned))
	for _, m := range returned {
		values[m.Metric] = m.Values
	}
	for metric, table := range w.nodeMetrics {
		maps.DeleteFunc(table, func(node string, v load.MetricValue) bool {
			_, again := values[metric][node]
			return v.End.Before(oldest) && !again
		})
		if len(table) == 0 && !w.metricEnds[metric].future {
			delete(w.metricEnds, metric) // the same values again are stored again, unless that would make them newer
		}
	}
}

// store stores the sample's possible values. A sample of the moment counts toward every window. A sample over an unregistered
// window serves all windows: its source has only one. A quantile serves only itself.
func (w *Watcher) store(s *load.Sample, requirements load.Requirements, maxAge time.Duration, now time.Time) {
	stats, windows := w.checked(s.Stats), requirements.Windows
	if s.Fraction > 0 {
		if windows = nil; slices.Contains(requirements.Quantiles, load.Quantile{Window: s.Window, Fraction: s.Fraction}) {
			windows = []time.Duration{s.Window}
		}
	}
	if len(windows) == 0 || !stats.Known() {
		return
	}
	end := w.checkedEnd(s.End, now)
	h, ok := w.histories[s.Node]
	if !ok {
		h = &nodeHistory{}
		w.histories[s.Node] = h
	}
	if s.Window == 0 {
		h.moments.add(end.Time, stats, windows[0], windows[len(windows)-1])
	} else if slices.Contains(windows, s.Window) {
		windows = []time.Duration{s.Window}
	}
	for _, window := range windows {
		kept := h.over(load.Quantile{Window: window, Fraction: s.Fraction})
		for r := range load.ResourceCount {
			stat, span := stats[r], s.Window
			if s.Window == 0 {
				stat, span = h.moments.over(window, r)
				span += stats[r].Span // the first moment may be a mean too
			}
			kept.resources[r].store(stat, span, end, maxAge)
		}
	}
}

func (w *Watcher) checked(stats load.Stats) load.Stats {
	for r, s := range stats {
		var reason load.Rejection
		if stats[r], reason = s.Checked(); reason != load.Accepted {
			w.metrics.rejected.WithLabelValues(w.label, string(reason)).Inc()
		}
	}
	return stats
}

// checkedEnd returns the end of a window by a source's timestamp, at most now. Clocks may differ by a refresh interval.
func (w *Watcher) checkedEnd(timestamp, now time.Time) windowEnd {
	requirements, _ := w.registered()
	end := endOf(timestamp, now, requirements.RefreshInterval)
	if end.source.future {
		w.metrics.rejected.WithLabelValues(w.label, string(load.ClampedFromTheFuture)).Inc()
	}
	return end
}

func (w *Watcher) storeMetric(m *source.MetricValues, now time.Time) {
	end := w.checkedEnd(m.End, now)
	superseded := end.source.supersedes(w.metricEnds[m.Metric])
	if superseded {
		w.metricEnds[m.Metric] = end.source
	}
	table, ok := w.nodeMetrics[m.Metric]
	if !ok {
		table = load.MetricTable{}
		w.nodeMetrics[m.Metric] = table
	}
	for node, value := range m.Values {
		switch {
		case math.IsNaN(value) || math.IsInf(value, 0):
			w.metrics.rejected.WithLabelValues(w.label, string(load.RejectedNotANumber)).Inc()
		case superseded:
			table[node] = load.MetricValue{Value: value, End: end.Time}
		}
	}
}

func (w *Watcher) publish(requirements load.Requirements) {
	w.updateIndex()
	tables := make(map[time.Duration]*load.Table, len(requirements.Windows))
	for _, window := range requirements.Windows {
		tables[window] = w.table(load.Quantile{Window: window})
	}
	quantiles := make(map[load.Quantile]*load.Table, len(requirements.Quantiles))
	for _, q := range requirements.Quantiles {
		quantiles[q] = w.table(q)
	}
	w.publisher.Publish(load.NewSnapshot(w.index, tables, w.nodeMetrics).WithQuantiles(quantiles))
}

func (w *Watcher) table(of load.Quantile) *load.Table {
	return load.NewTable(w.index, func(node string) load.NodeLoad {
		if h, ok := w.histories[node]; ok {
			if kept := h.find(of); kept != nil {
				return kept.load()
			}
		}
		return load.NodeLoad{}
	})
}

func (w *Watcher) updateIndex() {
	nodes := sets.KeySet(w.histories)
	for _, table := range w.nodeMetrics {
		nodes.Insert(slices.Collect(maps.Keys(table))...)
	}
	w.index = indexOf(nodes, w.index)
}

// indexOf returns an index of the nodes: the last one if that has the same.
func indexOf(nodes sets.Set[string], last *load.Index) *load.Index {
	if nodes.Len() == last.Len() && nodes.HasAll(last.Names()...) {
		return last
	}
	return load.NewIndex(nodes.UnsortedList())
}
