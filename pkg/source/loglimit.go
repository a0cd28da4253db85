package source

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

const (
	// linesAtOnce is how many lines about one kind of change are logged without a wait. Further ones need linesEvery.
	linesAtOnce = 6
	linesEvery  = 5 * time.Minute
)

// LogLimit limits the lines about one kind of change: a source may change at each refresh. The zero value is ready.
// Compare with the last logged state: then a lasting change is logged once a line is allowed. It is not safe for concurrent use.
type LogLimit struct {
	limiter *rate.Limiter
	omitted int
}

// Allow reports whether a change may be logged now. The returned logger adds the number of omitted changes.
func (l *LogLimit) Allow(logger klog.Logger, now time.Time) (klog.Logger, bool) {
	if l.limiter == nil {
		l.limiter = rate.NewLimiter(rate.Every(linesEvery), linesAtOnce)
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

// AllowChange is Allow for texts that differ from the last logged ones, which they replace if they are logged.
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
