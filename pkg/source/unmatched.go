package source

import (
	"slices"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

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
