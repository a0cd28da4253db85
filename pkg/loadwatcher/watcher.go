// Package loadwatcher keeps what nodes carry: it reads a source outside the scheduling cycle, keeps what is good of each
// answer, and publishes an immutable snapshot that decisions read without waiting.
package loadwatcher

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

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
	// clockStep is by how much the clock may go back without further ado.
	clockStep = time.Second
	// jitter spreads the refreshes of several schedulers, so that they do not all query at the same moment.
	jitter = 0.1
)

// Nodes is what a watcher needs to know of the cluster.
type Nodes interface {
	// HasSynced tells whether all nodes are known yet.
	HasSynced() bool
	// Names returns the names of all nodes.
	Names() []string
}

// Watcher reads one source at intervals and publishes what it learns. A node that an answer leaves out, or for which it
// holds an impossible value, keeps its last reading and that reading's age; a failed refresh changes nothing.
//
// Publisher and Want may be called from any goroutine, also while Run runs. Run is called once.
type Watcher struct {
	source    source.Source
	label     string
	nodes     Nodes
	clock     clock.Clock
	telemetry *Metrics
	publisher *load.Publisher

	mu     sync.Mutex
	wanted demand

	// What follows is touched by Run's goroutine alone: records by node, metrics by expression.
	records map[string]*record
	// index is of the records' nodes. It is nil when these have changed, and kept as long as they do not.
	index   *load.Index
	metrics map[string]load.MetricTable
	failing bool
	// last is the time of the last refresh.
	last time.Time
}

// demand is what all readers of a watcher together want.
type demand struct {
	windows []time.Duration
	metrics []string
	// loosest holds the shortest refresh interval, and the longest age and the largest tolerance that any reader trusts.
	loosest load.Settings
}

// NewWatcher returns a watcher of src, called label in logs and metrics. It has to be told what is wanted before it is run.
func NewWatcher(src source.Source, label string, nodes Nodes, c clock.Clock, m *Metrics) *Watcher {
	return &Watcher{
		source:    src,
		label:     label,
		nodes:     nodes,
		clock:     c,
		telemetry: m,
		publisher: load.NewPublisher(),
		records:   map[string]*record{},
		metrics:   map[string]load.MetricTable{},
	}
}

// Publisher is where the watcher's snapshots appear.
func (w *Watcher) Publisher() *load.Publisher { return w.publisher }

// Want adds what a reader wants: its window and its metrics are read from the next refresh on, at the shortest interval
// that any reader wants, and kept as long as any reader trusts them.
func (w *Watcher) Want(s load.Settings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &w.wanted
	if s.Window > 0 && !slices.Contains(d.windows, s.Window) {
		d.windows = append(slices.Clone(d.windows), s.Window)
		slices.Sort(d.windows)
	}
	for _, metric := range s.Metrics {
		if !slices.Contains(d.metrics, metric) {
			d.metrics = append(slices.Clone(d.metrics), metric)
		}
	}
	if d.loosest.RefreshInterval == 0 || s.RefreshInterval < d.loosest.RefreshInterval {
		d.loosest.RefreshInterval = s.RefreshInterval
	}
	d.loosest.MaxAge = max(d.loosest.MaxAge, s.MaxAge)
	d.loosest.DriftTolerance = max(d.loosest.DriftTolerance, s.DriftTolerance)
}

func (w *Watcher) demand() demand {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted
}

// states returns the end of the newest reading of any node, and for each resource the number of the cluster's nodes in each
// load.State.
func (w *Watcher) states() (newest time.Time, cpu, memory [load.Fresh + 1]int) {
	d, snapshot, now := w.demand(), w.publisher.Latest(), w.clock.Now()
	if len(d.windows) == 0 {
		return newest, cpu, memory // only metrics are read
	}
	table := snapshot.Over(d.windows[0])
	count := func(r *load.Reading, states *[load.Fresh + 1]int) {
		state := load.Absent
		switch {
		case r.Known && !now.After(r.FreshUntil(d.loosest)):
			state = load.Fresh
		case r.Known:
			state = load.Expired
		}
		states[state]++
		if r.End.After(newest) {
			newest = r.End
		}
	}
	for _, name := range w.nodes.Names() {
		node := table.Node(name)
		count(&node.CPU, &cpu)
		count(&node.Memory, &memory)
	}
	return newest, cpu, memory
}

// Run waits for the nodes to be known, then refreshes, at once and at intervals, until ctx is done. After a failure it tries
// again sooner, with backoff.
func (w *Watcher) Run(ctx context.Context) {
	w.telemetry.watch(w)
	if closer, ok := w.source.(io.Closer); ok {
		defer func() {
			if err := closer.Close(); err != nil {
				klog.FromContext(ctx).Error(err, "Closing a load source failed", "source", w.source.Name())
			}
		}()
	}
	if !cache.WaitForCacheSync(ctx.Done(), w.nodes.HasSynced) {
		return
	}
	var backoff *wait.Backoff
	for {
		err := w.Refresh(ctx)
		interval := w.demand().loosest.RefreshInterval
		delay := wait.Jitter(interval, jitter)
		if err == nil {
			backoff = nil
		} else {
			if backoff == nil {
				backoff = &wait.Backoff{Duration: min(retryAfter, interval), Factor: 2, Jitter: jitter, Steps: 16, Cap: interval}
			}
			delay = backoff.Step()
		}
		timer := w.clock.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// Refresh reads the source once and publishes the result. After an error what was known stays as it was, unless the clock
// went back.
func (w *Watcher) Refresh(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("source", w.label)
	d, began := w.demand(), w.clock.Now()
	batch, err := w.source.Fetch(ctx, source.Request{Windows: d.windows, Metrics: d.metrics})
	if err == nil && len(batch.Samples)+len(batch.Answers) == 0 {
		err = errors.New("the answer holds no node")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now := w.clock.Now()
	w.telemetry.refreshed(w, now.Sub(began), err)
	w.forgetIfClockWentBack(logger, now)
	if err != nil {
		if !w.failing {
			logger.Error(err, "Load cannot be read; nodes keep the load last read until it is too old, then they are judged by requests")
		} else {
			logger.V(4).Info("Load still cannot be read", "err", err)
		}
		w.failing = true
		return err
	}
	if w.failing {
		logger.Info("Load can be read again", "samples", len(batch.Samples))
		w.failing = false
	}
	w.telemetry.unmatched.WithLabelValues(w.label).Set(float64(batch.UnmatchedCount))
	for i := range batch.Samples {
		w.keep(&batch.Samples[i], d, now)
	}
	oldest := now.Add(-d.loosest.MaxAge)
	for node, r := range w.records {
		if r.newest().Before(oldest) {
			delete(w.records, node)
			w.index = nil
		}
	}
	for i := range batch.Answers {
		w.keepAnswer(&batch.Answers[i], now, oldest)
	}
	w.publish(d)
	logger.V(4).Info("Load read", "windows", d.windows, "samples", len(batch.Samples), "nodes", len(w.records))
	return nil
}

// forgetIfClockWentBack forgets all load if the clock was set back since the last refresh: load from before would be newer
// than all that follows, and fresh until the clock is where it was.
func (w *Watcher) forgetIfClockWentBack(logger klog.Logger, now time.Time) {
	wall := now.Round(0) // without the monotonic reading, by which the clock never goes back
	if wall.Before(w.last.Add(-clockStep)) {
		logger.Info("The clock went back: all load is read anew", "from", w.last, "to", wall)
		clear(w.records)
		clear(w.metrics)
		w.index = nil
		w.publish(demand{})
	}
	w.last = wall
}

// keep takes in the sample's possible values. A reading of the moment becomes a part of every window. A span that nobody
// asked for, which a source that knows but one window sends, is the best there is for all windows.
func (w *Watcher) keep(s *load.Sample, d demand, now time.Time) {
	cpu, memory := w.checked(s.CPU), w.checked(s.Memory)
	if len(d.windows) == 0 || !cpu.Known && !memory.Known {
		return
	}
	at := end{stated: s.End, believed: s.End}
	if at.believed.After(now) {
		at.believed = now
	}
	r, ok := w.records[s.Node]
	if !ok {
		r = &record{}
		w.records[s.Node], w.index = r, nil
	}
	windows, cpuSpan, memorySpan := d.windows, s.Window, s.Window
	if s.Window == 0 {
		r.moments.add(at.believed, cpu, memory, windows[0], windows[len(windows)-1])
	} else if slices.Contains(windows, s.Window) {
		windows = []time.Duration{s.Window}
	}
	for _, window := range windows {
		if s.Window == 0 {
			cpu, memory, cpuSpan, memorySpan = r.moments.over(window)
		}
		kept := r.over(window)
		kept.cpu.keep(cpu, cpuSpan, at, d.loosest.MaxAge)
		kept.memory.keep(memory, memorySpan, at, d.loosest.MaxAge)
	}
}

func (w *Watcher) checked(s load.Stat) load.Stat {
	checked, reason := s.Checked()
	if reason != load.Accepted {
		w.telemetry.rejected.WithLabelValues(w.label, string(reason)).Inc()
	}
	return checked
}

// keepAnswer takes in the possible values of a metric, and drops those that nobody trusts any more.
func (w *Watcher) keepAnswer(a *source.Answer, now, oldest time.Time) {
	end := a.End
	if end.After(now) {
		end = now
	}
	// A table that was published is not changed.
	kept := load.MetricTable{}
	for node, r := range w.metrics[a.Metric] {
		if !r.End.Before(oldest) {
			kept[node] = r
		}
	}
	for node, value := range a.Values {
		switch {
		case math.IsNaN(value) || math.IsInf(value, 0):
			w.telemetry.rejected.WithLabelValues(w.label, string(load.RejectedNotANumber)).Inc()
		case !end.Before(kept[node].End):
			kept[node] = load.MetricReading{Value: value, End: end}
		}
	}
	w.metrics[a.Metric] = kept
}

func (w *Watcher) publish(d demand) {
	if w.index == nil {
		w.index = load.NewIndex(slices.Collect(maps.Keys(w.records)))
	}
	tables := make(map[time.Duration]*load.Table, len(d.windows))
	for _, window := range d.windows {
		tables[window] = load.NewTable(w.index, func(node string) load.NodeLoad {
			if kept := w.records[node].find(window); kept != nil {
				return kept.load()
			}
			return load.NodeLoad{}
		})
	}
	w.publisher.Publish(load.NewSnapshot(tables).WithMetrics(maps.Clone(w.metrics)))
}
