package source

import (
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// shown is how many elements of a list FirstN shows.
const shown = 5

// FirstN returns the beginning of a list of nodes or series, of which there may be thousands, as text for a log line or an error.
func FirstN(list []string) string {
	if len(list) <= shown {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:shown], ", ") + ", …"
}

// UnmatchedLog logs what a source measured that belongs to no node, whenever it changes. The zero value has logged nothing yet.
type UnmatchedLog struct{ last []string }

// Log logs msg with the number of unmatched names and a few of them, if the names differ from the last ones. The names are
// sorted, and must not be changed afterwards.
func (l *UnmatchedLog) Log(logger klog.Logger, unmatched []string, msg string, keysAndValues ...any) {
	if slices.Equal(unmatched, l.last) {
		return
	}
	l.last = unmatched
	keysAndValues = append(keysAndValues, "count", len(unmatched), "examples", FirstN(unmatched))
	logger.WithCallDepth(1).V(2).Info(msg, keysAndValues...)
}
