package hosted

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// ProblemLog logs a partial failure of a refresh on change. The zero value has logged nothing yet.
// It is not safe for concurrent use.
type ProblemLog struct {
	last  string
	limit source.LogLimit
}

// Log logs the problem of a refresh that has load, or that the problem is gone.
func (l *ProblemLog) Log(logger klog.Logger, now time.Time, problem error) {
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if text == l.last {
		return
	}
	logger, ok := l.limit.Allow(logger, now)
	if !ok {
		return
	}
	l.last = text
	if problem == nil {
		logger.Info("Load can be read completely again")
		return
	}
	logger.Info("Part of the load cannot be read; nodes keep their last measurement until it expires", "problem", text)
}
