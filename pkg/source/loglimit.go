package source

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// After burstLines, one line is logged each lineInterval.
const burstLines, lineInterval = 6, 5 * time.Minute

// LogLimit limits the log lines about a state that may change at each refresh. Callers compare with the last logged state, so that
// a lasting change is logged once a line is allowed. The zero value is ready. It is not safe for concurrent use.
type LogLimit struct {
	limiter *rate.Limiter
	omitted int
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

// AllowChange is Allow for texts that differ from *last, the last logged texts. If it allows them, it sets *last.
func (l *LogLimit) AllowChange(logger klog.Logger, now time.Time, last *[]string, texts []string) (klog.Logger, bool) {
	if slices.Equal(*last, texts) {
		return logger, false
	}
	logger, ok := l.Allow(logger, now)
	if ok {
		*last = texts
	}
	return logger, ok
}
