package source

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

const (
	// linesAtOnce is how many lines about changes of one kind are logged without a wait; linesEvery is the time between further ones.
	linesAtOnce = 6
	linesEvery  = 5 * time.Minute
)

// LogLimit limits how often changes of one kind are logged: what a source says may change at each refresh. Keep what was logged last,
// and compare with that: then a change that lasts is logged as soon as a line is allowed again. The zero value is ready. It is not
// safe for concurrent use.
type LogLimit struct {
	limiter *rate.Limiter
	leftOut int
}

// Allow reports whether a change may be logged now. The returned logger adds how many were not logged since the last one.
func (l *LogLimit) Allow(logger klog.Logger, now time.Time) (klog.Logger, bool) {
	if l.limiter == nil {
		l.limiter = rate.NewLimiter(rate.Every(linesEvery), linesAtOnce)
	}
	if !l.limiter.AllowN(now, 1) {
		l.leftOut++
		return logger, false
	}
	if l.leftOut > 0 {
		logger = logger.WithValues("changesNotLogged", l.leftOut)
		l.leftOut = 0
	}
	return logger, true
}
