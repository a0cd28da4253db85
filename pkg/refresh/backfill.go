package refresh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// A period of the history takes nine queries, one after the other. Its length changes until it takes at most periodTime, or has
	// one look. The three of cpu cost the most, and the same. So each query takes the source less than two seconds, unless one look
	// takes more.
	shortestPeriod, longestPeriod = 10 * time.Minute, 6 * time.Hour
	periodTime                    = 6 * time.Second
	// A history beyond a day is read in longer periods, because looks are rarer.
	longestShare = 4
	// The newest time, and a short gap, have a look each WorkloadInterval. So the variance of one pod is known soon.
	// The rest has about 48 looks, however short its periods are: the source pays for each.
	newestTime = 30 * time.Minute
	mostLooks  = 48
	// pause is the time between two periods, over the time that the last took. So the source works for a twentieth of the time.
	pause      = 19
	leastPause = time.Second
	// historyAttempts is the number of attempts to read a shortest period. The next one is after givenUpFor.
	historyAttempts = 3
	givenUpFor      = time.Hour
)

type span struct{ Begin, End time.Time }

// backfill is what is missing of the history of workloads. The newest is read first, and counts at once.
type backfill struct {
	// missing are times without common moments, the newest first.
	missing []span
	// givenUp says that the missing history is left out, until notBefore or until more is missing.
	givenUp         bool
	length, longest time.Duration
	// notBefore is when the next period may be read, where the source is to have little work at once.
	notBefore time.Time
	total     time.Duration
	attempts  int
	// absent is the accepted share of missing pods. It falls to what the last period lacked.
	absent float64
	// incomplete says which pods the history lacks, and lost is the end of the newest period without them. empty has no pods: they are
	// lost if the source knows older ones.
	incomplete error
	lost       time.Time
	empty      span
}

func newBackfill(end time.Time, history time.Duration) backfill {
	missing := []span{{end.Add(-min(newestTime, history)), end}}
	if history > newestTime {
		missing = append(missing, span{end.Add(-history), missing[0].Begin})
	}
	longest := min(max(longestPeriod, history/longestShare), history)
	return backfill{missing: missing, length: min(shortestPeriod, history), longest: longest, total: history}
}

func (b *backfill) step() time.Duration {
	if newest := b.missing[0]; newest.End.Sub(newest.Begin) <= newestTime {
		return WorkloadInterval
	}
	return stepOf(b.total / mostLooks)
}

// stepOf rounds a time between two looks to whole intervals between observations. Their number has no factor in common with the
// intervals of an hour or a day. Looks at each half hour would never see what runs for minutes at each full hour.
func stepOf(least time.Duration) time.Duration {
	intervals := max(least/WorkloadInterval, 1)
	for intervals%2 == 0 || intervals%3 == 0 {
		intervals++
	}
	return intervals * WorkloadInterval
}

// maxMissing bounds the times that are missing. Each failure of the source adds one at most.
const maxMissing = 32

// add adds a time that is newer than all others, unless it is too short to be worth the queries. It cuts off what is older than
// the history.
func (b *backfill) add(s span) {
	if oldest := s.End.Add(-b.total); s.Begin.Before(oldest) {
		s.Begin = oldest
	}
	if s.End.Sub(s.Begin) >= WorkloadInterval {
		b.missing = append([]span{s}, b.missing[:min(len(b.missing), maxMissing-1)]...)
		b.givenUp, b.attempts = false, 0
	}
}

func (b *backfill) remains() bool            { return len(b.missing) > 0 && !b.givenUp }
func (b *backfill) isDue(now time.Time) bool { return b.remains() && !now.Before(b.notBefore) }

// read is the share of the history that has been read, in [0, 1].
func (b *backfill) read() float64 {
	if b.total <= 0 {
		return 1
	}
	var missing time.Duration
	for _, s := range b.missing {
		missing += s.End.Sub(s.Begin)
	}
	return max(1-float64(missing)/float64(b.total), 0)
}

// next is the next period. It has at least one look, unless less is missing.
func (b *backfill) next() source.Period {
	newest, step := b.missing[0], b.step()
	remaining := newest.End.Sub(newest.Begin)
	return source.Period{End: newest.End, Length: min(max(b.length, step), remaining), Step: min(step, remaining), Missing: b.absent}
}

// accept accepts that pods are missing, if that is the error, and more than before.
func (b *backfill) accept(err error) bool {
	incomplete, ok := errors.AsType[*source.IncompleteError](err)
	if !ok {
		return false
	}
	absent := 1 - float64(incomplete.Has)/float64(incomplete.Expected)
	if absent <= b.absent {
		return false
	}
	b.absent, b.attempts = absent, 0
	b.lacks(err, b.missing[0].End)
	return true
}

func (b *backfill) lacks(err error, end time.Time) {
	if b.incomplete = err; end.After(b.lost) {
		b.lost = end
	}
}

// found notes the share of the pods that the period lacked.
func (b *backfill) found(p source.Period, missing float64) {
	begin := p.End.Add(-p.Length)
	switch {
	case missing < 1:
		if b.absent = min(b.absent, missing); !b.empty.End.IsZero() {
			b.lacks(fmt.Errorf("no pod has usage from %s to %s, and older ones have: see whether a store of the server is down",
				b.empty.Begin.UTC().Format(time.DateTime), b.empty.End.UTC().Format(time.DateTime)), b.empty.End)
		}
		b.empty = span{}
	case b.empty.Begin.Equal(p.End):
		b.empty.Begin = begin
	default:
		b.empty = span{begin, p.End}
	}
}

// done takes the period out of what is missing. It took a time until now.
func (b *backfill) done(p source.Period, took time.Duration, now time.Time) {
	b.attempts = 0
	newest := &b.missing[0]
	if newest.End = p.End.Add(-p.Length); !newest.End.After(newest.Begin) {
		b.missing = b.missing[1:]
	}
	length := max(b.length, p.Step)
	switch {
	case took > periodTime:
		length /= 2
	case took < periodTime/2:
		length *= 2
	}
	b.length = min(max(length, shortestPeriod), b.longest)
	b.rest(took, leastPause, now)
}

// failed makes the next period shorter: it may have been too expensive for the source. It reports whether to give up, after several
// attempts at the shortest.
func (b *backfill) failed(took time.Duration, now time.Time) (givesUp bool) {
	asked := b.next().Length
	if asked > max(shortestPeriod, b.step()) {
		b.length = max(b.length/2, shortestPeriod)
		b.rest(took, leastPause, now)
		return false
	}
	b.attempts++
	b.rest(took, WorkloadInterval, now) // the source may be down
	return b.attempts >= historyAttempts
}

func (b *backfill) rest(took, least time.Duration, now time.Time) {
	b.notBefore = now.Add(max(pause*took, least))
}

// fetchPeriod reads a period of the history. A panic is an error, so that the next attempt waits.
func (w *WorkloadWatcher) fetchPeriod(ctx context.Context, p source.Period,
) (observations []learned.Observation, missing float64, err error) {
	defer func() { err = w.Metrics.panicked(ctx, w.Label, recover(), err) }()
	names := w.namesByOwner()
	missing, err = w.history.FetchHistory(ctx, p, MaxWorkloads, func(u *source.WorkloadUsage) {
		workload := learned.Workload{Namespace: u.Namespace, Name: u.Workload}
		if name, ok := names[workload]; ok {
			workload.Name = name
		}
		within := max(u.SumSquares-u.Sum*u.Sum/u.Pods, 0) // the history does not tell pods apart
		observations = append(observations, learned.Observation{
			Workload: workload, Resource: u.Resource, At: p.End.Add(-p.Length / 2), Span: p.Length, Pods: u.Pods, Sum: u.Sum,
			SumSquares: u.SumSquares, Within: within,
		})
	})
	return observations, missing, err
}

// readPeriod adds the next missing period of the history. It reports whether it could be read.
func (w *WorkloadWatcher) readPeriod(ctx context.Context) bool {
	logger, began, p := klog.FromContext(ctx), w.Clock.Now(), w.past.next()
	observations, missing, err := w.fetchPeriod(ctx, p)
	w.countRejected()
	if ctx.Err() != nil {
		return false
	}
	now := w.Clock.Now()
	defer w.reportPast()
	if w.historyErr = err; err != nil {
		switch givesUp := w.past.failed(now.Sub(began), now); {
		case givesUp && w.past.accept(err):
			logger.Info("The history of workloads is read without the pods that are missing", "err", err, "before", p.End)
		case givesUp:
			logger.Error(err, "The history of workloads cannot be read and is left out", "before", p.End, "read", w.past.read())
			w.past.givenUp, w.past.notBefore = true, now.Add(givenUpFor)
		default:
			logger.Info("The history of workloads cannot be read yet", "err", err, "before", p.End)
		}
		return false
	}
	latest := w.publisher.Latest()
	w.publisher.Publish(latest.With(observations, latest.Cluster(), w.bounds()))
	first := w.past.read() == 0
	w.past.found(p, missing)
	w.past.done(p, now.Sub(began), now)
	switch {
	case !w.past.remains():
		logger.Info("The history of workloads has been read", "history", w.History, "workloads", w.publisher.Latest().Len())
	case first:
		logger.Info("Reading the history of workloads, the newest first", "history", w.History, "read", p.Length)
	}
	return true
}

func (w *WorkloadWatcher) reportPast() {
	if w.history == nil {
		return
	}
	givenUp := map[bool]float64{true: 1}[w.past.givenUp]
	w.Metrics.history.WithLabelValues(w.Label).Set(w.past.read())
	w.Metrics.givenUp.WithLabelValues(w.Label).Set(givenUp)
}
