package refresh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

const (
	// maxFileBytes bounds the file of statistics. MaxWorkloads take 2.5 MB.
	maxFileBytes = 4 << 20
	// FileTimeout bounds one use of the file: a mounted file system may hang.
	FileTimeout = 10 * time.Second
	// savePause is the least time between writes of periods of the history, except the last. A write has megabytes.
	savePause = time.Minute
	// fileWait is how long an unreadable file is kept and tried again.
	fileWait = time.Hour
	// refusedSuffix is that of the name of a file that cannot be used.
	refusedSuffix = ".refused"
)

// fileNote is what the file of statistics holds beside them, as JSON.
type fileNote struct {
	// Origin is as in WorkloadConfig.
	Origin string
	// Observed is the time of the last observation.
	Observed time.Time
	// Missing and Length are as in backfill.
	Missing []span
	Length  time.Duration
}

// restore continues with the statistics in File, once it can be read. What was observed before is forgotten: the file has more. If
// the file cannot be used, it gets another name, and learning goes on.
func (w *WorkloadWatcher) restore(ctx context.Context) {
	if !w.unread {
		return
	}
	logger := klog.FromContext(ctx).WithValues("file", w.File)
	limited, cancel := context.WithTimeout(ctx, FileTimeout)
	defer cancel()
	data, err := w.reader.Read(limited)
	if ctx.Err() != nil {
		return
	}
	if unreadable := (*fs.PathError)(nil); errors.As(err, &unreadable) || errors.Is(err, context.DeadlineExceeded) {
		if errors.Is(err, fs.ErrNotExist) {
			w.unread = false
			logger.Info("There is no file of statistics of workloads yet")
			return
		}
		now := w.Clock.Now()
		if w.unreadable.IsZero() {
			w.unreadable = now
		}
		if now.Sub(w.unreadable) < fileWait {
			logger.Error(err, "The file of statistics of workloads cannot be read yet. It is kept, and tried again at the next observation")
			return
		}
	}
	w.unread = false
	if err == nil {
		err = w.continueWith(data)
	}
	if err == nil {
		logger.Info("Continuing with the saved statistics of workloads", "workloads", w.saved.Len(), "observed", w.observed)
		return
	}
	logger.Error(err, "The file of statistics of workloads cannot be used. They are learned anew", "renamed", w.File+refusedSuffix)
	limited, cancel = context.WithTimeout(ctx, FileTimeout)
	defer cancel()
	if err := w.file.Rename(limited, w.File+refusedSuffix); err != nil {
		logger.Error(err, "The file of statistics of workloads cannot be renamed")
	}
}

// continueWith continues with the content of the file. After an error nothing has changed.
func (w *WorkloadWatcher) continueWith(data []byte) error {
	now := w.Clock.Now()
	s, content, err := learned.Decode(data, now, w.bounds())
	if err != nil {
		return err
	}
	var note fileNote
	if err := json.Unmarshal(content, &note); err != nil {
		return fmt.Errorf("its note is damaged: %w", text.ExcerptError(err))
	}
	if note.Origin != w.Origin {
		return fmt.Errorf("it was learned from %s, and the configuration has %s", text.Excerpt(note.Origin), w.Origin)
	}
	if note.Observed.Before(s.At()) || note.Observed.After(now.Add(learned.ClockSkew)) || !areMissing(note.Missing, note.Observed) {
		return errors.New("its note has impossible times")
	}
	w.publisher.Publish(s)
	w.saved = s
	w.firstUnsaved.Store(nil)
	w.observed, w.nextRefresh = note.Observed, note.Observed.Add(WorkloadInterval)
	w.started, w.failed = true, false
	longest := longestOf(w.History)
	w.past = backfill{
		missing: since(now.Add(-w.History), note.Missing), length: min(max(note.Length, shortestPeriod), longest),
		longest: longest, total: w.History,
	}
	w.reportPast()
	return nil
}

// areMissing reports whether the times can be those of a backfill before end.
func areMissing(missing []span, end time.Time) bool {
	for _, s := range missing {
		if !s.Begin.Before(s.End) || s.End.After(end) {
			return false
		}
		end = s.Begin
	}
	return len(missing) <= maxMissing
}

// since returns the parts of the times that begin then or later.
func since(begin time.Time, all []span) []span {
	parts := slices.DeleteFunc(all, func(s span) bool { return !s.End.After(begin) })
	for i := range parts {
		if parts[i].Begin.Before(begin) {
			parts[i].Begin = begin
		}
	}
	return parts
}

// save writes the statistics to File, unless it has them, or has some that were not read yet. A failure changes nothing else. After
// the end of ctx, the process may end first: then the file keeps what it has.
func (w *WorkloadWatcher) save(ctx context.Context) {
	latest := w.publisher.Latest()
	if w.File == "" || w.unread || latest == w.saved || latest.Len() == 0 {
		return
	}
	w.savedAt = w.Clock.Now()
	note, err := json.Marshal(fileNote{Origin: w.Origin, Observed: w.observed, Missing: w.past.missing, Length: w.past.length})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FileTimeout)
		defer cancel()
		err = w.file.Write(ctx, latest.Encode(note))
	}
	w.Metrics.saves.WithLabelValues(w.Label, resultOf(err)).Inc()
	logger := klog.FromContext(ctx).WithValues("file", w.File)
	w.saves.log(logger, w.Clock.Now(), err, "After a restart they are those of the last write")
	if err == nil {
		w.saved = latest
		w.firstUnsaved.Store(nil)
	}
}

// savePast is save after a period of the history.
func (w *WorkloadWatcher) savePast(ctx context.Context) {
	if !w.past.remains() || w.Clock.Since(w.savedAt) >= savePause {
		w.save(ctx)
	}
}

// noteUnsaved notes the newest observation as one that File does not have. Without workloads nothing is saved.
func (w *WorkloadWatcher) noteUnsaved() {
	if latest := w.publisher.Latest(); latest.Len() > 0 && w.firstUnsaved.Load() == nil {
		w.firstUnsaved.Store(ptr.To(latest.At()))
	}
}

// unsaved is the time of the observations that File does not have. Each stands for an interval. It is safe for concurrent use.
func (w *WorkloadWatcher) unsaved() time.Duration {
	first := w.firstUnsaved.Load()
	if first == nil {
		return 0
	}
	return max(w.publisher.Latest().At().Sub(*first), 0) + WorkloadInterval
}
