// Package loadwatcher keeps what nodes carry: it reads a source outside the scheduling cycle, keeps what is good of each
// answer, and publishes an immutable snapshot that decisions read without waiting.
package loadwatcher

import (
	"context"
	"errors"
	"io"
	"maps"
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
	// jitter spreads the refreshes of several schedulers, so that they do not all query at the same moment.
	jitter = 0.1
)

// Demand is what one reader wants of a Watcher.
type Demand struct {
	// Window is the span that the reader wants means and deviations over.
	Window time.Duration
	// RefreshInterval is the longest time between two readings of the source.
	RefreshInterval time.Duration
	// MaxAge is the age beyond which the reader does not trust a measurement.
	MaxAge time.Duration
}

// Watcher reads one source at intervals and publishes what it learns. A node that an answer leaves out, or for which it
// holds an impossible value, keeps its last reading and that reading's age; a failed refresh changes nothing.
//
// Publisher and Want may be called from any goroutine, also while Run runs. Run is called once.
type Watcher struct {
	source    source.Source
	ready     cache.InformerSynced
	clock     clock.Clock
	publisher *load.Publisher

	mu     sync.Mutex
	demand struct {
		windows  []time.Duration
		interval time.Duration
		maxAge   time.Duration
	}

	// readings is touched by Run's goroutine alone.
	readings map[time.Duration]map[string]load.NodeLoad
	failing  bool
}

// NewWatcher returns a watcher of src whose Run waits for ready, which tells whether the cluster's nodes are known.
func NewWatcher(src source.Source, ready cache.InformerSynced, c clock.Clock) *Watcher {
	return &Watcher{
		source:    src,
		ready:     ready,
		clock:     c,
		publisher: load.NewPublisher(),
		readings:  map[time.Duration]map[string]load.NodeLoad{},
	}
}

// Publisher is where the watcher's snapshots appear.
func (w *Watcher) Publisher() *load.Publisher { return w.publisher }

// Want adds a reader's demand: its window is read from the next refresh on, and the shortest interval and the longest age
// of all demands hold.
func (w *Watcher) Want(d Demand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.demand.windows, d.Window) {
		w.demand.windows = append(w.demand.windows, d.Window)
		slices.Sort(w.demand.windows)
	}
	if w.demand.interval == 0 || d.RefreshInterval < w.demand.interval {
		w.demand.interval = d.RefreshInterval
	}
	w.demand.maxAge = max(w.demand.maxAge, d.MaxAge)
}

func (w *Watcher) wanted() (windows []time.Duration, interval, maxAge time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.demand.windows), w.demand.interval, w.demand.maxAge
}

// Run refreshes, at once and then at intervals, until ctx is done. After a failure it tries again sooner, with backoff.
func (w *Watcher) Run(ctx context.Context) {
	if closer, ok := w.source.(io.Closer); ok {
		defer func() {
			if err := closer.Close(); err != nil {
				klog.FromContext(ctx).Error(err, "Closing a load source failed", "source", w.source.Name())
			}
		}()
	}
	if !cache.WaitForCacheSync(ctx.Done(), w.ready) {
		return
	}
	var backoff *wait.Backoff
	for {
		err := w.Refresh(ctx)
		_, interval, _ := w.wanted()
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

// Refresh reads the source once and publishes the result. An error means that nothing changed.
func (w *Watcher) Refresh(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("source", w.source.Name())
	windows, _, maxAge := w.wanted()
	batch, err := w.source.Fetch(ctx, windows)
	if err == nil && len(batch.Samples) == 0 {
		err = errors.New("the answer holds no node")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
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
	now := w.clock.Now()
	for i := range batch.Samples {
		w.keep(&batch.Samples[i], windows, now)
	}
	w.forget(now.Add(-maxAge))
	w.publish(logger, windows)
	return nil
}

// keep takes the sample's possible values into the readings of its window; a sample over a window that nobody asked for,
// which a source that knows but one window sends, is the best there is for all of them.
func (w *Watcher) keep(s *load.Sample, windows []time.Duration, now time.Time) {
	end := s.End
	if end.After(now) {
		end = now
	}
	if slices.Contains(windows, s.Window) {
		windows = []time.Duration{s.Window}
	}
	for _, window := range windows {
		nodes, ok := w.readings[window]
		if !ok {
			nodes = map[string]load.NodeLoad{}
			w.readings[window] = nodes
		}
		node := nodes[s.Node]
		keepStat(&node.CPU, s.CPU, s.Window, end)
		keepStat(&node.Memory, s.Memory, s.Window, end)
		if node.CPU.Known || node.Memory.Known {
			nodes[s.Node] = node
		}
	}
}

func keepStat(r *load.Reading, stat load.Stat, window time.Duration, end time.Time) {
	if checked, _ := stat.Checked(); checked.Known && !end.Before(r.End) {
		*r = load.Reading{Stat: checked, Window: window, End: end}
	}
}

// forget drops the nodes that nobody trusts any more, so that nodes that left the cluster take no room.
func (w *Watcher) forget(oldest time.Time) {
	for _, nodes := range w.readings {
		maps.DeleteFunc(nodes, func(_ string, n load.NodeLoad) bool {
			return n.CPU.End.Before(oldest) && n.Memory.End.Before(oldest)
		})
	}
}

func (w *Watcher) publish(logger klog.Logger, windows []time.Duration) {
	tables := make(map[time.Duration]*load.Table, len(windows))
	for _, window := range windows {
		tables[window] = load.NewTable(maps.Clone(w.readings[window]))
		logger.V(4).Info("Load read", "window", window, "nodes", tables[window].Len())
	}
	w.publisher.Publish(load.NewSnapshot(tables))
}
