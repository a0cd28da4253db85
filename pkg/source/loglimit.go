package source

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// After burstLines, one line is logged each lineInterval.
const burstLines, lineInterval = 6, 5 * time.Minute

// LogLimit limits the log lines about a state that may change at each refresh. Callers compare with the last logged state, so that
// a lasting change is logged once a line is allowed. The zero value is ready. It is not safe for concurrent use.
type LogLimit struct {
	limiter *rate.Limiter
	omitted int
	last    []string
}

// Allow reports whether a change may be logged now. The returned logger adds the number of omitted changes.
func (l *LogLimit) Allow(logger klog.Logger, now time.Time) (klog.Logger, bool) {
	if l.limiter == nil {
		l.limiter = rate.NewLimiter(rate.Every(lineInterval), burstLines)
	}
	if !l.limiter.AllowN(now, 1) {
		l.omitted++
		return logger, false
	}
	if l.omitted > 0 {
		logger = logger.WithValues("changesNotLogged", l.omitted)
		l.omitted = 0
	}
	return logger, true
}

// AllowChange is Allow for texts that differ from the last allowed texts.
func (l *LogLimit) AllowChange(logger klog.Logger, now time.Time, texts []string) (klog.Logger, bool) {
	if slices.Equal(l.last, texts) {
		return logger, false
	}
	logger, ok := l.Allow(logger, now)
	if ok {
		l.last = texts
	}
	return logger, ok
}

// MaxUnmatched is how many names without a node a source keeps.
const MaxUnmatched = 4096

// UnmatchedLog logs names of series that match no node, when they change. The zero value is ready.
type UnmatchedLog struct{ last []string }

// Log logs msg with the number of unmatched names, and examples, if they differ from the last ones.
// The names are sorted, and must not be changed afterwards.
func (l *UnmatchedLog) Log(logger klog.Logger, unmatched []string, msg string, keysAndValues ...any) {
	if slices.Equal(unmatched, l.last) {
		return
	}
	l.last = unmatched
	keysAndValues = append(keysAndValues, "count", len(unmatched), "examples", text.FirstN(unmatched))
	logger.WithCallDepth(1).V(2).Info(msg, keysAndValues...)
}
